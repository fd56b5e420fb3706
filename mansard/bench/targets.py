"""The numbers to reach. A row that misses its target is shown as a miss in every table; nothing is left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .batched.operations import BATCHED, SOLVES
from .batched.summary import is_square, largest
from .factor import targets as factor_targets
from .factor.operations import FACTORS
from .operations import ORTHOGONAL
from .overhead import CHEAPEST
from .rows import OURS, Row, operation_of
from .sparse import targets as powers_targets
from .sparse.operations import SPARSE
from .tall_skinny import experiments

_NOISE = experiments.SLOWER  # "never below the peer" allows for this much

# up to width -> per cent of the measured read bandwidth, GPU, operands out of cache; also where arithmetic is the limit
# (complex64 beyond M = 30), so that a miss shows as one
_GPU_READ = {
    "float64": ((63, 95.0), (64, 92.0)),
    "complex128": ((32, 95.0), (48, 85.0), (64, 70.0)),
    "float32": ((32, 88.0), (64, 80.0)),
    "complex64": ((32, 88.0), (64, 80.0)),
}
# the same for tsmm, of the copy bandwidth
_GPU_TSMM = {
    "float64": ((64, 95.0),),
    "complex128": ((32, 96.0), (48, 85.0), (64, 70.0)),
    "float32": ((32, 88.0), (64, 80.0)),
    "complex64": ((32, 88.0), (64, 80.0)),
}
_GPU_RECTANGLE = 90.0
_GPU_TSM2R = {"float64": 92.0, "float32": 90.0}  # of the read bandwidth
_GPU_TSM2L = (10_000_000, 92.0)  # rows, of the copy bandwidth
_MODEL = 0.9  # the model's choice, of the best
_PASSES = ((1e7, 5), (1e12, 8))  # condition of A -> passes of cholesky_qr
_SLACK = 1.1
# (K, M) -> microseconds inside a graph, float64
_GPU_GRAPH = {(10_000, 4): 7, (10_000, 16): 8, (10_000, 64): 10, (100_000, 4): 8, (100_000, 16): 10, (100_000, 64): 30}
# (K, M) -> share of PyTorch's time when called from Python
_GPU_EAGER = {(10_000, 4): 1.0, (10_000, 16): 1.0, (10_000, 64): 1.0, (100_000, 4): 0.6, (100_000, 16): 0.6}
# of batches: largest size -> per cent of the copy bandwidth; from 32 on the best peer decides
_GPU_BATCH = {"float64": ((18, 97.0), (31, 91.0)), "other": ((31, 88.0),)}
_GPU_BATCH_RECTANGLE, _GPU_BATCH_ADDED, _BATCH_LARGE = 85.0, 88.0, 32
_GPU_BATCH_SMALL = 12  # microseconds of a call
_GPU_VECTOR = (4, 256, 85.0)  # sizes of gemv, per cent of the read bandwidth
_GPU_SYSTEM = (32, 60.0, 1.5)  # size of trsv, per cent of the bandwidth, times cuBLAS
_GPU_RAGGED = 85.0  # per cent of the uniform batch with the same bytes
# float64, up to a size: per cent of P_max; from 12 to 32 of the limit, which arithmetic is where caches feed it fast
# enough; times NumPy and PyTorch
_CPU_BATCH, _CPU_BATCH_WIDE, _CPU_BATCH_PEER = (8, 95.0), (12, 32, 75.0), (16, 5.0)
_ARRAY_LIBRARIES = ("NumPy", "PyTorch")
_PLANNED, _UNPLANNED = 5e-6, 12e-6  # above the cheapest launch


def misses(results: dict[str, Any]) -> list[tuple[Row, str]]:
    """Our rows that miss a target, each with what was asked and what was found."""
    rows = results["rows"]
    backend = results["environment"].get("backend")
    gpu = backend == "cuda"
    others = {(row["case"], row["contender"]): row for row in rows}
    found = []
    for row in rows:
        if row["contender"] == OURS and row["status"] in ("wrong", "failed"):
            found.append((row, f"{row['status']}: {row.get('note') or 'error ' + format(row.get('error', 0), '.3g')}"))
        elif row["contender"] == OURS and row["status"] == "ok" and not row.get("pins") and backend in ("cpu", "cuda"):
            texts = _judge(operation_of(row), gpu)(row, others)
            found += [(row, text) for text in texts]
    return found + _overheads(rows, gpu) + (_models(rows) + powers_targets.together(rows) if gpu else [])


def _judge(operation: str, gpu: bool) -> Any:
    """What says which targets a row of the operation misses."""
    if operation in FACTORS:
        return factor_targets.gpu if gpu else factor_targets.cpu
    if operation in SPARSE:
        return powers_targets.gpu if gpu else powers_targets.cpu
    return _gpu if gpu else _cpu


def _gpu(row: Row, others: dict[tuple[str, str], Row]) -> Iterable[str]:
    if operation_of(row) in BATCHED:
        yield from _gpu_batch(row)
    elif operation_of(row) == "matmul":
        yield from _not_below_peer(row, 1.0)
    elif operation_of(row) in ORTHOGONAL:
        yield from _too_many_passes(row)
    elif row["mode"] == "device":
        wanted = _read_target(row)
        if wanted and row["percent_bandwidth"] < wanted:
            yield f"{row['percent_bandwidth']:.1f} % of the bandwidth, target {wanted:.0f}"
        yield from _not_below_peer(row, 1.0)
    elif operation_of(row) == "tsmm":
        yield from _few_rows_of_tsmm(row, others)
    elif row["mode"] == "graph":
        limit = _GPU_GRAPH.get((row["K"], row["M"]))
        if limit and row["median"] * 1e6 > limit:
            yield f"{row['median'] * 1e6:.1f} us in a graph ({row['temperature']}), target {limit}"
    elif row["mode"] == "eager":
        share = _GPU_EAGER.get((row["K"], row["M"]))
        torch = others.get((row["case"], "PyTorch (cuBLAS)"), {})
        if share and torch.get("median") and row["median"] > share * torch["median"]:
            yield (f"{row['median'] * 1e6:.1f} us from Python ({row['temperature']}), target "
                   f"{share:.0%} of PyTorch's {torch['median'] * 1e6:.1f}")  # fmt: skip


def _read_target(row: Row) -> float | None:
    if operation_of(row) == "tsm2r":
        return _GPU_TSM2R.get(row["dtype"])
    if row["set"] == "tsm2l":
        return _GPU_TSM2L[1] if row["K"] == _GPU_TSM2L[0] else None
    if operation_of(row) == "tsmm":
        return next((wanted for width, wanted in _GPU_TSMM[row["dtype"]] if max(row["M"], row["N"]) <= width), None)
    if row["layout"] != "row" or row["same"]:
        return None
    if row["M"] != row["N"]:
        return _GPU_RECTANGLE
    return next((wanted for width, wanted in _GPU_READ[row["dtype"]] if row["M"] <= width), None)


def _gpu_batch(row: Row) -> Iterable[str]:
    if row["mode"] != "device":
        if row["set"] == "small" and row["median"] * 1e6 > _GPU_BATCH_SMALL:
            yield f"{row['median'] * 1e6:.1f} us, target {_GPU_BATCH_SMALL}"
    elif operation_of(row) == "gemm":
        yield from _gpu_products(row)
    elif operation_of(row) == "gemv" and _GPU_VECTOR[0] <= largest(row) <= _GPU_VECTOR[1]:
        yield from _below(row, "percent_bandwidth", _GPU_VECTOR[2], "of the read bandwidth")
    elif operation_of(row) == "trsv" and row["M"] <= _GPU_SYSTEM[0]:
        yield from _below(row, "percent_bandwidth", _GPU_SYSTEM[1], "of the bandwidth")
        yield from _not_below_peer(row, _GPU_SYSTEM[2])
    elif operation_of(row) == "ragged":
        yield from _below(row, "percent_uniform", _GPU_RAGGED, "of the uniform batch")


def _gpu_products(row: Row) -> Iterable[str]:
    size = largest(row)
    wanted = next((share for most, share in _GPU_BATCH.get(row["dtype"], _GPU_BATCH["other"]) if size <= most), None)
    if size <= _BATCH_LARGE and not is_square(row):
        wanted = _GPU_BATCH_RECTANGLE
    elif size <= _BATCH_LARGE and row["accumulate"]:
        wanted = _GPU_BATCH_ADDED
    if wanted and row["temperature"] == "cold":
        yield from _below(row, "percent_bandwidth", wanted, "of the copy bandwidth")
    if size >= _BATCH_LARGE:
        yield from _not_below_peer(row, 1.0)


def _below(row: Row, name: str, wanted: float, of: str) -> Iterable[str]:
    if row.get(name) is not None and row[name] < wanted:
        yield f"{row[name]:.1f} % {of}, target {wanted:.0f}"


def _cpu_batch(row: Row, others: dict[tuple[str, str], Row]) -> Iterable[str]:
    if row["mode"] != "device":
        return
    if operation_of(row) in ("gemv", "ragged", *SOLVES):
        yield from _not_below_peer(row, 1.0)
    elif row["dtype"] == "float64" and not row["accumulate"] and is_square(row):
        if row["M"] <= _CPU_BATCH[0]:
            yield from _below(row, "percent_bandwidth", _CPU_BATCH[1], "of P_max")
        if _CPU_BATCH_WIDE[0] <= row["M"] <= _CPU_BATCH_WIDE[1]:
            yield from _below(row, "percent_limit", _CPU_BATCH_WIDE[2], "of the limit")
        for name in _ARRAY_LIBRARIES if row["M"] <= _CPU_BATCH_PEER[0] else ():
            ratio = others.get((row["case"], name), {}).get("median", float("inf")) / row["median"]
            if ratio < _CPU_BATCH_PEER[1]:
                yield f"{ratio:.2f} x {name}, target {_CPU_BATCH_PEER[1]:g}"


def _too_many_passes(row: Row) -> Iterable[str]:
    wanted = next((passes for condition, passes in _PASSES if row["condition"] <= condition), None)
    if operation_of(row) == "cholesky_qr" and wanted and row["passes"] > _SLACK * wanted and row["K"] >= _GPU_TSM2L[0]:
        yield f"{row['passes']:.2f} passes, target {wanted} + 10 %"


def _models(rows: list[Row]) -> list[tuple[Row, str]]:
    """Choices of TSM2's model that fall behind, and those that no kernel allows."""
    found = [
        (each.chosen, f"{each.share:.1%} of the speed of {experiments.parameters_of(each.best)}, target {_MODEL:.0%}")
        for each in experiments.choices(rows)
        if each.share < _MODEL
    ]
    lost = [row for row in rows if row.get("role") == "model" and row["status"] == "illegal"]
    return found + [(row, f"the model's choice is illegal: {row.get('note', '')}") for row in lost]


