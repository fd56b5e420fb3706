"""Powers of sparse matrices: kernels exact on integers, equal to repeated products bit for bit, whatever x and A hold;
`ms.matrix_powers` against NumPy from the outside."""

from __future__ import annotations

import doctest
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from powers_cases import (
    GROUPS,
    PERSISTENT,
    RESERVED,
    SIMD,
    THREE,
    Arrays,
    Case,
    exact,
    expected,
    grid,
    numbers,
    persistent,
    same_bits,
)  # fmt: skip
from sparing import spared
from test_compile import A100, H200

import mansard as ms
from mansard import testing
from mansard.api import powers_basis, powers_call, powers_choice, powers_matrix
from mansard.api.powers_task import Options, Task
from mansard.backends import cpu, emulated
from mansard.compile import nvrtc
from mansard.errors import IllegalConfig, LaunchError
from mansard.families.powers import defaults, emit, fit, space, spec, work
from mansard.families.powers.space import Groups
from mansard.sparse import convert, matrices
from mansard.sparse.storage import Ell
from mansard.tune.measure import Timing

needs_nvrtc = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
needs_cpu = pytest.mark.skipif(cpu.unavailable() is not None, reason=f"cpu: {cpu.unavailable()}")


# ---- kernels ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [*PERSISTENT, *GROUPS], ids=str)
def test_gpu_kernels_are_exact(case: Case, gpu_backend: str) -> None:
    exact(case, gpu_backend)


@needs_cpu
@pytest.mark.parametrize("case", SIMD, ids=str)
def test_the_cpu_kernel_is_exact(case: Case) -> None:
    for _ in range(5):  # threads meet otherwise every time
        exact(case, "cpu")


