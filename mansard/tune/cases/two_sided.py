"""Launches of two-sided factorizations: reductions, iterations, back transformations, and Jacobi in one launch.

A launch is measured on what the launches before it leave, by the rules' configurations. Results are not unique (signs,
order of roundings), so that a sample of them is judged by residuals; iterations must give the same bits with every
configuration, and back transformations nearly the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import testing
from ...backends.base import Launch
from ...errors import UnsupportedProblem
from ...kernels import family_of
from ...kernels.factor import back_transform, jacobi, sweeps
from ...operations.factor.two_sided.chain import Link, bytes_of, links
from ...operations.factor.two_sided.chunked import scratch_limit
from ...operations.factor.two_sided.task import Task
from ...plan.problem import REAL, Options, Problem
from .base import Case, address_of

POISON = 0x7B  # byte that results begin with: numbers of it are finite and huge
_ALIGNMENT = 256
_SAMPLE = 12  # matrices that are judged
_ROOM = 64.0  # roundings per row, of norms
_WHOLE = 128  # matrices: batches have a multiple of them
_READ = {
    "jacobi": {"A"}, "tridiagonal": {"A"}, "bidiagonal": {"A"}, "sweeps": {"D", "E", "SHIFTS", "SCALE"},
    "back_transform": {"V", "TAU", "PHASE", "D", "ROTATIONS", "RANGES", "COUNT", "SCALE"},
}  # fmt: skip


def task_of(problem: Problem) -> Task:
    """A task of whose chain the problem is a launch."""
    name = problem.operation
    if name == "jacobi":
        driver = "lanes" if jacobi.spec.takes_any_method(problem) else "jacobi"
        return Task(problem.want, problem.uplo == "upper", driver=driver)
    if name == "back_transform":
        hermitian, whole = problem.side == "eigenvectors", bool(problem.CAPACITY)
        want = ("eigh" if whole else "tridiagonalize") if hermitian else ("svd" if whole else "bidiagonalize")
        return Task(want, driver="qr")
    if name == "sweeps":
        vectors = problem.want == "rotations" or not problem.sorted
        names = ("eigh", "eigvalsh") if problem.form == "tridiagonal" else ("svd", "svdvals")
        return Task(names[0 if vectors else 1], driver="qr")
    names = ("eigh", "eigvalsh") if name == "tridiagonal" else ("svd", "svdvals")
    upper = name == "tridiagonal" and problem.uplo == "upper"
    return Task(names[0 if problem.want == "vectors" else 1], upper, driver="qr")


def _chain(problem: Problem) -> tuple[Link, ...]:
    known = dict(problem.traits)
    lies: Options = {name: known[name] for name in ("layout_a", "pitch_a", "stack_a") if name in known}
    return links(task_of(problem), problem.dtype, problem.N, problem.BATCH, lies)


class TwoSidedCase(Case):
    """One launch of a chain, on the arrays that the launches before it made."""

    def __init__(self, problem: Problem, backend: Any, integers: bool = False) -> None:
        super().__init__(problem, backend, integers)
        chain = _chain(problem)
        self.number = next((i for i, link in enumerate(chain) if link.problem == problem), -1)
        if self.number < 0 or getattr(problem, "stack_a", "packed") != "packed" or not self._is_packed():
            raise UnsupportedProblem(f"tune: {problem.operation}: pass matrices without gaps")
        self.link, self.before = chain[self.number], chain[: self.number]
        self.batch, self.N = int(problem.BATCH), int(problem.N)
        read = _READ[problem.operation]
        family: Any = self.family
        self.named = dict(zip(family.spec.POINTERS, self.link.arrays, strict=True))  # array behind each pointer
        self.written = [array for name, array in self.named.items() if array and name not in read]
        self._usual: Any = None  # the result with the rules' configuration

    def _is_packed(self) -> bool:
        problem = self.problem
        return "pitch_a" not in dict(problem.traits) or (problem.layout_a != "any" and problem.pitch_a == problem.N)

    @classmethod
    def fitted(cls, problem: Problem, backend: Any) -> Problem:
        """The problem with as many matrices as the scratch memory of a call has room for: more change no rate."""
        few = _chain(problem.replace(BATCH=_WHOLE))
        names = {name for link in few for name in link.arrays if name}
        each = sum(bytes_of(name, problem.dtype, problem.N, _WHOLE) for name in names) / _WHOLE
        count = int(scratch_limit(backend) / each) // _WHOLE * _WHOLE
        return problem.replace(BATCH=min(problem.BATCH, max(_WHOLE, count)))

    @property
    def exact(self) -> bool:
        return False

    @property
    def terms(self) -> int:
        return self.N

    # ---- operands and calls ---------------------------------------------------------------------------------

    def make_operands(self) -> tuple[Any, Any]:
        """Arrays by their names: A, and what the launches before this one leave."""
        dtype = self.problem.dtype if self.problem.operation != "sweeps" else REAL[self.problem.dtype]
        A = testing.random_matrix(self.xp, self.batch * self.N, self.N, dtype, 0, False)
        arrays = {"A": A.reshape(self.batch, self.N, self.N)}
        for link in self.before:
            for name in link.arrays:
                if name and name not in arrays:
                    arrays[name] = self.xp.zeros(bytes_of(name, self.problem.dtype, self.N, self.batch), "uint8")
            self._run(link, lambda name: address_of(arrays[name]))
        return arrays, None

    def _run(self, link: Link, place: Callable[[str], int]) -> None:
        family = family_of(link.problem.operation)
        config = family.defaults.default(link.problem, self.backend.device)
        kernel = family.emit.kernel(link.problem, config, self.backend.device, family.spec.strides(link.problem))
        self.backend.prepare(kernel)(tuple(place(name) if name else 0 for name in link.arrays), (), 0)
        self.backend.synchronize(0)

    def offsets(self) -> dict[str, int]:
        """Where each result begins, in bytes, and under "" where the last one ends."""
        found, end = {}, 0
        for name in dict.fromkeys(self.written):
            found[name] = end
            end += -(-bytes_of(name, self.problem.dtype, self.N, self.batch) // _ALIGNMENT) * _ALIGNMENT
        return found | {"": end}

    def poisoned(self) -> Any:
        out = self.xp.empty((1, self.offsets()[""]), "uint8")
        out.fill(POISON)
        return out

    def kernel(self, config: Any) -> Any:
        strides = self.family.spec.strides(self.problem)
        return self.family.emit.kernel(self.problem, config, self.backend.device, strides)

    def call(self, launch: Launch, out: Any) -> Callable[[], None]:
        (arrays, _), begin, offsets = self.operands, address_of(out), self.offsets()
        pointers = tuple(
            0 if not name else begin + offsets[name] if name in offsets else address_of(arrays[name])
            for name in self.link.arrays
        )
        return lambda: launch(pointers, (), 0)

    def vendor(self) -> Callable[[], Any]:
        raise UnsupportedProblem(f"tune: the array library has no {self.problem.operation} by itself")

    def close(self) -> None:
        self._usual = None
        super().close()

    # ---- are results right? ---------------------------------------------------------------------------------

    def judged(self, out: Any) -> str | None:
        """What is wrong with a result, or None."""
        found = _Sample(self, out)
        if "INFO" in self.written and bool((found.whole("INFO") != 0).any()):
            return "info is not zero"
        error = {"jacobi": _jacobi, "sweeps": _iterated, "back_transform": _applied}.get(
            self.problem.operation, _reduced
        )(self, found)
        if not error <= _ROOM * self.N * float(np.finfo(REAL[self.problem.dtype]).eps):
            return f"a residual of {error:.1e} relative to the norm"
        return None if self.problem.operation != "sweeps" or bool((out == self.usual()).all()) else "other bits"

    def usual(self) -> Any:
        """The result with the rules' configuration, made once."""
        if self._usual is None:
            self._usual, offsets = self.poisoned(), self.offsets()
            begin, (arrays, _) = address_of(self._usual), self.operands
            self._run(self.link, lambda n: begin + offsets[n] if n in offsets else address_of(arrays[n]))
        return self._usual


