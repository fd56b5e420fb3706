"""One cache of plans for all operations, plans by the names that users call, and nothing compiled in vain."""

from __future__ import annotations

import gc
import inspect
import pickle
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from conftest import needs_cpu

import mansard as ms
from mansard.backends import cpu
from mansard.errors import UnsupportedProblem
from mansard.operations import registry
from mansard.operations.plans import PLANS, Plans
from mansard.plan.plan import Plan
from mansard.records import database
from mansard.tune import session

V, S = np.arange(30.0).reshape(10, 3) + 10 * np.eye(10, 3), np.eye(3) * 2
BASIS = np.linalg.qr(np.random.default_rng(1).standard_normal((10, 3)))[0]
STACK, RIGHT = np.stack([np.eye(3) * 2 + np.tri(3) * i for i in range(1, 5)]), np.ones((4, 3, 2))
DEFINITE = STACK @ STACK.swapaxes(1, 2)
LU = tuple(map(np.stack, zip(*map(scipy.linalg.lu_factor, STACK), strict=True)))
SPARSE = scipy.sparse.csr_array(np.diag([1.0, 2.0, 3.0]) + np.eye(3, k=1))
OPERANDS: dict[str, tuple[Any, ...]] = {
    "gram": (V,), "matmul": (V, S), "tsmm": (V, S), "tsm2r": (V, S), "matmul_gram": (V, S), "project": (BASIS, V),
    "cholesky_qr": (V,), "orthogonalize": (V, BASIS), "gemv": (STACK, np.ones(3)), "syrk": (STACK,), "herk": (STACK,),
    "trsv": (STACK, np.ones((4, 3))), "cho_solve": ((np.linalg.cholesky(DEFINITE), True), RIGHT),
    "lu_solve": (LU, RIGHT), "matvec": (ms.sparse.matrix(SPARSE), np.arange(3.0)), "matrix_powers": (SPARSE, 2),
    **dict.fromkeys(("gemm", "trsm", "trmm", "solve_triangular", "solve", "lstsq"), (STACK, RIGHT)),
    **dict.fromkeys(("syr2k", "her2k"), (RIGHT, RIGHT + 1)),
    **dict.fromkeys(("cholesky",), (DEFINITE,)),
    **dict.fromkeys(("lu", "lu_factor", "qr", "inv", "det", "slogdet"), (STACK,)),
    **dict.fromkeys(("eigh", "eigvalsh", "tridiagonalize"), (DEFINITE,)),
    **dict.fromkeys(("svd", "svdvals", "bidiagonalize", "pinv", "matrix_rank", "cond", "norm", "polar"), (STACK,)),
    "procrustes": (STACK, DEFINITE),
}  # fmt: skip
CALLS: dict[str, Any] = {
    "gram": ms.gram, "matmul": ms.matmul, "gemm": ms.blas.gemm, "gemv": ms.blas.gemv, "trsm": ms.blas.trsm,
    "trmm": ms.blas.trmm, "cholesky": ms.linalg.cholesky, "solve": ms.linalg.solve, "inv": ms.linalg.inv,
    "det": ms.linalg.det,
}  # fmt: skip
WITHOUT_PLANS = {
    **dict.fromkeys(("mansard.Interleaved", "mansard.Ragged", "mansard.sparse.Matrix"), "a container"),
    "mansard.sparse.matrix": "makes a container",
    **dict.fromkeys(("mansard.interleave", "mansard.deinterleave"), "copies a batch into another layout"),
    **dict.fromkeys(("mansard.pin", "mansard.plan", "mansard.tune", "mansard.sparse.tune"), "about other operations"),
    "mansard.precompile": "about other operations",
    **{f"mansard.blas.{name}": "the array library's arithmetic" for name in ("axpy", "iamax", "scal", "swap")},
    **dict.fromkeys(("mansard.blas.dot", "mansard.blas.ger"), "one product: plan gemv or gemm"),
    **dict.fromkeys(("mansard.linalg.ormqr", "mansard.linalg.larfb"), "three products for each block of reflectors"),
    "mansard.linalg.larft": "a product and a triangular solve",
    "mansard.linalg.laswp": "moves rows",
    **{
        f"mansard.sparse.linalg.{name}": "iterations of products"
        for name in ("Propagator", "cg", "eigsh", "expm_multiply", "gmres", "lobpcg", "minres")
    },
    "mansard.sparse.linalg.Report": "what a solver did",
    **{f"mansard.linalg.{name}": "what a function returns" for name in ms.linalg.__all__ if name.endswith("Result")},
}