@pytest.mark.parametrize("order", ["reverse", "random"])
@pytest.mark.parametrize("case", PERSISTENT, ids=str)
def test_persistent_in_other_thread_orders(case: Case, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANSARD_EMULATED_ORDER", order)
    ms.settings.reread()
    try:
        exact(case, "emulated")
    finally:
        monkeypatch.undo()
        ms.settings.reread()


@pytest.mark.parametrize("shape", [(1, 1), (31, 1), (32, 1), (33, 1), (33, 31)])
def test_every_number_of_rows(shape: tuple[int, int], gpu_backend: str) -> None:
    exact(replace(PERSISTENT[1], shape=shape, dropped=0.0), gpu_backend)
    exact(replace(GROUPS[0], shape=shape, dropped=0.0), gpu_backend)


def strange(case: Case, seed: int = 3) -> tuple[Any, Any]:
    """A matrix and a vector with NaNs (the reserved one too), infinities and negative zeros, far from each other."""
    A = case.matrix(integers=False)
    x = numbers(np.random.default_rng(seed), A.shape[0] * case.NVECS, case.dtype, integers=False)
    real = x.view(x.real.dtype)
    real[3], real[len(real) // 2], real[-1] = np.inf, np.nan, -0.0
    real.view(RESERVED[str(real.dtype)].dtype)[len(real) // 3] = RESERVED[str(real.dtype)]
    values = A.data.view(A.data.real.dtype)
    values.view(RESERVED[str(values.dtype)].dtype)[len(values) // 4] = RESERVED[str(values.dtype)]
    values[5] = -np.inf
    return A, x


@pytest.mark.parametrize("case", [PERSISTENT[i] for i in (2, 3, 7, 9, 11, 12)], ids=str)
def test_the_same_bits_as_repeated_products(case: Case, gpu_backend: str) -> None:
    A, x = strange(case)
    plainly = Arrays(case, A, x, gpu_backend).run(Groups(64, 4))
    found = Arrays(case, A, x, gpu_backend).run()
    assert same_bits(found, plainly)
    assert np.isnan(found).any() and np.isfinite(found).any()


@needs_cpu
@pytest.mark.parametrize("case", [SIMD[0], SIMD[2]], ids=str)
def test_what_is_not_finite_spreads_as_in_numpy(case: Case) -> None:
    A, x = strange(case)
    with np.errstate(all="ignore"):
        want = expected(case, A, x)
    found = Arrays(case, A, x, "cpu").run()
    if not case.values:  # NumPy multiplies real with complex numbers as if both were complex
        assert (np.isnan(found) == np.isnan(want)).all() and (np.isinf(found) == np.isinf(want)).all()
    columns = np.abs(sp.csr_array((np.ones(A.nnz), A.indices, A.indptr), shape=A.shape))
    touched = np.zeros(A.shape[0])
    touched[~np.isfinite(x)] = 1
    touched[np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))[~np.isfinite(A.data)]] = 1
    for powers in found[:, :, 0]:  # nowhere else: padding is not multiplied
        touched = np.minimum(1, touched + columns @ touched)
        assert np.isfinite(powers[touched == 0]).all()


@pytest.mark.parametrize("case", [PERSISTENT[3], PERSISTENT[9]], ids=str)
def test_a_wait_that_nobody_ends_is_given_up(case: Case, gpu_backend: str) -> None:
    """A tile that no block forms: others wait for it, and stop waiting."""
    case = replace(case, limit=3 if gpu_backend == "emulated" else 10**7)
    A = case.matrix()
    arrays = Arrays(case, A, numbers(np.random.default_rng(1), A.shape[0], case.dtype), gpu_backend)
    found = arrays.run(fixed=lambda sizes: (*sizes[:2], sizes[2] - 1, *sizes[3:]))
    assert int(arrays.failed[0]) == 1 and np.isnan(found).any()


def test_slots_must_hold_what_is_retained() -> None:
    problem, device = spec.problem("float64", 1000, 5000, 5), H200
    good = persistent(RETAIN="1|2|2", LAG=4, SLOTS=14)
    assert work.slots_needed(good) == 14 and space.illegal(problem, good, device) is None
    for bad in (
        {"SLOTS": 13},
        {"RETAIN": "1|2"},
        {"RETAIN": "1|x"},
        {"LAG": 0},
        {"WINDOW": 33},
        {"GATHER": "no"},
        {"TILE": 15},
    ):
        assert space.illegal(problem, replace(good, **bad), device) is not None, bad
    assert space.illegal(problem, good, A100) is not None
    assert space.illegal(problem, Groups(100), device) and space.illegal(problem, Groups(64, 4, "no"), device)
    for config in (good, Groups(), *space.candidates(problem, H200)):
        assert space.from_dict(space.to_dict(config)) == config


# ---- what the compiler makes of them ----------------------------------------------------------------------


def compiled(problem: Any, config: Any) -> nvrtc.Resources:
    entry = nvrtc.compile_cuda(emit.source(problem, config, H200), "sm_90a")
    assert "warning" not in entry.log, entry.log
    return nvrtc.resources(entry.log)


@needs_nvrtc
@pytest.mark.parametrize("gather", ["relaxed", "stale"])
@pytest.mark.parametrize(
    "shape", [("float64", 27, "int32"), ("float64", 7, "int32"), ("float32", 13, "delta16")], ids=str
)
def test_what_is_fitted_does_not_spill(shape: tuple[str, int, str], gather: str) -> None:
    dtype, width, index = shape
    problem = spec.problem(dtype, 1 << 22, width << 22, 5, index=index)
    passes, reason = fit.passes(problem, banded(1 << 22, width, 5000, work.entry_bytes(problem)), H200)
    assert len(passes) == 1, reason
    resources = compiled(problem, replace(passes[0], GATHER=gather))
    assert resources.spill_bytes <= 16 and resources.registers <= (128 if passes[0].WARPS > 10 else 168)
    assert 0.6 * resources.registers <= work.registers(problem, passes[0]) <= 1.4 * resources.registers


@needs_nvrtc
@pytest.mark.parametrize("case", spared([*PERSISTENT, *GROUPS], 4), ids=str)
def test_compiles_for_sm_90(case: Case) -> None:
    problem = case.problem(case.matrix(), True)
    assert compiled(problem, case.config).spill_bytes == 0
    for kernel in (emit.fill(problem, H200, True), emit.permute(problem, H200, 3), emit.combine(problem, H200)):
        assert "warning" not in nvrtc.compile_cuda(kernel.source, "sm_90a").log
    if case.config.VARIANT == "groups":
        assert (
            nvrtc.resources(nvrtc.compile_cuda(emit.source(problem, case.config, A100), "sm_80").log).spill_bytes == 0
        )


# ---- fitting and choosing ---------------------------------------------------------------------------------


def banded(rows: int, width: int, ahead: int, entry: int = 12) -> fit.Pattern:
    """Rows of `width` entries that reach `ahead` rows ahead."""

    def reach(tile: int) -> Any:
        tiles = -(-rows // tile)
        return np.minimum((np.arange(tiles) * tile + tile - 1 + ahead) // tile, tiles - 1)

    return fit.Pattern(np.full(-(-rows // 32), width * 32 * entry), width, reach)


@pytest.mark.parametrize(
    ("name", "rows", "width", "ahead", "p", "wanted"),
    [
        ("27pt", 1 << 22, 27, 128 * 128 + 129, 5, [("1|1|3", 7)]),
        ("27pt", 1 << 22, 27, 128 * 128 + 129, 3, [("3", 8)]),
        ("27pt", 1 << 22, 27, 128 * 128 + 129, 8, [("1|3", 7), ("1|3", 7)]),
        ("band", 1 << 22, 27, 13, 5, [("5", 4)]),
        ("7pt", 1 << 24, 7, 65536, 5, [("1|1|3", 7)]),
        ("wide", 1 << 24, 27, 1 << 20, 2, []),
    ],
)
def test_configurations_follow_from_the_reach(
    name: str, rows: int, width: int, ahead: int, p: int, wanted: list[tuple[str, int]]
) -> None:
    """What was found by trying on an H200, or as good."""
    problem = spec.problem("float64", rows, rows * width, p)
    passes, reason = fit.passes(problem, banded(rows, width, ahead), H200)
    assert [(config.RETAIN, config.LAG) for config in passes] == wanted
    assert bool(reason) == (not passes)
    for config in passes:
        part = problem.replace(P=sum(work.retained(config.RETAIN)))
        assert space.illegal(part, config, H200) is None
        assert fit.ahead(banded(rows, width, ahead).reach(32 * config.TILE), 132) <= config.LAG


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_there_is_always_a_configuration(dtype: str) -> None:
    for width, columns in ((1, 1), (7, 2), (300, 4), (27, 16)):
        problem = spec.problem(dtype, 10000, 10000 * width, 4, NVECS=columns, shifted=True, three_term=True)
        assert (
            defaults.default(problem, H200) is not None and defaults.default(problem, cpu.backend().device) is not None
        )


# ---- the face ---------------------------------------------------------------------------------------------


def on(backend: str, A: Any) -> tuple[Any, Any, dict[str, Any]]:
    """A where the backend reads it, the array module, and keywords."""
    xp = testing.array_module(backend)
    if xp is np:
        return A, xp, {"backend": backend}
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix(sp.csr_matrix(A)), xp, {}


def host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.get()


def shuffled(A: Any, seed: int = 5) -> Any:
    order = np.random.default_rng(seed).permutation(A.shape[0])
    return sp.csr_array(A[order][:, order])


def executions(backend: str) -> tuple[str, ...]:
    return ("plain", "groups") if backend == "cpu" else ("plain", "groups", "persistent")


def reference(A: Any, x: Any, steps: Any) -> Any:
    return np.stack(spec.reference(A, x, steps))


@pytest.mark.parametrize("output", ["all", "last", "combination"])
def test_all_executions_agree_to_the_bit(backend: str, output: str) -> None:
    """Rows in the order of levels or as they are, all results in that of A."""
    A = shuffled(grid(23, 61, dropped=0.05, integers=False))
    moved, xp, keywords = on(backend, A)
    weights = np.array([[1.0, -2.0, 0.5, 3.0], [0.0, 0.0, 1.0, 0.0]])
    what: Any = (output, weights) if output == "combination" else output
    x = xp.asarray(numbers(np.random.default_rng(0), A.shape[0], "float64", integers=False))
    results = []
    for execution in executions(backend):
        order = "none" if execution == "plain" else "search"
        with ms.pin(**(_PINS if execution == "persistent" else {})):
            P = ms.matrix_powers(moved, 3, THREE, execution=execution, output=what, order=order, **keywords)
        found = P(x)
        assert f"execution: {execution}" in P.explain()
        results.append(host(found))
        ours = P.permuted(x[P.permutation])
        assert same_bits(host(ours), host(found[..., P.permutation]))
    assert all(same_bits(results[0], other) for other in results[1:])
    powers = reference(A, host(x), powers_basis.coefficients(THREE, 3))
    want = {"all": powers, "last": powers[-1], "combination": np.tensordot(weights, powers, 1)}[output]
    scale = reference(abs(A), abs(host(x)), np.abs(powers_basis.coefficients(THREE, 3)))
    bound = 40 * 2.0**-53 * (np.tensordot(abs(weights), scale, 1) if output == "combination" else scale)
    assert (np.abs(results[0] - want) <= (bound[-1] if output == "last" else bound)).all()


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_powers_are_products_of_the_same_storage(backend: str, dtype: str) -> None:
    A = grid(23, 31, dtype, dropped=0.05, integers=False)
    moved, xp, keywords = on(backend, A)
    x = xp.asarray(numbers(np.random.default_rng(0), A.shape[0], dtype, integers=False))
    stored = ms.sparse.matrix(moved, format="sell", C=32, sigma=1, index="int32", **keywords)
    products = [x]
    for _ in range(3):
        products.append(stored @ products[-1])
    for execution in executions(backend):
        found = ms.matrix_powers(moved, 3, execution=execution, order="given", index="int32", **keywords)(x)
        assert same_bits(host(found), np.stack([host(one) for one in products])), execution


_PINS = {"TILE": 1, "ABREAST": 1, "UNROLL": 3, "WARPS": 3, "SLOT_BYTES": 2048, "SLOTS": 60, "LAG": 9, "DIRECT": True}


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("p", [0, 1, 2, 7])
def test_every_number_of_powers(backend: str, p: int, columns: int) -> None:
    A = grid(19, 23)
    moved, xp, keywords = on(backend, A)
    x = numbers(np.random.default_rng(2), (A.shape[0],) if columns == 1 else (A.shape[0], columns), "float64")
    for execution in executions(backend)[1:]:
        P = ms.matrix_powers(moved, p, execution=execution, columns=columns, **keywords)
        found = P(xp.asarray(x))
        assert found.shape == (p + 1, *x.shape)
        assert (host(found) == reference(A, x, powers_basis.coefficients("monomial", p))).all()
        weights = np.ones(p + 1)
        P = ms.matrix_powers(
            moved, p, execution=execution, columns=columns, output=("combination", weights), **keywords
        )
        assert (host(P(xp.asarray(x))) == host(found).sum(axis=0)).all()


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33])
def test_small_matrices(backend: str, n: int) -> None:
    A = sp.csr_array(sp.diags_array([np.arange(1.0, n + 1)], offsets=[0], shape=(n, n))) if n else sp.csr_array((0, 0))
    moved, xp, keywords = on(backend, A)
    x = xp.arange(n, dtype=np.float64)
    for p in (0, 2):
        assert (
            host(ms.matrix_powers(moved, p, **keywords)(x)) == reference(A, host(x), np.array([[1.0, 0, 0]] * p))
        ).all()


def test_odd_patterns(backend: str) -> None:
    """Parts that nothing joins, rows without entries, entries above the diagonal alone, one full row."""
    dense = np.zeros((150, 150))
    dense[77], dense[:, 3] = 1.0, 2.0
    odd = [
        sp.block_diag([grid(5, 7), sp.csr_array((40, 40)), grid(9, 9)]).tocsr(),
        sp.csr_array((70, 70)),
        sp.csr_array(np.triu(np.ones((90, 90)))),
        sp.csr_array(dense),
    ]
    for A in odd:
        moved, xp, keywords = on(backend, sp.csr_array(A).astype(np.float64))
        x = numbers(np.random.default_rng(2), A.shape[0], "float64")
        for execution in (None, "groups"):
            P = ms.matrix_powers(moved, 3, execution=execution, order="search", **keywords)
            assert (host(P(xp.asarray(x))) == reference(A, x, np.array([[1.0, 0, 0]] * 3))).all()


def test_bases(backend: str) -> None:
    """Newton's with pairs of shifts is real, Chebyshev's are its polynomials."""
    A = grid(9, 13, integers=False)
    moved, xp, keywords = on(backend, A)
    x = numbers(np.random.default_rng(4), A.shape[0], "float64", integers=False)
    shifts = [0.5, 1 + 2j, 1 - 2j, -0.25]
    P = ms.matrix_powers(moved, 4, ("newton", shifts), **keywords)
    assert P.dtype == np.float64
    found, dense, power = host(P(xp.asarray(x))), A.toarray().astype(complex), x.astype(complex)
    for k, shift in enumerate(shifts):
        power = dense @ power - shift * power
        if k != 1:  # within a pair the real basis has another vector
            assert np.allclose(found[k + 1], power, rtol=1e-12, atol=1e-12 * np.abs(power).max())
    alone = ms.matrix_powers(moved, 1, ("newton", [1 + 2j]), **keywords)
    assert alone.dtype == np.complex128
    shifted = host(alone(xp.asarray(x.astype(complex))))[1]
    assert np.allclose(shifted, A @ x - (1 + 2j) * x)
    scale = float(abs(A).sum(axis=1).max())
    found = host(ms.matrix_powers(moved, 5, ("chebyshev", -scale, scale + 1), **keywords)(xp.asarray(x)))
    inner = (2 * A.toarray() - np.eye(A.shape[0])) / (2 * scale + 1)
    polynomials = [x, inner @ x]
    for _ in range(4):
        polynomials.append(2 * inner @ polynomials[-1] - polynomials[-2])
    assert np.allclose(found, polynomials, atol=1e-12)


def test_values_can_be_replaced(backend: str) -> None:
    A = shuffled(grid(11, 17))
    moved, xp, keywords = on(backend, A)
    x = xp.asarray(numbers(np.random.default_rng(6), A.shape[0], "float64"))
    P = ms.matrix_powers(moved, 2, execution="groups", order="search", **keywords)
    other = sp.csr_array(
        (numbers(np.random.default_rng(8), A.nnz, "float64"), A.indices.copy(), A.indptr), shape=A.shape
    )
    other.sort_indices()
    Q = P.with_values(xp.asarray(other.data))
    assert (host(Q(x)) == reference(other, host(x), np.array([[1.0, 0, 0]] * 2))).all()
    assert (host(P(x)) == reference(A, host(x), np.array([[1.0, 0, 0]] * 2))).all()
    with pytest.raises(ValueError, match="entries"):
        P.with_values(xp.ones(3))
    with pytest.raises(TypeError, match="dtype"):
        P.with_values(xp.ones(A.nnz, np.complex128))


def test_results_go_where_they_are_wanted(backend: str) -> None:
    A = grid(9, 9)
    moved, xp, keywords = on(backend, A)
    x = xp.asarray(numbers(np.random.default_rng(6), 81, "float64"))
    for execution in executions(backend):
        P = ms.matrix_powers(moved, 2, execution=execution, **keywords)
        want, out = host(P(x)), xp.full((3, 81), np.nan)
        assert P(x, out=out) is out and (host(out) == want).all()
        out[0] = x
        assert (host(P(out[0], out=out)) == want).all()  # x is already there
        spaced = xp.full(162, np.nan)
        spaced[::2] = x
        assert (host(P(spaced[::2])) == want).all()
        with pytest.raises(ValueError, match="overlaps"):
            P(out[1], out=out)
        with pytest.raises(ValueError, match="shape"):
            P(x, out=xp.empty((2, 81)))
        with pytest.raises(ValueError, match="shape"):
            P(x[:-1])
        with pytest.raises(TypeError, match="dtype"):
            P(x.astype(np.float32))
        P.check()


def test_matrices_of_other_libraries(backend: str) -> None:
    A = grid(8, 9)
    moved, xp, keywords = on(backend, A)
    x = xp.asarray(numbers(np.random.default_rng(6), 72, "float64"))
    want = reference(A, host(x), np.array([[1.0, 0, 0]] * 2))
    assert (host(ms.matrix_powers(ms.sparse.matrix(moved), 2, **keywords)(x)) == want).all()
    assert (host(ms.matrix_powers(moved.tocoo(), 2, **keywords)(x)) == want).all()
    torch = pytest.importorskip("torch")
    place = "cuda" if backend == "cuda" else "cpu"
    tensor = torch.sparse_csr_tensor(
        *(torch.from_numpy(np.array(a)) for a in (A.indptr, A.indices, A.data)), A.shape
    ).to(place)
    found = ms.matrix_powers(tensor, 2, **keywords)(torch.from_numpy(host(x).copy()).to(place))
    assert isinstance(found, torch.Tensor) and (found.cpu().numpy() == want).all()


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_dtypes(backend: str, dtype: str) -> None:
    A = grid(8, 9, dtype)
    moved, xp, keywords = on(backend, A)
    x = xp.asarray(numbers(np.random.default_rng(6), 72, dtype))
    found = ms.matrix_powers(moved, 2, execution="groups", **keywords)(x)
    assert found.dtype == dtype and (host(found) == reference(A, host(x), np.array([[1.0, 0, 0]] * 2))).all()


def test_a_launch_that_gave_up_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once on the emulator; on a GPU at the next call, or when asked."""
    A = grid(20, 13)
    x = numbers(np.random.default_rng(6), 260, "float64")
    with ms.pin(**_PINS):
        P = ms.matrix_powers(A, 3, execution="persistent", backend="emulated", limit=1e-9)
        want = P(x)
        count = emit.tiles
        monkeypatch.setattr(emit, "tiles", lambda *arguments: count(*arguments) - 1)  # nobody forms the last one
        broken = ms.matrix_powers(A, 3, execution="persistent", backend="emulated", limit=3e-9)
        with pytest.raises(LaunchError, match="gave up"):
            broken(x)
    assert (P(x) == want).all()
    P._runner._failure.value = 1  # type: ignore[union-attr]
    with pytest.raises(LaunchError, match="gave up"):
        P.check()
    assert (P(x) == want).all()


def test_bad_input_is_refused(backend: str) -> None:
    A, xp, keywords = on(backend, grid(5, 6))
    x = xp.ones(30)

    def refused(error: Any, text: str, *arguments: Any, **more: Any) -> None:
        with pytest.raises(error, match=text):
            ms.matrix_powers(*arguments, **(keywords | more))

    refused(ValueError, "square", A[:4], 2)
    refused(ValueError, "negative", A, -1)
    refused(TypeError, "no integer", A, 1.5)
    refused(ValueError, "basis", A, 2, "legendre")
    refused(ValueError, "basis", A, 2, ("newton",))
    refused(ValueError, "shifts", A, 3, ("newton", [1.0, 2.0]))
    refused(ValueError, "finite", A, 1, ("newton", [np.nan]))
    refused(ValueError, "interval", A, 2, ("chebyshev", 2.0, 1.0))
    refused(ValueError, "gammas", A, 2, ([1, 1], [0, 0], [1, 1]))
    refused(ValueError, "betas", A, 2, ([1, 1], [0, 0, 0], [0, 1]))
    refused(ValueError, "execution", A, 2, execution="fast")
    refused(ValueError, "output", A, 2, output="some")
    refused(ValueError, "weights", A, 2, output=("combination", [1.0, 2.0]))
    refused(ValueError, "columns", A, 2, columns=0)
    refused(ValueError, "order", A, 2, order="any")
    refused(TypeError, "complex", A, 1, ("newton", [1j]), dtype="float64")
    refused(TypeError, "sparse", np.eye(3), 2)
    if backend == "cpu":
        refused(ValueError, "GPUs", A, 2, execution="persistent")
    with pytest.raises(TypeError, match="x is a"):
        ms.matrix_powers(A, 1, **keywords)([1.0] * 30)
    assert (host(ms.matrix_powers(A, 1, **keywords)(x))[0] == 1).all()


def test_what_is_pinned_must_be_possible() -> None:
    """With too short a lag blocks would wait for each other; more powers would go beyond the result."""
    A = grid(400, 6)
    for pins in ({"LAG": 1, "TILE": 1, "ABREAST": 1}, {"RETAIN": "1|2"}, {"SLOTS": 3}, {"WARPS": 40}):
        with ms.pin(**pins), pytest.raises(IllegalConfig):
            ms.matrix_powers(A, 2, execution="persistent", backend="emulated", index="int32")


def test_indices_out_of_range_are_refused() -> None:
    A = grid(5, 6)
    A.indices[7] = 30
    with pytest.raises(ValueError, match="30"):
        ms.matrix_powers(A, 2)


def test_plain_powers_of_short_equal_rows_are_ellpack(monkeypatch: pytest.MonkeyPatch) -> None:
    """As products are, on GPUs; the bits are the same."""
    A = grid(21, 17)
    x = numbers(np.random.default_rng(3), 357, "float64")
    keywords: dict[str, Any] = {"execution": "plain", "backend": "emulated", "order": "none"}
    want = ms.matrix_powers(A, 3, ("chebyshev", -8.0, 8.0), **keywords)(x)
    monkeypatch.setattr(convert, "wants_ell", lambda *rows: True)
    P = ms.matrix_powers(A, 3, ("chebyshev", -8.0, 8.0), **keywords)
    assert isinstance(P.stored, Ell) and (P(x) == want).all()
    doubled = P.with_values(2 * A.data)
    assert (doubled(x) == ms.matrix_powers(2 * A, 3, ("chebyshev", -8.0, 8.0), **keywords)(x)).all()


def test_what_blocking_would_not_help_runs_plainly(backend: str) -> None:
    """The matrix stays in the cache, or there is one power."""
    moved, _, keywords = on(backend, grid(20, 20))
    for p in (1, 4):
        P = ms.matrix_powers(moved, p, **keywords)
        assert P.choice.execution == "plain" and P.choice.reason in P.explain()


@needs_cpu
def test_groups_on_a_cpu_pass_through_its_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(powers_choice, "cache_bytes", lambda: (20_000, 200_000))
    A = grid(32, 800, integers=False)
    x = numbers(np.random.default_rng(0), A.shape[0], "float64", integers=False)
    plain = ms.matrix_powers(A, 4, execution="plain", backend="cpu")(x)
    for threads in (1, 2, 5):
        P = ms.matrix_powers(A, 4, backend="cpu", threads=threads)
        assert P.choice.execution == "groups" and "groups:" in P.explain()
        for _ in range(5):
            assert same_bits(P(x), plain)


def test_examples_of_the_docstring() -> None:
    assert doctest.testmod(powers_call).failed == 0


@pytest.mark.parametrize("first", [True, False])
def test_large_matrices_are_tried_both_ways(first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By level, or as they are: whatever took less time, and the results are the same."""
    A, times = matrices.randomized(matrices.delaunay(600)), iter((1.0, 2.0) if first else (2.0, 1.0))
    x = numbers(np.random.default_rng(3), A.shape[0], "float64")
    monkeypatch.setattr(powers_call, "_MEASURED", 0)
    monkeypatch.setattr(powers_call, "measure", lambda run, *rest, **more: run() is None or Timing((next(times),)))
    P = ms.matrix_powers(A, 3, backend="cpu")
    assert P.is_permuted == first and (not first or "measured" in P.explain())
    want = ms.matrix_powers(A, 3, execution="groups", order="none", backend="cpu")(x)
    assert np.allclose(P(x), want, rtol=1e-13, atol=0)


def test_rows_as_they_are_may_be_blocked_where_levels_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that ends in plain products is in vain: the matrix' own order is asked too."""
    A = matrices.randomized(matrices.stencil(27, (6, 6, 100)))
    source, choose = powers_matrix.read(A), powers_choice.choose

    def choice(problem: Any, ordered: Any, device: Any, asked: Any, threads: int) -> Any:
        return choose(problem, ordered, device, "plain" if ordered.levels is not None else "persistent", threads)

    def in_order(how: str) -> Any:
        how = "search" if how == "auto" else how
        device = emulated.backend().device
        return powers_matrix.ordered(source, how, powers_choice.level_budget(device), None, None, device)

    monkeypatch.setattr(powers_choice, "choose", choice)
    task = Task(2, powers_basis.coefficients("monomial", 2), "all", None, 1)
    task.settle_dtype("float64", None)
    options = Options(None, None, True, powers_call.LIMIT)
    kept = lambda: powers_matrix.kept(source, None, None, "emulated")  # noqa: E731
    P = powers_call.planned(task, source, emulated.backend(), options, in_order, kept, "auto")
    assert P.choice.execution == "persistent" and P._ordered.levels is None
    x = numbers(np.random.default_rng(3), A.shape[0], "float64")
    assert (P(x) == ms.matrix_powers(A, 2, execution="plain", backend="emulated")(x)).all()


def test_skewed_rows_are_not_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose padding might fill the memory."""
    A = sp.csr_array(sp.coo_array((np.ones(3000), (np.arange(3000) % 2 * 7, np.arange(3000))), (3000, 3000)))
    monkeypatch.setattr(powers_matrix, "ordered", None)
    P, x = ms.matrix_powers(A, 3, backend="cpu"), np.ones(3000)
    assert P.choice.execution == "plain" and "long" in P.explain() and (P(x)[1] == A @ x).all()
