"""Draw the problems of a recording: random ones of every family, those of the shipped tuning tables, and test cases.

Only the last two ask the library, when `problems.jsonl.gz` is made; a recording reads that file.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from math import gcd
from pathlib import Path
from random import Random
from typing import Any

from .draws import DTYPES, ITEMSIZE, batch, flags, length, operand, stacked, width

FILE = Path(__file__).with_name("problems.jsonl.gz")
Fields = dict[str, Any]
Draw = Callable[[Random, str], Fields]


def gram(random: Random, dtype: str) -> Fields:
    M, N, K = width(random), width(random), length(random)
    same = random.random() < 0.25
    N = M if same or random.random() < 0.4 else N
    first = operand(random, "a", K, M, dtype)
    other = {name.replace("_a", "_b"): value for name, value in first.items()}
    second = other if same else operand(random, "b", K, N, dtype)
    more = flags(random, aligned=0.85, conj=0.85, deterministic=0.85)
    return {"M": M, "N": N, "K": K, **first, **second, "same": same, **more}


def tsmm(random: Random, dtype: str) -> Fields:
    M, K = width(random), length(random)
    N = M if random.random() < 0.4 else width(random)
    first = operand(random, "a", K, M, dtype)
    in_place = M == N and random.random() < 0.4
    copied = {name.replace("_a", "_w"): value for name, value in first.items()}
    second = copied if in_place else operand(random, "w", K, N, dtype)
    return {"M": M, "N": N, "K": K, **first, **second, "in_place": in_place, **flags(random, aligned=0.85, conj=0.3)}


def tsm2r(random: Random, dtype: str) -> Fields:
    M, N = random.choice((2048, 4096, 10000, 15360, 30720, random.randint(33, 5000))), width(random, 64)
    K = M if random.random() < 0.5 else random.randint(1, 20000)
    layouts = {f"layout_{side}": random.choice(("row", "row", "col")) for side in "bc"}
    more = flags(random, aligned=0.85, conj_a=0.3, conj_b=0.3)
    return {"M": M, "N": N, "K": K, **operand(random, "a", M, K, dtype), **layouts, **more}


def matmul_gram(random: Random, dtype: str) -> Fields:
    most = 26 if dtype.startswith("complex") else 52  # of N: little beyond what a kernel accepts
    M, N, K = width(random), width(random, most), length(random)
    in_place = random.random() < 0.4
    M = N if in_place else M
    pitch = M if in_place or random.random() < 0.7 else M + random.randint(1, 8)
    return {"M": M, "N": N, "K": K, "pitch_a": pitch, "in_place": in_place, **flags(random, aligned=0.85, conj=0.3)}


def gemm(random: Random, dtype: str) -> Fields:
    M, N, K = (width(random, 256) for _ in range(3))
    if random.random() < 0.5:
        M = N = K = width(random, 64)
    shapes = {"a": (M, K), "b": (K, N), "c": (M, N)}
    more = flags(random, aligned=0.85, conj_a=0.2, conj_b=0.2, accumulate=0.3)
    return {"M": M, "N": N, "K": K, "BATCH": batch(random), **stacked(random, shapes, dtype, "ab", True), **more}


def gemv(random: Random, dtype: str) -> Fields:
    M = width(random) if random.random() < 0.8 else random.randint(129, 4200)
    K = M if random.random() < 0.5 else width(random)
    traits = stacked(random, {"a": (M, K)}, dtype)
    stack = traits["stack_a"]
    for side in "bc":
        step = random.choice((1, 1, 2, 5)) if stack == "strided" else 1
        traits |= {f"stack_{side}": stack, f"pitch_{side}": step}
    if random.random() < 0.15 and stack == "packed":
        traits[random.choice(("stack_a", "stack_b"))] = "shared"
    more = flags(random, aligned=0.85, conj_a=0.2, conj_b=0.2, accumulate=0.3)
    return {"M": M, "K": K, "BATCH": batch(random), **traits, **more}


def trsm(random: Random, dtype: str) -> Fields:
    N = width(random) if random.random() < 0.85 else random.randint(65, 256)
    right = random.choice((1, 1, 1, 2, 3, 4, 5, 8, 16, 32, 64, N, random.randint(1, 300)))
    if right == 1 and random.random() < 0.3:
        N = random.randint(128, 2048)
    side = random.choice(("left", "left", "right"))
    shape = (N, right) if side == "left" else (right, N)
    traits = stacked(random, {"a": (N, N), "b": shape}, dtype, "a")
    kind = {"side": side, "uplo": random.choice(("lower", "upper")), "trans": random.choice("NNTCR")}
    return {"N": N, "NRHS": right, "BATCH": batch(random), **kind, **traits, **flags(random, unit=0.25, aligned=0.85)}


def cholesky(random: Random, dtype: str) -> Fields:
    N = width(random) if random.random() < 0.85 else random.randint(129, 320)
    uplo, want = random.choice(("lower", "lower", "upper")), random.choice(("factor", "factor", "solve"))
    if random.random() < 0.08:
        return {"N": N, "BATCH": batch(random), "uplo": uplo, "stack_a": "ragged", "stack_f": "ragged"}
    right = random.choice((1, 1, 2, 4, 7, 16)) if want == "solve" else 0
    shapes = {"a": (N, N), "b": (N, right)} if right else {"a": (N, N)}
    traits = stacked(random, shapes, dtype)
    more = flags(random, aligned=0.85)
    return {"N": N, "NRHS": right, "BATCH": batch(random), "want": want, "uplo": uplo, **traits, **more}


def lu(random: Random, dtype: str) -> Fields:
    want = random.choice(("factor", "factor", "factor", "solve", "solve", "inverse", "determinant", "logdet", "swap"))
    M = N = width(random)
    if want in ("factor", "swap") and random.random() < 0.5:
        M, N = random.choice(((width(random), N), (random.randint(65, 2048), width(random, 32))))
    right = {"solve": random.randint(1, 8), "swap": random.randint(1, M)}.get(want, 0)
    shapes = {"a": (M, N), "b": (N, right)} if want == "solve" else {"a": (M, N)}
    more = flags(random, pivot=0.85, aligned=0.85)
    return {"M": M, "N": N, "NRHS": right, "BATCH": batch(random), "want": want, **stacked(random, shapes, dtype),
            **more}  # fmt: skip


def qr(random: Random, dtype: str) -> Fields:
    want = random.choice(("raw", "raw", "r", "reduced", "reduced", "complete", "solve", "panel"))
    N = width(random, 32 if want == "panel" else 128)
    M = N if random.random() < 0.4 else max(N, random.randint(1, 400)) if want == "solve" else width(random)
    right = random.choice((1, 1, 2, 5, 16)) if want == "solve" else 0
    shapes = {"a": (M, N), "b": (M, right)} if right else {"a": (M, N)}
    more = flags(random, aligned=0.85)
    return {"M": M, "N": N, "NRHS": right, "BATCH": batch(random), "want": want, **stacked(random, shapes, dtype),
            **more}  # fmt: skip


def spmv(random: Random, dtype: str) -> Fields:
    rows, each = random.choice((1, 33, 1000, 10**5, 10**6, 1 << 24)), random.choice((1, 3, 5, 7, 9, 27, 81, 300))
    vectors = random.choice((1, 1, 1, 2, 3, 4, 8, 16, 33, 64))
    form = random.choice(("sell", "sell", "sell", "ell", "csr", "csr"))
    index = random.choice(("int32", "int32", "int64", "delta16") if form == "sell" else ("int32", "int32", "int64"))
    narrow = {"float64": "float32", "complex128": "complex64", "complex64": "float32"}
    values = narrow.get(dtype, dtype) if random.random() < 0.2 else dtype
    chunk = random.choice((32, 32, 32, 8, 4, 1)) if form == "sell" else 32
    vector = random.choice((1, gcd(vectors, max(1, 16 // ITEMSIZE[dtype]))))
    more = flags(random, ragged=0.6, permuted=0.2, skewed=0.2, accumulate=0.25, recurrence=0.2, conj=0.1, wide=0.2)
    return {"ROWS": rows, "COLS": rows, "NNZ": rows * each, "NVECS": vectors, "format": form, "values": values,
            "index": index, "C": chunk, "vector": vector, **more}  # fmt: skip


def powers(random: Random, dtype: str) -> Fields:
    rows, each = random.choice((1000, 10**5, 10**6, 1 << 22)), random.choice((3, 5, 7, 9, 27))
    output = random.choice(("all", "all", "last", "combination"))
    sets = random.choice((1, 2)) if output == "combination" else 1
    found = {"ROWS": rows, "NNZ": rows * each, "P": random.randint(1, 12), "NVECS": random.choice((1, 1, 1, 2, 4)),
             "index": random.choice(("int32", "int32", "delta16")), "output": output, "sets": sets,
             **flags(random, shifted=0.4, three_term=0.3, ragged=0.5)}  # fmt: skip
    kind = random.random()
    if kind < 0.4:
        found["band"] = random.choice((1, 32, 300, 1000, 10000))
    elif kind < 0.6:
        found["part"] = random.choice(("fill", "permute", "combine"))
    return found


def small_step(random: Random, dtype: str) -> Fields:
    return {"N": width(random)}


def ragged_gemm(random: Random, dtype: str) -> Fields:
    size_class = random.choice([*range(15), "sort", "place"])
    counted = random.random() < 0.5
    more = flags(random, trans_a=0.4, conj_a=0.2, trans_b=0.4, conj_b=0.2, accumulate=0.3)
    return {"BATCH": batch(random), "size_class": size_class, "counted": counted, **more}


# How many problems of each family are drawn, of every 1520.
SHARES: dict[Draw, int] = {
    gram: 180, tsmm: 150, tsm2r: 80, matmul_gram: 60, gemm: 180, gemv: 90, trsm: 150, cholesky: 120, lu: 150, qr: 120,
    spmv: 90, powers: 70, small_step: 20, ragged_gemm: 60,
}  # fmt: skip
_RECORDED, _CASES = 0.12, 0.16  # shares of all problems: from tuning tables, from test cases


def sampled(count: int, seed: int) -> list[dict[str, Any]]:
    """Problems with names, sorted by name; the same for the same seed, package and test cases."""
    from . import adapter

    random = Random(seed)
    kept = _spread(random, adapter.recorded(), round(_RECORDED * count), "recorded")
    kept += _spread(random, adapter.known_cases(), round(_CASES * count), "case")
    rest = count - len(kept)
    for draw, share in SHARES.items():
        for number in range(round(rest * share / sum(SHARES.values()))):
            dtype = DTYPES[number % 4]
            entry = {"family": draw.__name__, "dtype": dtype, "fields": draw(random, dtype)}
            kept.append({"name": f"{draw.__name__}-drawn-{number:03}", **entry})
    return sorted(kept[:count], key=lambda entry: str(entry["name"]))


def _spread(random: Random, found: list[dict[str, Any]], count: int, kind: str) -> list[dict[str, Any]]:
    """So many of the entries, about equally many of every family."""
    by_family: dict[str, list[dict[str, Any]]] = {}
    for entry in found:
        by_family.setdefault(entry["family"], []).append(entry)
    kept: list[dict[str, Any]] = []
    while len(kept) < count and any(by_family.values()):
        for family, entries in by_family.items():
            if entries and len(kept) < count:
                kept.append({"name": f"{family}-{kind}-{len(kept):03}", **entries.pop(random.randrange(len(entries)))})
    return kept


def write(entries: list[dict[str, Any]]) -> None:
    """Replace the file of problems; equal problems make equal files."""
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    FILE.write_bytes(gzip.compress(lines.encode(), mtime=0))


def read(count: int | None = None, seed: int = 0) -> list[dict[str, Any]]:
    """The problems of the file, or `count` of them chosen by `seed`, as many of each family as in the file."""
    entries = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).splitlines()]
    if count is None or count >= len(entries):
        return entries
    ranked = sorted(range(len(entries)), key=lambda number: Random(f"{seed} {entries[number]['name']}").random())
    totals = Counter(entry["family"] for entry in entries)
    seen: Counter[str] = Counter()
    places = {}
    for number in ranked:  # the n-th of a family of m stands at n / m, so that a prefix has its share of every family
        family = entries[number]["family"]
        seen[family] += 1
        places[number] = (seen[family] - 0.5) / totals[family]
    return [entries[number] for number in sorted(sorted(ranked, key=places.__getitem__)[:count])]
