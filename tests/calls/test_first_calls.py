"""Work too little to earn a compilation: the array library answers, right in every form, and nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu, wanted
from devices import H200

import mansard as ms
from examples import kalman_filter
from mansard import settings
from mansard.compile import cxx
from mansard.kernels.batched import gemm
from mansard.kernels.factor import lu
from mansard.operations.plans import PLANS
from mansard.plan import dispatch, first_calls
from mansard.plan.problem import Problem
from mansard.plan.route import Kernel, Library, Request

RANDOM = np.random.default_rng(33)
TALL = RANDOM.integers(-3, 4, (60, 4)).astype(float)
WAVY = TALL + 1j * RANDOM.integers(-3, 4, (60, 4))
STACK = RANDOM.integers(-3, 4, (10, 5, 5)).astype(float)
RIGHT = RANDOM.integers(-3, 4, (10, 5, 2)).astype(float)
REGULAR = RANDOM.standard_normal((10, 5, 5)) + 6 * np.eye(5)
POSITIVE = REGULAR @ REGULAR.swapaxes(-1, -2)
COMPLEX = REGULAR[:3] + 1j * RANDOM.standard_normal((3, 5, 5))
LOWER = np.tril(REGULAR[:2])
SIX = RANDOM.standard_normal((3, 6, 4))


@pytest.fixture
def as_users(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The rule as users have it, which other tests switch off; the list receives a word for every compilation."""
    compiled: list[str] = []
    monkeypatch.delenv("MANSARD_LIBRARY_BELOW", raising=False)
    settings.reread()
    PLANS.forget()
    monkeypatch.setattr(cxx, "_compile", lambda *_, **__: compiled.append("cxx"))
    yield compiled
    monkeypatch.undo()
    settings.reread()
    PLANS.forget()


def into(call: Callable[..., Any], *given: Any, **options: Any) -> Callable[[], Any]:
    """The call with a place of odd strides for its result, which is what the call returns."""

    def run() -> Any:
        expected = call(*given)
        out = np.full((*expected.shape[:-1], 2 * expected.shape[-1]), 7.0, expected.dtype)[..., ::2]
        assert call(*given, out=out, **options) is out
        return out

    return run


def of_lu() -> Any:
    factors, pivots = ms.linalg.lu_factor(REGULAR[:3])
    return ms.linalg.lu_solve((factors, pivots), RIGHT[:3])


def of_qr(mode: str) -> Any:
    return np.matmul(*ms.linalg.qr(SIX, mode=mode))


