"""Cases of the benchmark in named sets. A case is one problem, how it is called, and what is pinned.

Sets depend on the device only through `Size` (how large "out of cache" is), so they can be listed, counted and tested
anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from ..codegen.geometry import Device
from ..kernels import family_of
from ..machine.probes_cpu import last_level_cache
from ..plan.problem import ITEMSIZE, Problem
from . import operations
from .batched import operations as batched_operations
from .batched.operations import BATCHED, Shape
from .declared import operations as declared_operations
from .declared.operations import DECLARED
from .factor import operations as factor_operations
from .factor.operations import FACTORS, RAGGED
from .random.operations import DRAWN, Source
from .sparse import operations as sparse_operations
from .sparse.operations import SPARSE

WIDTHS = tuple(range(1, 65))
RECTANGLES = ((1, 32), (32, 1), (4, 64), (7, 13), (64, 3), (8, 16), (64, 16), (32, 8), (31, 17), (48, 64))
LAYOUTS = ("row", "col", "padded", "unaligned")
PADDING = 3  # columns between rows of a padded matrix: odd, so that rows lose their alignment too
_QUICK_WIDTHS = (1, 2, 3, 4, 5, 8, 12, 16, 24, 31, 32, 48, 64)
_QUICK_COMPLEX = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Case:
    """One problem and how it is run. Modes: `device` (one call, out of cache, timed on the device), `sustained` (the
    same, call behind call for seconds), `graph` (per node of a captured graph), `eager` (per call of a Python loop),
    `host` (the caller's cost alone).

    A case of a batch has K matrices: what grows until operands are out of cache is K, as elsewhere."""

    set: str
    dtype: str
    M: int
    N: int
    K: int
    layout: str = "row"  # of both operands where both are large; "row-col" is another one for B
    same: bool = False
    mode: str = "device"
    temperature: str = "cold"
    pins: tuple[tuple[str, Any], ...] = ()
    deterministic: bool = True
    peers: bool = True
    operation: str = "gram"  # see operations.py
    condition: float = 0.0  # of A, for cholesky_qr
    role: str = ""  # "model": what a model chose, among pinned ones
    inner: int = 0  # columns of A in batches; 0: M
    accumulate: bool = False  # the product is added to what the result holds (beta = 1)
    form: str = ""  # options of an operation on batches: see batched/ and factor/operations.py; a matrix
    drawn: Source = ()  # seed, number and memory limit of a random problem: see random/operations.py

    @property
    def key(self) -> str:
        """Names the measurement, whichever set asked for it: sets that share a case share its result. Experiments with
        pinned parameters keep to themselves, so that each picture has its own candidates."""
        parts = [self.dtype, f"{self.M}x{self.N}", f"K{self.K}", self.layout, self.mode, self.temperature]
        parts = [self.operation] * (self.operation != "gram") + parts
        parts += ["same"] * self.same + ["varying"] * (not self.deterministic)
        parts += [f"condition={self.condition:g}"] * bool(self.condition)
        parts += [f"inner={self.inner}"] * bool(self.inner) + ["beta=1"] * self.accumulate
        parts += [f"form={self.form}"] * bool(self.form)
        parts += ["seed={} only={} memory={}".format(*self.drawn)] if self.drawn else []
        parts += [self.set] * bool(self.pins)
        return " ".join(parts + [f"{name}={value}" for name, value in self.pins])

    @property
    def shapes(self) -> tuple[Shape, Shape, Shape]:
        """Shapes of A, B and the result."""
        sizes = (self.operation, self.M, self.N, self.K)
        if self.operation in BATCHED:
            return batched_operations.shapes(*sizes, self.inner, self.form, self.dtype)
        if self.operation in FACTORS:
            return factor_operations.shapes(self.operation, self.M, self.K, self.form, self.dtype)
        if self.operation in DECLARED:
            return declared_operations.shapes(asdict(self))
        return sparse_operations.shapes() if self.operation in (*SPARSE, *DRAWN) else operations.shapes(*sizes)

    @property
    def is_ragged(self) -> bool:
        return self.operation == "ragged" or self.form == RAGGED

    @property
    def uniform(self) -> Case:
        """Equal matrices with the bytes of a ragged batch: what it is measured against."""
        if self.operation in FACTORS:
            size, count = factor_operations.uniform_sizes(self.M, self.K)
            return replace(self, M=size, K=count, form="", peers=False)
        size, count = batched_operations.uniform_sizes(self.M, self.N, self.K)
        operation, columns = ("gemm", size) if self.N > 1 else ("gemv", 1)
        return replace(self, M=size, N=columns, K=count, operation=operation, peers=False)

    @property
    def bytes(self) -> int:
        """Bytes that must be moved, padding left out."""
        return operations.work_of(asdict(self)).bytes

    def layout_of(self, which: str) -> str:
        """The layout of operand A or B; a B that is small has rows without gaps."""
        first, _, second = self.layout.partition("-")
        if which == "A":
            return first
        return second or (first if operations.both_large(self.operation) else "row")

    def pitch(self, which: str) -> int:
        """Elements from one row (or column) of operand A or B to the next."""
        (*_, rows, columns), layout = self.shapes[which == "B"], self.layout_of(which)
        return rows if layout == "col" else columns + (PADDING if layout == "padded" else 0)

    def problem(self) -> Problem:
        """The problem as the library will see it, where one kernel answers."""
        return self.problems()[0]

    def problems(self) -> tuple[Problem, ...]:
        """Problems whose kernels the case runs; none where the vendor's routine answers."""
        sizes = (self.dtype, self.M, self.N, self.K)
        if self.operation in operations.ORTHOGONAL:
            return operations.orthogonal_problems(self.operation, *sizes)
        if self.operation in BATCHED:
            return batched_operations.problems(self.operation, *sizes, self.inner, self.form, self.accumulate)
        if self.operation in FACTORS:
            return factor_operations.problems(self.operation, self.dtype, self.M, self.K, self.form)
        if self.operation in DECLARED:
            return declared_operations.problems(asdict(self))
        if self.operation in (*SPARSE, *DRAWN):  # what is compiled depends on the matrix, or on the operands' places
            return ()
        if self.operation == "matmul":
            return operations.routed_problems(*sizes, self.layout_of("A"), self.layout_of("B"))
        layout = {which: "col" if self.layout_of(which) == "col" else "row" for which in "AB"}
        traits = {"layout_a": layout["A"], "pitch_a": self.pitch("A"), "aligned": self.layout != "unaligned"}
        if self.operation == "gram":
            traits |= {"layout_b": layout["B"], "pitch_b": self.pitch("B")}
            traits |= {"same": self.same, "deterministic": self.deterministic}
        # results are fresh arrays, row-major without gaps
        return (family_of(self.operation).spec.problem(*sizes, **traits),)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "pins": dict(self.pins)}