def operands_of(name: str) -> tuple[Any, ...]:
    return OPERANDS[name.removesuffix("_ex")]


def several(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, tuple) else (results,)


def meaning(name: str, found: tuple[Any, ...]) -> tuple[Any, ...]:
    """Results without the signs that nothing determines: vectors and reflections as the products that they form."""
    form = name.removesuffix("_ex")
    if form == "eigh":
        return found[0], (found[1] * found[0][:, None]) @ found[1].swapaxes(1, 2)
    if form == "svd":
        return found[1], (found[0] * found[1][:, None]) @ found[2]
    if form in ("tridiagonalize", "bidiagonalize") and len(found) > 1:
        left, d, e, right = (*found, found[0].swapaxes(1, 2)) if len(found) == 3 else found
        middle = np.stack([np.diag(one) + np.diag(other, 1) for one, other in zip(d, e, strict=True)])
        below = np.stack([np.diag(other, -1) for other in e]) if form == "tridiagonalize" else 0
        return (left @ (middle + below) @ right,)
    return found


@needs_cpu
@pytest.mark.parametrize("name", registry.OPERATIONS)
def test_every_operation_is_planned_by_its_name(name: str) -> None:
    """A plan says what it does, and gives what the reference gives."""
    operation, operands = registry.OPERATIONS[name], operands_of(name)
    plan = ms.plan(name, *operands)
    if name == "matrix_powers":
        assert "execution" in plan.explain()
        assert np.array_equal(plan(np.ones(3)), operation.reference(*operands, np.ones(3)))
        return
    assert "runs" in plan.explain() and "because" in plan.explain()
    found = meaning(name, several(plan(operands[1]) if name == "matvec" else plan(*operands)))
    expected = meaning(name, several(operation.reference(*operands)))
    for one, other in zip(found, expected, strict=False):
        assert np.allclose(one, other, rtol=1e-12, atol=1e-12)
    if name in CALLS:
        assert np.array_equal(found[0], CALLS[name](*operands))


@needs_cpu
def test_every_public_function_has_a_plan_or_a_reason() -> None:
    modules: list[Any] = [ms, ms.linalg, ms.blas, ms.sparse, ms.sparse.linalg]
    public = {
        f"{module.__name__}.{name}": getattr(module, name)
        for module in modules for name in module.__all__ if callable(getattr(module, name))
    }  # fmt: skip
    planned = {f"{one.home}.{one.name}" for one in registry.OPERATIONS.values() if one.home and one.name != "matvec"}
    assert {name for name, one in public.items() if not isinstance(one, ModuleType)} == planned | set(WITHOUT_PLANS)
    for name in planned:  # options are those of the function
        operation = registry.OPERATIONS[name.rpartition(".")[2]]
        known = inspect.signature(getattr(import_module(operation.home), operation.name)).parameters
        assert set(operation.options) <= set(known), name