CALLS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {  # ours, and NumPy's
    "gram": (lambda: ms.gram(TALL), lambda: TALL.T @ TALL),
    "gram, complex": (lambda: ms.gram(WAVY), lambda: WAVY.conj().T @ WAVY),
    "gram, two": (lambda: ms.gram(WAVY, WAVY[:, :2]), lambda: WAVY.conj().T @ WAVY[:, :2]),
    "gram, strided": (lambda: ms.gram(WAVY[::2, ::2]), lambda: WAVY[::2, ::2].conj().T @ WAVY[::2, ::2]),
    "gram, out": (into(ms.gram, TALL, alpha=2.0, beta=1.0), lambda: 2 * TALL.T @ TALL + 7),
    "matmul": (lambda: ms.matmul(STACK, RIGHT), lambda: STACK @ RIGHT),
    "matmul, one matrix": (lambda: ms.matmul(STACK[0], RIGHT), lambda: STACK[0] @ RIGHT),
    "matmul, list": (lambda: np.stack(ms.matmul(list(STACK), list(RIGHT))), lambda: STACK @ RIGHT),
    "matmul, vectors": (lambda: ms.matmul(STACK, RIGHT[0, :, 0]), lambda: STACK @ RIGHT[0, :, 0]),
    "gemm": (into(ms.blas.gemm, STACK, RIGHT, alpha=-1.0, beta=2.0), lambda: 14 - STACK @ RIGHT),
    "gemm, transposed": (lambda: ms.blas.gemm(STACK, RIGHT, trans_a="T"), lambda: STACK.swapaxes(1, 2) @ RIGHT),
    "gemv": (into(ms.blas.gemv, STACK, RIGHT[..., 0], beta=1.0), lambda: (STACK @ RIGHT)[..., 0] + 7),
    "trsm": (lambda: LOWER @ ms.blas.trsm(LOWER, RIGHT[:2]), lambda: RIGHT[:2]),
    "trsm, in place": (lambda: LOWER @ ms.blas.trsm(LOWER, x := RIGHT[:2].copy(), out=x), lambda: RIGHT[:2]),
    "solve": (lambda: ms.linalg.solve(REGULAR, RIGHT), lambda: np.linalg.solve(REGULAR, RIGHT)),
    "solve, 16 x 16": (
        lambda: ms.linalg.solve(np.eye(16) * 2, np.arange(16.0)), lambda: np.arange(16.0) / 2,
    ),
    "solve, vectors": (
        lambda: ms.linalg.solve(REGULAR, RIGHT[0, :, 0].copy()), lambda: np.linalg.solve(REGULAR, RIGHT[0, :, 0]),
    ),
    "solve, out": (into(ms.linalg.solve, REGULAR, RIGHT), lambda: np.linalg.solve(REGULAR, RIGHT)),
    "solve, list": (
        lambda: np.stack(ms.linalg.solve(list(REGULAR), list(RIGHT))), lambda: np.linalg.solve(REGULAR, RIGHT),
    ),
    "solve, complex": (
        lambda: ms.linalg.solve(COMPLEX, RIGHT[:3] + 0j), lambda: np.linalg.solve(COMPLEX, RIGHT[:3] + 0j),
    ),
    "solve, positive": (
        lambda: ms.linalg.solve(POSITIVE[:3], RIGHT[:3], assume_a="pos"),
        lambda: np.linalg.solve(POSITIVE[:3], RIGHT[:3]),
    ),
    "inv": (into(ms.linalg.inv, REGULAR), lambda: np.linalg.inv(REGULAR)),
    "det": (lambda: ms.linalg.det(REGULAR), lambda: np.linalg.det(REGULAR)),
    "slogdet": (lambda: ms.linalg.slogdet(REGULAR)[1], lambda: np.linalg.slogdet(REGULAR)[1]),
    "cholesky": (lambda: ms.linalg.cholesky(POSITIVE), lambda: np.linalg.cholesky(POSITIVE)),
    "lu": (of_lu, lambda: np.linalg.solve(REGULAR[:3], RIGHT[:3])),
    "qr": (lambda: of_qr("reduced"), lambda: SIX),
    "qr, complete": (lambda: of_qr("complete"), lambda: SIX),
    "lstsq": (
        lambda: ms.linalg.lstsq(SIX, SIX @ np.ones((4, 1)))[0], lambda: np.ones((3, 4, 1)),
    ),
    "cholesky_qr": (lambda: np.matmul(*ms.cholesky_qr(TALL)), lambda: TALL),
}  # fmt: skip


@needs_cpu
@pytest.mark.parametrize("name", CALLS)
def test_little_work_compiles_nothing_and_is_right(name: str, as_users: list[str]) -> None:
    """In the first call, in the second one, which takes the fast path, and with plans made anew: the same bits."""
    ours, theirs = CALLS[name]
    first = ours()
    assert np.allclose(first, theirs(), rtol=1e-12, atol=1e-12) and not as_users
    assert np.array_equal(ours(), first) and np.array_equal(ours(), first)
    PLANS.forget()
    assert np.array_equal(ours(), first) and not as_users


@needs_cpu
def test_gram_matrices_are_hermitian_to_the_last_bit(as_users: list[str]) -> None:
    wavy = WAVY * (0.1 + 0.7j)
    for V in (RANDOM.standard_normal((99, 5)), wavy, np.asfortranarray(wavy, dtype="complex64")):
        G = ms.gram(V)
        assert np.array_equal(G, G.conj().T) and not np.diag(G).imag.any()
    G = ms.gram(wavy, conj=False)
    assert np.array_equal(G, G.T) and not as_users


@needs_cpu
def test_info_names_the_matrix_and_its_neighbours_are_right(as_users: list[str]) -> None:
    singular = REGULAR.copy()
    singular[4, :, 2] = 0
    for _ in range(2):
        x, info = ms.linalg.solve_ex(singular, RIGHT)
        assert info[4] == 3 and np.count_nonzero(info) == 1
        assert np.allclose(np.delete(x, 4, 0), np.linalg.solve(np.delete(singular, 4, 0), np.delete(RIGHT, 4, 0)))
        assert ms.linalg.inv_ex(singular)[1].tolist() == info.tolist()
        with pytest.raises(np.linalg.LinAlgError, match=r"a\[4\] is singular: pivot 2"):
            ms.linalg.solve(singular, RIGHT)
        indefinite = POSITIVE.copy()
        indefinite[7, 0, 0] = -1
        assert ms.linalg.cholesky_ex(indefinite)[1].tolist() == [0] * 7 + [1, 0, 0]
        assert ms.linalg.lu_factor_ex(singular[3:6])[-1].tolist() == [0, 3, 0]
    assert not as_users


@needs_cpu
def test_a_result_may_overlap_what_is_read(as_users: list[str]) -> None:
    expected = np.linalg.solve(REGULAR, RIGHT)
    for _ in range(3):
        b = RIGHT.copy()
        assert ms.linalg.solve(REGULAR, b, out=b) is b and np.array_equal(b, expected)
    with pytest.raises(ValueError, match="out overlaps A"):
        ms.blas.gemm(STACK, STACK[0], out=STACK)
    assert not as_users


