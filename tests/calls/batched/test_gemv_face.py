"""`ms.blas.gemv`: what BLAS and NumPy do, stacks, lists, plans."""

from __future__ import annotations

import doctest
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from batched_cases import DTYPES, arranged, integers
from conftest import needs_cpu, wanted

import mansard as ms
from mansard import testing
from mansard.errors import UnsupportedProblem
from mansard.kernels.batched.gemv import defaults, spec
from mansard.operations.plans import PLANS

pytestmark = pytest.mark.usefixtures("no_plans")

P = spec.problem


# ---- ms.blas.gemv -----------------------------------------------------------------------------------------

LEADING = [  # dimensions of a and x
    ((7,), (7,)), ((7,), ()), ((), (7,)), ((), ()), ((1,), (7,)), ((2, 3), (2, 3)), ((2, 3), (3,)), ((12, 1), (1, 12)),
    ((70, 1), (2,)), ((0,), ()), ((0,), (0,)), ((3, 0), (1,)),
]  # fmt: skip


def moved(array: Any, backend: str) -> Any:
    """The same values and strides where the backend wants them."""
    return array if backend != "cuda" else testing.array_module(backend).array(array)


def host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else np.asarray(array)


def product_of(a: Any, x: Any, trans: str) -> Any:
    a = {"N": a, "T": a.swapaxes(-1, -2), "C": a.swapaxes(-1, -2).conj()}[trans]
    return (a @ x[..., None])[..., 0]


@pytest.mark.parametrize("forms", LEADING, ids=str)
@pytest.mark.parametrize("trans", ["N", "T", "C"])
def test_stacks(forms: tuple[tuple[int, ...], tuple[int, ...]], trans: str, backend: str) -> None:
    rng = np.random.default_rng(1)
    dtype, (m, n) = {"N": ("float64", (3, 4)), "T": ("float32", (5, 2)), "C": ("complex64", (4, 4))}[trans]
    a, x = integers(rng, (*forms[0], m, n), dtype), integers(rng, (*forms[1], n if trans == "N" else m), dtype)
    expected = product_of(a, x, trans)
    old, options = integers(rng, expected.shape, dtype), {"trans": trans, "backend": backend}
    a, x, out = moved(a, backend), moved(x, backend), moved(old.copy(), backend)
    result = ms.blas.gemv(a, x, **options)
    assert result.shape == expected.shape and result.dtype == a.dtype and (host(result) == expected).all()
    assert ms.blas.gemv(a, x, alpha=2, beta=-3, out=out, **options) is out
    assert (host(out) == 2 * expected - 3 * old).all()


@pytest.mark.parametrize("seed", range(8))
def test_any_strides(seed: int, backend: str) -> None:
    """Transposed, padded, in steps, backwards; results too, of which nothing else is touched."""
    if backend == "cuda":
        pytest.skip("strides are NumPy's")
    rng = np.random.default_rng(seed)
    for _ in range(2):
        dtype, trans = str(rng.choice(DTYPES)), str(rng.choice(["N", "T", "C"]))
        m, n = (int(size) for size in rng.integers(1, 9, 2))
        a = integers(rng, (4, 3, m, n), dtype)
        x = integers(rng, (3, n if trans == "N" else m) if seed % 2 else (4, 3, n if trans == "N" else m), dtype)
        expected = product_of(a, x, trans)
        a, x, out = (arranged(rng, one) for one in (a, x, np.full_like(expected, np.nan)))
        around = out if out.base is None else out.base
        assert ms.blas.gemv(a, x, trans=trans, out=out, backend=backend) is out and (out == expected).all()
        out[...] = 99
        assert not np.isnan(around).any()