OPTIONS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("gram", (V, BASIS), {"conj": False}),
    ("gemm", (STACK, RIGHT), {"trans_a": "T"}),
    ("gemm", (V, S), {"trans_b": "C"}),
    ("syrk", (STACK,), {"trans": "T"}),
    ("syr2k", (RIGHT, RIGHT + 1), {"trans": "T"}),
    ("trsm", (STACK, RIGHT.swapaxes(1, 2).copy()), {"side": "R", "trans": "T"}),
    ("trsm", (STACK, RIGHT), {"check": True}),
    ("solve_triangular", (STACK, np.ones(3)), {"lower": True, "trans": 1}),
    ("solve", (STACK, np.ones(3)), {}),
    ("solve", (STACK[:1], RIGHT), {}),
    ("solve", (DEFINITE, RIGHT), {"assume_a": "pos"}),
    ("lstsq", (STACK, RIGHT), {"driver": "qr"}),
    ("cholesky", (DEFINITE,), {"upper": True}),
    ("qr", (STACK,), {"mode": "r"}),
    ("eigvalsh", (DEFINITE,), {"UPLO": "U"}),
    ("svd", (STACK,), {"compute_uv": False}),
    ("svd", (DEFINITE,), {"compute_uv": False, "hermitian": True}),
    ("pinv", (DEFINITE,), {"hermitian": True}),
    ("cond", (STACK,), {"p": 1}),
    ("norm", (STACK,), {"ord": "nuc", "axis": (-2, -1)}),
    ("norm", (STACK,), {"ord": 1, "axis": (-2, -1)}),
    ("polar", (STACK,), {"side": "left"}),
]


@needs_cpu
@pytest.mark.parametrize(("name", "operands", "options"), OPTIONS, ids=str)
def test_plans_take_the_options_of_the_call(name: str, operands: tuple[Any, ...], options: dict[str, Any]) -> None:
    operation = registry.OPERATIONS[name]
    found = several(ms.plan(name, *operands, **options)(*operands))[0]
    called = several(getattr(import_module(operation.home), name)(*operands, **options))[0]
    known = {option: value for option, value in options.items() if option not in ("check", "driver", "assume_a")}
    assert np.allclose(found, called, rtol=1e-12, atol=1e-12)
    assert np.allclose(found, several(operation.reference(*operands, **known))[0], rtol=1e-12, atol=1e-12)


@needs_cpu
def test_plans_of_several_steps() -> None:
    """Each step is explained; arrays that differ are refused; pickles make the steps again."""
    assert "step 1 of 1: qr\n" in ms.plan("cholesky_qr", V).explain(), "LAPACK factors few rows"
    plan = ms.plan("cholesky_qr", V, shift="always")
    assert all(f"of 4: {name}\n" in plan.explain() for name in ("gram", "matmul"))
    with pytest.raises(ValueError, match="V differs"):
        plan(V[:9])
    for name in ("cho_solve", "lu_solve"):
        held = ms.plan(name, *OPERANDS[name])
        again: Plan = pickle.loads(pickle.dumps(held))
        assert np.array_equal(again(*OPERANDS[name]), held(*OPERANDS[name]))
    with ms.pin(VARIANT="vendor"):
        pinned = ms.plan("syrk", STACK)
    assert pinned.choice.origin == "pinned" and np.array_equal(pinned(STACK), STACK @ STACK.swapaxes(1, 2))
    with pytest.raises(ValueError, match="lower=False differs"):
        ms.plan("cho_solve", *OPERANDS["cho_solve"])((OPERANDS["cho_solve"][0][0], False), RIGHT)