class _Sample:
    """Some matrices of the operands and of a result, on the host, in double precision."""

    def __init__(self, case: TwoSidedCase, out: Any) -> None:
        self.case, self.out, self.offsets = case, out, case.offsets()
        drawn = np.random.default_rng(5).integers(0, case.batch, _SAMPLE)
        self.chosen = np.unique(np.r_[0, case.batch - 1, drawn])
        self.A = self.host(case.operands[0]["A"])

    def host(self, array: Any) -> Any:
        some = array[self.case.xp.asarray(self.chosen)]
        some = some.get() if hasattr(some, "get") else some
        return some.astype("complex128" if some.dtype.kind == "c" else "float64" if some.dtype.kind == "f" else "int64")

    def whole(self, name: str, out: Any = None) -> Any:
        """An array of the result, or of the operands."""
        case, size = self.case, bytes_of(name, self.case.problem.dtype, self.case.N, self.case.batch)
        if name in self.offsets:
            flat = (self.out if out is None else out)[0, self.offsets[name] : self.offsets[name] + size]
        else:
            flat = case.operands[0][name]
        real, entry = REAL[case.problem.dtype], case.problem.dtype
        square = name in ("Z", "U", "VH", "Q", "V_REFLECTORS", "U_REFLECTORS")
        if name in ("INFO", "SCALE"):
            return flat.view("int32" if name == "INFO" else real)
        is_entry = square or name.startswith("PHASE")
        return flat.view(entry if is_entry else real).reshape(case.batch, case.N, *([case.N] if square else []))

    def part(self, name: str) -> Any:
        return self.host(self.whole(name))