def _few_rows_of_tsmm(row: Row, others: dict[tuple[str, str], Row]) -> Iterable[str]:
    torch = others.get((row["case"], "PyTorch (cuBLAS)"), {})
    share = {"graph": 0.7, "eager": 1.0}[row["mode"]]
    if row["K"] <= 100_000 and torch.get("median") and row["median"] > share * torch["median"]:
        yield f"{row['median'] * 1e6:.1f} us, target {share:.0%} of PyTorch's {torch['median'] * 1e6:.1f}"


def _cpu(row: Row, others: dict[tuple[str, str], Row]) -> Iterable[str]:
    if operation_of(row) in BATCHED:
        yield from _cpu_batch(row, others)
        return
    if operation_of(row) == "matmul":
        yield from _not_below_peer(row, 1.0)
    if operation_of(row) in (*ORTHOGONAL, "matmul"):
        return
    if operation_of(row) == "tsmm":
        yield from _not_below_peer(row, 1.5 if max(row["M"], row["N"]) <= 16 else 1.0)
        return
    if row["mode"] != "device" or row["layout"] != "row" or row["dtype"] not in ("float64", "complex128"):
        return
    width = max(row["M"], row["N"])
    wanted = 85.0 if width <= 8 else 65.0
    product = row["M"] == row["N"] and not row["same"]
    if row["percent_limit"] < wanted and product:
        yield f"{row['percent_limit']:.1f} % of the limit, target {wanted:.0f}"
    yield from _not_below_peer(row, 1.3 if width <= 32 and product else 1.0)


def _not_below_peer(row: Row, wanted: float) -> Iterable[str]:
    if row.get("x_peer") and row["x_peer"] < wanted * (_NOISE if wanted == 1.0 else 1.0):
        yield f"{row['x_peer']:.2f} x {row['best_peer']}, target {wanted:g}"


def _overheads(rows: list[Row], gpu: bool) -> list[tuple[Row, str]]:
    host = [row for row in rows if row["mode"] == "host" and row.get("median")]
    cheapest = next((row["median"] for row in host if row["contender"] == CHEAPEST), None)
    found = []
    for row in host if gpu and cheapest is not None else ():
        limit = {"plan": _PLANNED, "plan.run": _PLANNED, "ms.gram": _UNPLANNED}.get(row["contender"].partition("(")[0])
        if limit and row["median"] - cheapest > limit:
            over = f"{(row['median'] - cheapest) * 1e6:.1f} us above the cheapest launch"
            found.append((row, f"{row['contender']}: {over}, target {limit * 1e6:.0f}"))
    return found