def test_lists(backend: str) -> None:
    rng = np.random.default_rng(2)
    a, x = integers(rng, (6, 4, 5)), integers(rng, (6, 5))
    expected = product_of(a, x, "N")
    many_a, many_x = [moved(one, backend) for one in a], [moved(one, backend) for one in x]
    mixed = [one if i % 2 else one.T.copy().T for i, one in enumerate(many_a)]  # strides that differ
    for A, X, wanted_one in (
        (many_a, many_x, expected),
        (many_a, many_x[0], product_of(a, x[0], "N")),
        (many_a, moved(x, backend), expected),
        (many_a[0], many_x, product_of(a[0], x, "N")),
        (mixed, many_x, expected),
        (tuple(many_a), moved(x[:1], backend), product_of(a, x[0], "N")),
    ):
        result = ms.blas.gemv(A, X, backend=backend)
        assert isinstance(result, list) and all((host(y) == z).all() for y, z in zip(result, wanted_one, strict=True))
    out = [moved(np.ones(4), backend) for _ in range(6)]
    assert ms.blas.gemv(many_a, many_x, out=out, alpha=2, beta=1, backend=backend) is out
    assert all((host(y) == 2 * z + 1).all() for y, z in zip(out, expected, strict=True))
    with ms.pin(VARIANT="vendor"):
        for A, X in ((many_a, many_x), (many_a, many_x[0]), (many_a[0], many_x), (many_a, moved(x, backend))):
            found = ms.blas.gemv(A, X, backend=backend)
            assert (host(found[3]) == host(A[3] if A is many_a else A) @ host(X[3] if len(X) == 6 else X)).all()
    assert ms.blas.gemv([], [], backend=backend) == []


def test_empty_and_zero_sizes(backend: str) -> None:
    empty = moved(np.ones((5, 3, 0)), backend)
    assert (host(ms.blas.gemv(empty, moved(np.ones((5, 0)), backend), backend=backend)) == np.zeros((5, 3))).all()
    assert ms.blas.gemv(empty, moved(np.ones((5, 3)), backend), trans="T", backend=backend).shape == (5, 0)
    out = moved(np.full((5, 3), 2.0), backend)
    ms.blas.gemv(empty, moved(np.ones(0), backend), beta=3.0, out=out, backend=backend)
    assert (host(out) == 6).all()
    out[...] = np.nan
    ms.blas.gemv(empty, moved(np.ones(0), backend), out=out, backend=backend)
    assert (host(out) == 0).all()
    nobody = ms.blas.gemv(moved(np.ones((0, 3, 4)), backend), moved(np.ones((0, 4)), backend), backend=backend)
    assert nobody.shape == (0, 3)


def test_out_is_not_read(backend: str) -> None:
    a, x = np.ones((40, 4, 4)), np.full((40, 4), 2.0)
    out = moved(np.full((40, 4), np.nan), backend)
    ms.blas.gemv(moved(a, backend), moved(x, backend), alpha=0.5, out=out, backend=backend)
    assert (host(out) == 4).all()


def test_many_matrices(backend: str) -> None:
    """More than a grid once had in one dimension; one vector, or one matrix, for all."""
    a = np.arange(70_000 * 4, dtype="float32").reshape(70_000, 2, 2) % 7
    x = np.array([1, -2], "float32")
    assert (host(ms.blas.gemv(moved(a, backend), moved(x, backend), backend=backend)) == a @ x).all()
    found = ms.blas.gemv(moved(a[5], backend), moved(a[:, 0], backend), backend=backend)
    assert (host(found) == a[:, 0] @ a[5].T).all()


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_torch(dtype: str) -> None:
    torch = wanted("torch")
    rng = np.random.default_rng(11)
    a, x = torch.tensor(integers(rng, (6, 4, 5), dtype)), torch.tensor(integers(rng, (6, 5), dtype))
    expected = (a @ x[..., None])[..., 0]
    result = ms.blas.gemv(a, x)
    assert isinstance(result, torch.Tensor) and torch.equal(result, expected)
    assert torch.equal(ms.blas.gemv(a.conj(), x.conj()), expected.conj().resolve_conj())
    assert torch.equal(ms.blas.gemv(a.conj().mT, x, trans="T"), (a.conj() @ x[..., None])[..., 0])
    assert torch.equal(ms.blas.gemv(a.mT, x, trans="C"), (a.conj() @ x[..., None])[..., 0])
    assert torch.equal(ms.blas.gemv(a, x, backend="emulated"), expected)
    assert torch.equal(torch.stack(ms.blas.gemv(list(a), list(x))), expected)
    out = torch.zeros((6, 4), dtype=a.dtype)
    assert ms.blas.gemv(a, x, out=out, alpha=2) is out and torch.equal(out, 2 * expected)
    with pytest.raises(TypeError, match="a has PyTorch arrays and x NumPy"):
        ms.blas.gemv(a, x.numpy())