@dataclass(frozen=True)
class Size:
    """How large cases must be on a device: elements of an operand out of cache, by dtype, and its last cache."""

    backend: str
    elements: dict[str, int]
    cache_bytes: int
    device: Device | None = None  # None: an H200, for lists without a device
    every: bool = False  # some dtypes are asked for: each of them at every size

    def rows(self, dtype: str, width: int) -> int:
        return max(1, self.elements[dtype] // width)


CaseSet = Callable[[Size], list[Case]]
Sets = dict[str, CaseSet]


def gpu_only(cases: CaseSet) -> CaseSet:
    """Mark a set that makes sense on GPUs alone."""
    cases.gpu_only = True  # type: ignore[attr-defined]
    return cases


def is_gpu_only(cases: CaseSet) -> bool:
    return bool(getattr(cases, "gpu_only", False))


def size_for(backend: Any, free_bytes: int | None = None) -> Size:
    """Sizes for a backend: K*M = 2^28 on GPUs that have the memory, twice the last cache on CPUs."""
    if backend.name == "cuda":
        most = 1 << 28
        while free_bytes is not None and most * 16 * 8 > free_bytes:  # both operands, copies for peers and checks
            most //= 2
        return Size("cuda", dict.fromkeys(ITEMSIZE, most), backend.device.l2_bytes or 64 << 20, backend.device)
    if backend.name == "cpu":
        cache = last_level_cache()
        operand = min(max(cache, 64 << 20), 320 << 20)
        return Size("cpu", {dtype: operand // item for dtype, item in ITEMSIZE.items()}, cache, backend.device)
    return Size(backend.name, dict.fromkeys(ITEMSIZE, 1 << 12), 1 << 20, backend.device)


def square(name: str, size: Size, widths: Iterable[int], dtypes: Iterable[str], **options: Any) -> list[Case]:
    return [Case(name, dtype, m, m, size.rows(dtype, m), **options) for dtype, m in product(dtypes, widths)]


def rectangle(
    name: str, size: Size, pairs: Iterable[tuple[int, int]], dtypes: Iterable[str], **options: Any
) -> list[Case]:
    return [Case(name, dtype, m, n, size.rows(dtype, max(m, n)), **options) for dtype, (m, n) in product(dtypes, pairs)]


def quick(size: Size) -> list[Case]:
    """The widths that tell most, first real, then complex."""
    if size.backend != "cuda":
        return square("quick", size, _QUICK_WIDTHS, ["float64"]) + square("quick", size, _QUICK_COMPLEX, ["complex128"])
    cases = square("quick", size, (*_QUICK_WIDTHS, 7, 17, 33, 40, 56, 63), ["float64", "complex128"])
    cases += square("quick", size, (1, 4, 8, 16, 32, 64), ["float32", "complex64"])
    cases += rectangle("quick", size, RECTANGLES[:6], ["float64"])
    return cases + [case for case in short(size) if case.K <= 100_000 and case.temperature == "cold"]


def full(size: Size) -> list[Case]:
    """Cases of every width from 1 to 64."""
    dtypes = ("float64", "complex128", "float32", "complex64") if size.backend == "cuda" else ("float64", "complex128")
    return square("full", size, WIDTHS, dtypes)


def rectangular(size: Size) -> list[Case]:
    """Cases with A and B of different widths."""
    return rectangle("rectangular", size, RECTANGLES, ("float64", "complex128"))


def same(size: Size) -> list[Case]:
    """Cases of gram(A), where A is read once."""
    return square("same", size, (1, 2, 4, 7, 8, 16, 24, 32, 48, 64), ("float64", "complex128"), same=True)


def layouts(size: Size) -> list[Case]:
    """Column-major, padded and unaligned operands; unaligned ones are real, since no peer accepts complex ones."""
    cases = []
    for layout in LAYOUTS[1:]:
        dtypes = ("float64", "float32") if layout == "unaligned" else ("float64", "complex128")
        for dtype, m in product(dtypes, (1, 4, 8, 13, 16, 32, 64)):
            rows = size.elements[dtype] // (m + (PADDING if layout == "padded" else 1))
            cases.append(Case("layouts", dtype, m, m, rows - rows % 2, layout))
    return cases


@gpu_only
def short(size: Size) -> list[Case]:
    """Few rows: inside a graph and from Python, operands in the cache (hot) or rotated through memory (cold)."""
    return [
        Case("short", "float64", m, m, rows, mode=mode, temperature=temperature)
        for mode, temperature, rows, m in product(
            ("graph", "eager"), ("cold", "hot"), (10_000, 100_000, 1_000_000), (4, 16, 64)
        )
    ]


@gpu_only
def sustained(size: Size) -> list[Case]:
    """Without rests: what is left when the card's power limit lowers its clock."""
    real = square("sustained", size, (8, 16, 32, 48, 64), ["float64"], mode="sustained")
    return real + square("sustained", size, (8, 16, 24, 32, 40, 48, 56, 64), ["complex128"], mode="sustained")


def overhead(size: Size) -> list[Case]:
    """One tiny problem: all that is left is the cost of calling. The runner hands it to `overhead.measure`."""
    return [Case("overhead", "float64", 4, 4, 64, mode="host", temperature="hot", peers=False)]


SETS: Sets = {
    function.__name__: function
    for function in (quick, full, rectangular, same, layouts, short, sustained, overhead)
}


def select(names: Iterable[str], size: Size, sets: Sets = SETS) -> tuple[list[Case], dict[str, str]]:
    """The cases of several sets, each once, and the sets that make no sense on this device with the reason."""
    chosen: dict[str, Case] = {}
    refused = {}
    for name in names:
        if name not in sets:
            raise ValueError(f"--set {name}: there are {', '.join(sets)}, and all")
        if is_gpu_only(sets[name]) and size.backend in ("cpu", "reference"):
            refused[name] = "for GPUs only"
            continue
        for case in sets[name](size):
            chosen.setdefault(case.key, case)
    return list(chosen.values()), refused