def _hermitian(A: Any, uplo: str) -> Any:
    half = np.tril(A, -1) if uplo == "lower" else np.triu(A, 1)
    return half + half.conj().swapaxes(1, 2) + np.real(A) * np.eye(A.shape[-1])


def _off(found: Any, exact: Any) -> float:
    """Largest difference relative to the largest entry; NaN counts as infinite."""
    error = float(abs(found - exact).max() / abs(exact).max())
    return error if error == error else float("inf")


def _condensed(D: Any, E: Any, hermitian: bool) -> Any:
    T, every = np.zeros((*D.shape, D.shape[-1])), np.arange(D.shape[-1])
    T[:, every, every], T[:, every[:-1], every[1:]] = D, E[:, :-1]
    return T + np.triu(T, 1).swapaxes(1, 2) if hermitian else T


def _reduced(case: TwoSidedCase, found: _Sample) -> float:
    problem, hermitian = case.problem, case.problem.operation == "tridiagonal"
    A = _hermitian(found.A, problem.uplo) if hermitian else found.A
    A, T = A * found.part("SCALE")[:, None, None], _condensed(found.part("D"), found.part("E"), hermitian)
    if problem.want == "values":
        values = np.linalg.eigvalsh if hermitian else lambda one: np.linalg.svd(one, compute_uv=False)
        return _off(values(T), values(A))
    reference = back_transform.spec.reference
    phase: dict[str, Any] = {name: found.part(name) for name in case.written if name.startswith("PHASE")}
    if hermitian:
        Q = reference(found.part("V_REFLECTORS"), None, phase.get("PHASE"))
        return _off(Q @ T @ Q.conj().swapaxes(1, 2), A)
    left = reference(found.part("U_REFLECTORS"), found.part("TAU_U"), phase.get("PHASE_U"), "left")
    right = reference(found.part("V_REFLECTORS"), found.part("TAU_V"), phase.get("PHASE_V"), "right")
    return _off(left @ T @ right, A)


def _iterated(case: TwoSidedCase, found: _Sample) -> float:
    """Values against NumPy's; those of a pass that records rotations keep the scale of the condensed matrix."""
    hermitian, scaled = case.problem.form == "tridiagonal", case.problem.want == "values" and case.named["SCALE"]
    values = found.part(case.named["W"])
    values = values * found.part("SCALE")[:, None] if scaled else values
    exact = sweeps.spec.reference(found.part("D"), found.part("E"), case.problem.form)
    return _off(np.sort(values if hermitian else abs(values)), np.sort(exact))


def _applied(case: TwoSidedCase, found: _Sample) -> float:
    """Distance from orthogonality, and from the result of the rules' configuration."""
    Z, usual = found.part(case.named["Z"]), case.usual()
    apart = [_off(found.part(name), found.host(found.whole(name, usual))) for name in case.written]
    return max(_off(Z.conj().swapaxes(1, 2) @ Z, np.eye(case.N)[None]), *apart)


def _jacobi(case: TwoSidedCase, found: _Sample) -> float:
    problem = case.problem
    A = found.A.swapaxes(1, 2) if problem.layout_a == "col" else found.A
    hermitian = problem.want in ("eigh", "eigvalsh")
    A, W = _hermitian(A, problem.uplo) if hermitian else A, found.part("W")
    exact = np.linalg.eigvalsh(A) if hermitian else np.linalg.svd(A, compute_uv=False)
    if problem.want in ("eigvalsh", "svdvals"):
        return _off(W, exact)
    left = found.part("Z" if hermitian else "U")
    right = left.conj().swapaxes(1, 2) if hermitian else found.part("VH")
    return max(_off(W, exact), _off((left * W[:, None]) @ right, A))