def test_jax() -> None:
    jnp = wanted("jax.numpy")
    rng = np.random.default_rng(12)
    A, X = integers(rng, (6, 4, 5), "float32"), integers(rng, (6, 5), "float32")
    a, x = jnp.asarray(A), jnp.asarray(X)
    result = ms.blas.gemv(a, x)
    assert type(result) is type(a) and (np.asarray(result) == product_of(A, X, "N")).all()
    assert (np.asarray(ms.blas.gemv(list(a), list(x))[2]) == A[2] @ X[2]).all()
    with pytest.raises(TypeError, match="out is a JAX array"):
        ms.blas.gemv(a, x, out=x)


ONES = np.ones((5, 3, 4))


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda: ms.blas.gemv(ONES, np.ones((4, 4))), ValueError, r"a has leading dimensions \(5,\) and x \(4,\)"),
        (lambda: ms.blas.gemv(ONES, np.ones(3)), ValueError, "a has 4 columns and x 3 entries"),
        (lambda: ms.blas.gemv(ONES, np.ones(4), trans="T"), ValueError, "a has 3 rows .* and x 4 entries"),
        (lambda: ms.blas.gemv(ONES, np.ones(4), trans="H"), ValueError, "trans='H'"),
        (lambda: ms.blas.gemv(ONES, np.float64(3)), ValueError, "x is a single number"),
        (lambda: ms.blas.gemv(ONES, np.array(3.0)), ValueError, "x is a single number"),
        (lambda: ms.blas.gemv(ONES[0, 0], np.ones(4)), ValueError, r"a has shape \(4,\)"),
        (lambda: ms.blas.gemv(ONES, np.ones(4, "f2")), UnsupportedProblem, "x has dtype float16"),
        (lambda: ms.blas.gemv(ONES.astype(int), np.ones(4, int)), UnsupportedProblem, "a has dtype int64"),
        (lambda: ms.blas.gemv(ONES, np.ones(4), out=np.ones((5, 4))), ValueError, r"out has shape \(5, 4\), the"),
        (lambda: ms.blas.gemv(ONES, np.ones(4), out=ONES[:, :, 0]), ValueError, "out overlaps a"),
        (lambda: ms.blas.gemv(ONES, np.ones(4), out=np.broadcast_to(1.0, (5, 3))), ValueError, "read-only|one place"),
        (lambda: ms.blas.gemv(ONES, np.ones(4), beta=1.0), ValueError, "pass out"),
        (lambda: ms.blas.gemv(ONES, np.ones(4), alpha=1j), TypeError, "must be real"),
        (lambda: ms.blas.gemv(list(ONES), [np.ones(4)]), ValueError, "a is a list of 5 arrays and x is a list of 1"),
        (lambda: ms.blas.gemv(list(ONES), []), ValueError, "a is a list of 5 arrays, and of x there are none"),
        (lambda: ms.blas.gemv(list(ONES), [np.ones(4), *[np.ones(3)] * 4]), ValueError, r"x\[1\] has shape \(3,\)"),
        (lambda: ms.blas.gemv(list(ONES), [np.ones((4, 1))] * 5), ValueError, r"x\[0\] has shape \(4, 1\)"),
        (lambda: ms.blas.gemv(list(ONES), [np.ones(4)] * 5, out=[np.ones(3)] * 5), ValueError, "an array twice"),
        (lambda: ms.plan("gemv", ONES), TypeError, "pass B"),
        (lambda: ms.plan("gemv", [], []), ValueError, "an empty list"),
        (lambda: ms.plan("gemv", ONES, np.ones(4), side="L"), TypeError, "side"),
    ],
)
def test_errors(run: Any, error: type[Exception], message: str) -> None:
    before = ONES.copy()
    with pytest.raises(error, match=message):
        run()
    assert (before == ONES).all()