@needs_cpu
def test_other_array_libraries(as_users: list[str]) -> None:
    torch = wanted("torch")
    a, b = torch.from_numpy(REGULAR), torch.from_numpy(RIGHT)
    x, G = ms.linalg.solve(a, b), ms.gram(torch.from_numpy(WAVY))
    assert isinstance(x, torch.Tensor) and np.allclose(x.numpy(), np.linalg.solve(REGULAR, RIGHT))
    assert torch.equal(G, G.conj().T.resolve_conj()) and np.array_equal(G.numpy(), WAVY.conj().T @ WAVY)
    V, W = torch.from_numpy(WAVY), torch.from_numpy(WAVY[:, ::-1].copy())
    for conj in (True, False):  # lazily conjugated tensors carry their conjugation
        left = (lambda one: one.conj().T) if conj else (lambda one: one.T)
        for A, B in ((V.conj(), W), (V, W.conj()), (V.conj(), W.conj()), (V.conj(), None)):
            assert torch.equal(ms.gram(A, B, conj=conj), left(A) @ (A if B is None else B))
    c, d = torch.from_numpy(COMPLEX), torch.from_numpy(RIGHT[:3] + 1j)
    assert torch.equal(ms.matmul(c.conj(), d), c.conj() @ d)
    assert torch.allclose(c.conj() @ ms.linalg.solve(c.conj(), d), d)
    assert torch.equal(ms.linalg.solve(a, b), x) and not as_users