@needs_cpu
def test_tuning_reaches_the_kernels_behind_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result names the family; of several steps there is one result each."""
    for module in (database, session):
        monkeypatch.setattr(module, "store_path", lambda device, family: tmp_path / f"{family}.jsonl")
    assert ms.tune("syrk", np.ones((50, 3, 3)), limit=1).problem.operation == "rank_k"
    result = ms.tune("matmul", np.ones((50, 3, 3)), np.ones((50, 3, 1)), limit=1)
    assert result.problem.operation == "gemv" and result.winner is not None
    with pytest.raises(UnsupportedProblem, match="there is nothing to tune"):
        ms.tune("trmm", np.ones((2, 600, 600)), np.ones((2, 600, 1)))
    by_svd = ms.tune("lstsq", np.ones((50, 5, 3)), np.ones((50, 5, 1)), limit=1)
    assert by_svd and {"qr", "jacobi"} <= {one.problem.operation for one in by_svd} <= {"qr", "jacobi", "gemm", "gemv"}
    with pytest.raises(UnsupportedProblem, match=r"no kernel multiplies such operands\); there is nothing to tune"):
        ms.tune("matmul", STACK[0].astype(int), STACK[0].astype(int))


def test_names_and_options_that_are_not_there() -> None:
    with pytest.raises(ValueError, match="'solve'"):
        ms.plan("solv", STACK, RIGHT)
    with pytest.raises(ValueError, match="did you mean 'solve'"):
        ms.plan("slove", STACK, RIGHT)
    with pytest.raises(TypeError, match="solve has no option trans; it has assume_a, pivot"):
        ms.plan("solve", STACK, RIGHT, trans="T")
    with pytest.raises(TypeError, match=r"matmul takes A and B .*: pass B"):
        ms.plan("matmul", V)
    with pytest.raises(TypeError, match="inv takes a alone"):
        ms.plan("inv", STACK, RIGHT)
    with pytest.raises(TypeError, match=r"pass ms\.sparse\.matrix\(A\)"):
        ms.plan("matvec", SPARSE, np.ones(3))


@needs_cpu
def test_nothing_is_compiled_where_the_library_answers(no_plans: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever answers is decided before a compiler is called."""

    def compiled(*_: Any) -> None:
        raise AssertionError("a kernel was prepared")

    monkeypatch.setattr(cpu.CpuBackend, "prepare", compiled)
    square, large = np.ones((300, 300)), np.ones((3, 200, 200))
    for A, C in ((square, square), (large, large), (square, square[0]), (np.ones((2, 2), int), np.ones((2, 2), int))):
        assert np.array_equal(ms.matmul(A, C), A @ C)
        assert "library" in ms.plan("matmul", A, C).explain()


def test_a_cache_of_plans_is_bounded_and_forgets() -> None:
    plans = Plans(most=2)
    for key in "abc":
        plans.keep(key, key)
    assert len(plans) == 1 and plans.get("c") == "c"
    with ms.pin(TILE_M=1):
        plans.keep("d", "d")
        assert plans.made("c", lambda: "new") == "new"
    assert plans.get("d") is None and plans.made("c", lambda: "new") == "c"
    plans.forget()
    assert len(plans) == 0


@needs_cpu
def test_plans_of_a_sparse_matrix_are_part_of_the_cache(no_plans: None) -> None:
    """They are forgotten with all others, not remembered under pins, and dropped with the matrix, which they hold."""
    M, x = ms.sparse.matrix(SPARSE), np.arange(3.0)
    M @ x, M.product(x, out=np.empty(3)), M @ x
    assert len(PLANS) == len(M.held.plans) == 2
    with ms.pin(VARIANT="vendor"):
        assert np.array_equal(M @ np.ones((3, 2)), SPARSE @ np.ones((3, 2)))
    assert len(PLANS) == 2
    PLANS.forget()
    assert len(PLANS) == len(M.held.plans) == 0
    assert np.array_equal(M @ x, SPARSE @ x) and len(PLANS) == 1
    again: Any = pickle.loads(pickle.dumps(M))
    assert np.array_equal(again @ x, M @ x) and len(PLANS) == 2
    del M, again
    gc.collect()
    assert len(PLANS) == 0


@needs_cpu
def test_all_operations_share_the_cache(no_plans: None) -> None:
    for name, function in CALLS.items():
        before = len(PLANS)
        function(*operands_of(name))
        assert len(PLANS) > before, name


def test_the_fused_kernel_is_a_step_on_gpus() -> None:
    """What a product and a gram do on CPUs is one kernel there; planned and called on the emulator."""
    A, C = np.ones((400, 5)), np.eye(5)
    plan = ms.plan("matmul_gram", A, C, backend="emulated")
    assert "step 1 of 1: matmul_gram\n" in plan.explain() and "VARIANT=ring" in plan.explain()
    W, G = plan(A, C)
    assert (W == 1).all() and (G == 400).all()