def test_a_square_may_not_be_overwritten() -> None:
    x = np.ones((5, 3))
    with pytest.raises(ValueError, match="out overlaps x"):
        ms.blas.gemv(np.ones((5, 3, 3)), x, out=x)


@needs_cpu
def test_plan() -> None:
    A, x = np.ones((5, 3, 4)), np.full((5, 4), 2.0)
    plan = ms.plan("gemv", A, x)
    assert "M=3 N=1 K=4 BATCH=5" in plan.explain() and "gemv_simd" in plan.source() and (plan(A, x) == 8).all()
    with pytest.raises(ValueError, match="make another plan"):
        plan(A[:4], x[:4])
    assert (ms.plan("gemv", A, np.ones((5, 3)), trans="T")(A, np.ones((5, 3))) == 3).all()
    with ms.pin(VARIANT="vendor"):
        assert "vendor" in ms.plan("gemv", A, x).explain() and (ms.blas.gemv(A, x) == 8).all()
    with ms.pin(TILE_M=2):
        assert ms.plan("gemv", A, x).choice.config.TILE_M == 2
    with ms.pin(VARIANT="stream", UNROLL=3, BLOCKS_PER_SM=1):
        held = ms.plan("gemv", A, x, backend="emulated")
    assert "UNROLL=3" in held.explain() and "the matrices'" in held.explain() and (held(A, x) == 8).all()


@needs_cpu
def test_plans_are_kept(no_plans: None) -> None:
    for _ in range(3):
        ms.blas.gemv(np.ones((5, 4, 4)), np.ones(4))
        ms.blas.gemv([np.ones((4, 4))] * 3, [np.ones(4)] * 3)
    assert len(PLANS) == 2


@needs_cpu
def test_tune(own_cache: Any) -> None:
    A, x = np.ones((200, 3, 3)), np.ones((200, 3))
    ms.blas.gemv(A, x)
    result = ms.tune("gemv", A, x, limit=2)
    assert not len(PLANS)  # what is planned from now on may use the winner
    assert result.winner and not [trial for trial in result.trials if trial.status != "ok"]
    assert "measured at BATCH=200" in ms.plan("gemv", A, x).explain()


def test_commands(own_cache: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """--batch is the number of matrices, --k that of their columns."""
    from mansard.cli import main

    assert main(["tune", "gemv", "--m", "3", "--k", "5", "--batch", "50", "--backend", "emulated", "--limit", "2"]) == 0
    assert "M=3 N=1 K=5 BATCH=50" in capsys.readouterr().out
    assert main(["explain", "gemv", "--m", "4", "--batch", "1e6", "--device", "emulated", "--source"]) == 0
    text = capsys.readouterr().out
    assert "BATCH=1000000" in text and "gemv_lanes" in text and "at the speed of reading" in text


@pytest.mark.parametrize("stack", ["packed", "strided", "shared", "pointers"])
def test_tuned_operands_lie_as_the_problem_says(stack: str) -> None:
    from mansard.backends import emulated
    from mansard.tune.cases import make_case
    from mansard.tune.verify import Verifier, Wrong

    for layout in ("row", "col"):
        problem = P("complex128", 3, 4, 20, stack_a=stack, layout_a=layout, conj_b=True, stack_b="strided", pitch_b=2)
        case = make_case(problem, emulated.backend())
        verifier, config = Verifier(case), defaults.default(problem, emulated.backend().device)
        verifier.exact(config, lambda: None)
        out = case.poisoned()
        case.call(emulated.backend().prepare(case.kernel(config)), out)()
        verifier.bounded(out)
        out[17] += 1e-6
        with pytest.raises(Wrong, match=r"entry \[17,0\]"):
            verifier.bounded(out)


def test_doctests() -> None:
    failures, tried = doctest.testmod(import_module("mansard.blas.vectors"))
    assert tried >= 4 and failures == 0