@needs_cpu
@pytest.mark.parametrize("more", ["backend", "pin", "setting", "size"])
def test_whoever_asks_for_a_kernel_gets_one(more: str, as_users: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A named backend, a pin, the setting, and more work: all of them reach the compiler."""

    def compiled(*_: Any, **__: Any) -> None:
        raise AssertionError("a kernel is compiled")

    monkeypatch.setattr(cxx, "_compile", compiled)
    V, options = TALL, {"backend": "cpu"} if more == "backend" else {}
    if more == "setting":
        monkeypatch.setenv("MANSARD_LIBRARY_BELOW", "0")
        settings.reread()
    if more == "size":
        V = np.ones((100_000, 4))
    with pytest.raises(AssertionError, match="a kernel is compiled"):
        if more == "pin":
            with ms.pin(VARIANT="simd"):
                ms.gram(V)
        ms.gram(V, **options)


# --- programs ----------------------------------------------------------------------------------------------


def stiffness(points: Any, multiply: Callable[..., Any], solve: Callable[..., Any], det: Callable[..., Any]) -> Any:
    """Element matrices of linear elasticity on tetrahedra (elements, 12, 12), from the corners (elements, 4, 3)."""
    count = len(points)
    edges = points[:, 1:] - points[:, :1]
    corners = np.concatenate([-np.ones((1, 3)), np.eye(3)])
    gradients = solve(edges, np.tile(corners.T, (count, 1, 1)))
    B = np.zeros((count, 6, 12))
    for corner in range(4):
        x, y, z = gradients[:, :, corner].T
        at = 3 * corner
        B[:, 0, at], B[:, 1, at + 1], B[:, 2, at + 2] = x, y, z
        B[:, 3, at], B[:, 3, at + 1] = y, x
        B[:, 4, at + 1], B[:, 4, at + 2] = z, y
        B[:, 5, at], B[:, 5, at + 2] = z, x
    D = np.diag([2.0, 2, 2, 1, 1, 1]) + np.pad(np.ones((3, 3)), (0, 3))
    return multiply(B.swapaxes(1, 2), multiply(D, B)) * (np.abs(det(edges)) / 6)[:, None, None]


@needs_cpu
def test_small_programs_compile_nothing(as_users: list[str]) -> None:
    """Kernels these took before the rule: 9 for the filter, 4 for the elements, at any number of them."""
    truth, seen = kalman_filter.observed(8, np.random.default_rng(0))
    found, P = kalman_filter.filtered(seen)
    late = slice(kalman_filter.STEPS // 2, None)
    assert np.abs(found - truth)[late, :, :3].mean() < 0.7 * np.abs(seen - truth[..., :3])[late].mean()
    assert np.abs(P - P.swapaxes(-1, -2)).max() < 1e-12 and (np.linalg.eigvalsh(P) > 0).all()
    points = np.tile(np.eye(4, 3), (3, 1, 1)) + 0.1 * RANDOM.standard_normal((3, 4, 3))
    ours = stiffness(points, ms.matmul, ms.linalg.solve, ms.linalg.det)
    assert np.allclose(ours, stiffness(points, np.matmul, np.linalg.solve, np.linalg.det), atol=1e-12)
    assert not as_users


# --- the rule ----------------------------------------------------------------------------------------------


def decided(problem: Problem, device: Any, **allowed: Any) -> Any:
    allowed = {"may_hand_over": True, "spares_compiling": True, "library_batches": False, **allowed}
    return dispatch.decide(problem, Request(problem.operation, device.backend, device, **allowed))


@needs_cpu
def test_the_rule_asks_the_size_and_says_so(as_users: list[str]) -> None:
    from mansard.backends import cpu

    here = cpu.backend().device
    few, many = (lu.spec.problem("float64", 5, 5, count, NRHS=1, want="solve") for count in (10, 1000))
    assert isinstance(decided(few, here).route, Library) and decided(few, here).origin == "rule"
    assert isinstance(decided(many, here).route, Kernel)
    assert isinstance(decided(few, here, may_hand_over=False, spares_compiling=False).route, Kernel)
    assert isinstance(decided(few, H200).route, Kernel), "nothing was measured on GPUs"
    text = ms.plan("solve", REGULAR, RIGHT[..., :1].copy()).explain()
    assert "would not earn its compilation in 100000 calls" in text and "backend='cpu'" in text
    assert not as_users


@needs_cpu
def test_blas_answers_for_gram_products_that_are_not_tall(as_users: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from mansard.backends import cpu
    from mansard.kernels.tall_skinny.gram import spec

    here = cpu.backend().device
    square, tall = (spec.problem("complex128", 100, 100, rows) for rows in (100, 101))
    assert isinstance(decided(square, here).route, Library) and "are not tall" in decided(square, here).reason
    assert isinstance(decided(tall, here).route, Kernel) and isinstance(decided(square, H200).route, Kernel)
    assert isinstance(decided(square, here, may_hand_over=False, spares_compiling=False).route, Kernel)
    A = RANDOM.integers(-3, 4, (60, 100)) + 1j * RANDOM.integers(-3, 4, (60, 100))
    for _ in range(3):
        assert np.array_equal(ms.gram(A), A.conj().T @ A) and np.array_equal(
            ms.gram(A, A[:, :9]), A.conj().T @ A[:, :9]
        )
    assert not as_users
    monkeypatch.setenv("MANSARD_LIBRARY_BELOW", "0")
    settings.reread()
    assert isinstance(decided(square, here).route, Kernel)


@needs_cpu
def test_short_calls_share_a_kernel(as_users: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """By the sizes alone: up to about a millisecond of work, few rows, and nothing pinned."""
    from mansard.backends import cpu

    here = cpu.backend().device

    def variant(problem: Problem) -> str:
        return str(dispatch.choose(problem, here).config.VARIANT)

    def product(n: int, count: int, **traits: Any) -> Problem:
        return gemm.spec.problem("float64", n, n, n, count, **traits)

    def systems(count: int) -> Problem:
        return lu.spec.problem("float64", 5, 5, count, NRHS=1, want="solve")

    assert variant(product(6, 1000)) == variant(systems(1000)) == "runtime"
    assert variant(product(6, 100_000)) != "runtime" != variant(systems(100_000))
    assert variant(product(17, 10)) != "runtime", "BLAS does as well"
    assert variant(product(6, 1000, stack_a="pointers")) != "runtime", "addresses are no distances"
    with ms.pin(VARIANT="simd"):
        assert variant(product(6, 1000)) == "simd"
    choice = dispatch.choose(product(6, 1000), here)
    assert choice.origin == "rule" and "sizes are arguments" in choice.reason
    text = {gemm.emit.source(product(n, 9), gemm.FAMILY.runtime, "cpu").text for n in (2, 7)}
    assert len(text) == 1
    monkeypatch.setenv("MANSARD_LIBRARY_BELOW", "0")
    settings.reread()
    assert variant(product(6, 1000)) == "simd"


def test_more_work_takes_longer() -> None:
    seconds = [first_calls.library_seconds(gemm.spec.problem("float64", n, n, n, 3)) for n in (1, 2, 5, 16, 40)]
    assert seconds == sorted(seconds) and seconds[0] > 0
    counts = [first_calls.library_seconds(gemm.spec.problem("float64", 4, 4, 4, count)) for count in (1, 10, 100)]
    assert counts[1] == pytest.approx(10 * counts[0]) and counts[2] == pytest.approx(100 * counts[0])


def test_the_setting_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("-1", "few", "nan"):
        monkeypatch.setenv("MANSARD_LIBRARY_BELOW", text)
        with pytest.raises(ValueError, match=f"MANSARD_LIBRARY_BELOW='{text}' is no number of microseconds"):
            settings.reread()
    monkeypatch.undo()
    settings.reread()
