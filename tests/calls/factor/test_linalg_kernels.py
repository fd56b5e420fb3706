"""`ms.linalg`: what kernels are told, played by LAPACK; plans and later calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from batched_cases import DTYPES
from linalg_cases import THRESHOLD, PlayedFactors, adjoint, cholesky_ratio, definite, normal, qr_ratios, solve_ratio

import mansard as ms
import mansard.linalg.positive
import mansard.linalg.systems
import mansard.settings
from mansard.arrays.kinds import KINDS as LIBRARIES
from mansard.operations import run as call
from mansard.operations.factor import plan as factor_plan
from mansard.operations.factor.hold import plan_factorization
from mansard.operations.factor.quick import quick
from mansard.operations.factor.task import Task
from mansard.operations.plans import PLANS
from mansard.plan import dispatch, factor_rules

pytestmark = pytest.mark.usefixtures("no_plans")

linalg = ms.linalg
NUMPY = LIBRARIES["numpy"]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedFactors:
    """Kernels that LAPACK plays, for whatever families there are."""
    found = PlayedFactors()
    monkeypatch.setattr(call, "prepare", found)
    monkeypatch.setattr(dispatch, "choose", found.choose)
    return found


# ---- kernels, played ------------------------------------------------------------------------------------


def everything(S: Any, B: Any, outs: bool = False) -> dict[str, Any]:
    """Every operation that a kernel answers, with NumPy's results beside ours."""
    stack, rights = np.stack(list(S)), np.stack(list(B))
    found = {
        "cholesky": (linalg.cholesky(S, backend="emulated"), np.linalg.cholesky(stack)),
        "upper": (linalg.cholesky(S, upper=True, backend="emulated"), np.linalg.cholesky(stack, upper=True)),
        "solve": (linalg.solve(S, B, backend="emulated"), np.linalg.solve(stack, rights)),
        "pos": (linalg.solve(S, B, assume_a="pos", backend="emulated"), np.linalg.solve(stack, rights)),
        "inv": (linalg.inv(S, backend="emulated"), np.linalg.inv(stack)),
        "det": (linalg.det(S, backend="emulated"), np.linalg.det(stack)),
        "slogdet": (linalg.slogdet(S, backend="emulated")[1], np.linalg.slogdet(stack)[1]),
        "r": (linalg.qr(S, "r", backend="emulated"), np.linalg.qr(stack, "r")),
        "lstsq": (linalg.lstsq(S, B, driver="qr", backend="emulated").x, np.linalg.solve(stack, rights)),
    }
    for mode in ("reduced", "complete", "raw"):
        for i in (0, 1):
            found[f"{mode}{i}"] = (linalg.qr(B, mode, backend="emulated")[i], np.linalg.qr(rights, mode)[i])
    lu, piv = linalg.lu_factor(B, backend="emulated")
    for i, (one, pivots) in enumerate(zip(lu, piv, strict=True)):
        wanted = scipy.linalg.lu_factor(rights[i])
        found[f"lu{i}"], found[f"piv{i}"] = (one, wanted[0]), (pivots, wanted[1])
    return found


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_kernel_gets_what_it_is_told(played: PlayedFactors, dtype: str) -> None:
    rng = np.random.default_rng(14)
    S, B = definite(rng, (5,), 3, dtype), normal(rng, (5, 3, 2), dtype)
    for form in ("stack", "strided", "list", "turned", "steps"):
        if form == "stack":
            given = S, B
        elif form == "strided":
            given = np.full((5, 4, 7), 9, dtype)[:, :3, :3], np.full((5, 3, 5), 9, dtype)[:, :, 2:4]
            given[0][...], given[1][...] = S, B
        elif form == "list":
            given = list(S.copy()), list(B.copy())
        elif form == "turned":
            given = (np.ascontiguousarray(one.swapaxes(-1, -2)).swapaxes(-1, -2) for one in (S, B))
        else:
            given = np.repeat(np.repeat(S, 2, -1), 2, -2)[:, ::2, ::2], np.repeat(B, 2, 0)[::2]
        before = played.launches
        for name, (found, wanted) in everything(*given).items():
            assert np.allclose(found, wanted, rtol=1e-3, atol=1e-4), (form, name)
        assert played.launches > before + 12, form
    stacked = {(problem.stack_a, problem.layout_a) for problem in played.problems}
    assert {
        ("packed", "row"),
        ("packed", "col"),
        ("pointers", "row"),
        ("strided", "row"),
        ("strided", "any"),
    } <= stacked


def test_a_kernel_for_batches_without_a_single_step(played: PlayedFactors) -> None:
    rng = np.random.default_rng(15)
    S = definite(rng, (4, 2, 3), 3)
    turned = np.ascontiguousarray(S.transpose(1, 0, 2, 3, 4)).transpose(1, 0, 2, 3, 4)
    bad = turned.copy()
    bad[2, 1, 0, 1, 1] = -1
    _, info = linalg.cholesky_ex(bad.transpose(1, 0, 2, 3, 4), backend="emulated")
    assert np.argwhere(info).tolist() == [[1, 2, 0]] and played.launches == 1
    assert played.problems[0].stack_a == "pointers" and played.problems[0].BATCH == 24
    place = np.zeros((4, 2, 3, 3, 3)).transpose(1, 0, 2, 3, 4)
    linalg.cholesky(turned.transpose(1, 0, 2, 3, 4), out=place, backend="emulated")
    assert np.allclose(place, np.linalg.cholesky(S.transpose(1, 0, 2, 3, 4))) and played.launches == 2


def test_a_kernel_in_place_and_beside(played: PlayedFactors) -> None:
    rng = np.random.default_rng(16)
    S, B = definite(rng, (3,), 4), normal(rng, (3, 4, 2), "float64")
    place = S.copy()
    linalg.cholesky(place, out=place, backend="emulated")
    assert np.allclose(place, np.linalg.cholesky(S)) and played.launches == 1
    for given, place in ((slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))):
        both = np.concatenate([S[:1], S, S[-1:]])[1:] if given.start is None else np.concatenate([S[:1], S])
        assert np.allclose(linalg.cholesky(both[given], out=both[place], backend="emulated"), np.linalg.cholesky(S))
    right = B.copy()
    assert linalg.solve(S, right, out=right, backend="emulated") is right
    assert np.allclose(right, np.linalg.solve(S, B))
    one = np.broadcast_to(B[0], B.shape)  # a broadcast operand is copied
    assert np.allclose(linalg.solve(S, one, backend="emulated"), np.linalg.solve(S, one))
    ragged = ms.Ragged.from_list([S[0], 2 * np.eye(2), S[1]])
    before = played.launches
    assert np.allclose(linalg.inv(ragged, backend="emulated")[2], np.linalg.inv(S[1]))
    assert played.launches == before + 1  # one for the class of both sizes
    alike = ms.Ragged.from_list([S[0], S[1]])
    assert np.allclose(linalg.inv(alike, backend="emulated")[1], np.linalg.inv(S[1]))
    assert played.launches == before + 2 and played.problems[-1].stack_f == "pointers"


def test_later_calls_ask_no_questions(played: PlayedFactors, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(24)
    S, B = definite(rng, (3,), 4, "complex128"), normal(rng, (3, 4, 2), "complex128")
    calls = {
        "cholesky": lambda a, b: linalg.cholesky(a, backend="emulated"),
        "lu": lambda a, b: linalg.lu_factor(a, backend="emulated"),
        "solve": lambda a, b: linalg.solve(a, b, backend="emulated"),
        "inv": lambda a, b: linalg.inv(a, backend="emulated"),
        "det": lambda a, b: linalg.det(a, backend="emulated"),
        "slogdet": lambda a, b: linalg.slogdet(a, backend="emulated"),
        "raw": lambda a, b: linalg.qr(b, "raw", backend="emulated"),
        "r": lambda a, b: linalg.qr(a, "r", backend="emulated"),
        "reduced": lambda a, b: linalg.qr(b, backend="emulated"),
    }
    first = {name: function(S, B) for name, function in calls.items()}
    monkeypatch.setattr(factor_plan, "planned", None)  # nobody asks for it again
    launches = played.launches
    for name, function in calls.items():
        again, other = function(S, B), function(2 * S, 2 * B)
        results = ((x if isinstance(x, tuple) else (x,)) for x in (first[name], again, other))
        for one, two, three in zip(*results, strict=True):
            assert one.shape == two.shape and one.strides == two.strides and (one == two).all(), name
            assert three is not two
        assert type(again) is type(first[name])
    assert played.launches == launches + 2 * len(calls)
    assert np.allclose(calls["cholesky"](4 * S, B), 2 * first["cholesky"])
    with pytest.raises(np.linalg.LinAlgError, match=r"^a\[0\] is not positive definite"):
        calls["cholesky"](-S, B)


def test_later_calls_with_places_look_for_overlaps(played: PlayedFactors, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(26)
    S, B = definite(rng, (3,), 4), normal(rng, (3, 4, 2), "float64")
    wanted, solution = np.linalg.cholesky(S), np.linalg.solve(S, B)
    calls = []

    def watched(*arguments: Any) -> Any:
        calls.append(quick(*arguments))
        return calls[-1]

    monkeypatch.setattr(mansard.linalg.positive, "quick", watched)
    monkeypatch.setattr(mansard.linalg.systems, "quick", watched)
    for known in (False, True, True):
        place, X = np.zeros_like(S), np.zeros_like(B)
        assert linalg.cholesky(S, out=place, backend="emulated") is place and np.allclose(place, wanted)
        assert linalg.solve(S, B, out=X, backend="emulated") is X and np.allclose(X, solution)
        assert [one is not None for one in calls] == [known, known]
        calls.clear()
    wide = np.concatenate([S, S[:1]])
    for given, place, known in ((wide[:3], wide[:3], True), (wide[:3], wide[1:], False)):
        wide[:3] = S
        assert np.allclose(linalg.cholesky(given, out=place, backend="emulated"), wanted)
        assert (calls.pop() is not None) == known
    right = B.copy()
    assert np.allclose(linalg.solve(S, right, out=right, backend="emulated"), solution) and calls.pop() is None


def test_plans(played: PlayedFactors) -> None:
    rng = np.random.default_rng(25)
    S, B = definite(rng, (3,), 4), normal(rng, (3, 4, 2), "float64")
    plan = plan_factorization("cholesky", S, None, None, "emulated")
    assert plan.problem.operation == "cholesky" and plan.problem.want == "factor" and plan.choice.config == "played"
    factors, info = plan(S)
    assert np.allclose(factors, np.linalg.cholesky(S)) and not info.any()
    with pytest.raises(ValueError, match="A differs in shape"):
        plan(S[:2])
    with pytest.raises(ValueError, match="cholesky has neither alpha nor beta"):
        plan(S, alpha=2.0)
    place = S.copy()
    held = plan_factorization("cholesky", place, None, place, "emulated")
    assert held(place, out=place)[0] is place and np.allclose(place, factors)
    x, info = plan_factorization("lu", S, B, None, "emulated", want="solve")(S, B)
    assert np.allclose(x, np.linalg.solve(S, B)) and not info.any()
    assert len(plan_factorization("qr", B, None, None, "emulated")(B)) == 2
    played.widest = 2
    assert "blocks" in str(plan_factorization("lu", S, None, None, "emulated").choice)
    with pytest.raises(ValueError, match="want='inverse' is nothing that qr gives"):
        plan_factorization("qr", S, None, None, "emulated", want="inverse")
    with pytest.raises(TypeError, match="right-hand sides"):
        plan_factorization("lu", S, B, None, "emulated")


def test_a_refused_system_goes_through_its_factors(played: PlayedFactors) -> None:
    rng = np.random.default_rng(17)
    played.refused = lambda problem: problem.want not in ("factor", "swap")  # type: ignore[method-assign]
    S, B = definite(rng, (3,), 4, "complex128"), normal(rng, (3, 4, 2), "complex128")
    assert np.allclose(linalg.solve(S, B, backend="emulated"), np.linalg.solve(S, B))
    assert {problem.want for problem in played.problems} == {"factor", "swap"}
    assert np.allclose(linalg.solve(S, B, assume_a="pos", backend="emulated"), np.linalg.solve(S, B))
    assert np.allclose(linalg.inv(list(S), backend="emulated"), np.linalg.inv(S))
    A = normal(rng, (8, 4, 4), "complex128")
    assert np.allclose(linalg.det(A, backend="emulated"), np.linalg.det(A))
    for found, wanted in zip(linalg.slogdet(A, backend="emulated"), np.linalg.slogdet(A), strict=True):
        assert np.allclose(found, wanted)
    S[1, :, 2] = 0
    assert linalg.solve_ex(S, B, backend="emulated")[1].tolist() == [0, 3, 0]
    assert linalg.slogdet(S, backend="emulated")[1][1] == -np.inf and linalg.det(S, backend="emulated")[1] == 0


def test_large_matrices_go_through_blocks(played: PlayedFactors, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(18)
    played.widest = 16
    S, B = definite(rng, (2,), 40), normal(rng, (2, 40, 3), "float64")
    assert cholesky_ratio(S, linalg.cholesky(S, backend="emulated")) < THRESHOLD
    assert max(problem.N for problem in played.problems) <= 16
    assert cholesky_ratio(S, adjoint(linalg.cholesky(S, upper=True, backend="emulated"))) < THRESHOLD
    A = normal(rng, (2, 40, 40), "float64")
    assert solve_ratio(A, linalg.solve(A, B, backend="emulated"), B) < THRESHOLD
    Q, R = linalg.qr(A, backend="emulated")
    assert max(qr_ratios(A, Q, R)) < THRESHOLD
    assert np.allclose(linalg.lstsq(A, B, driver="qr", backend="emulated").x, np.linalg.solve(A, B))
    monkeypatch.setitem(factor_rules.LIBRARY_FROM, "cuda", {"cholesky": 32, "lu": 32, "qr": 32})
    PLANS.forget()
    plan = factor_plan.plan_factor(Task("cholesky"), NUMPY, S, None, {}, "emulated")
    assert plan.choice.answered_by == "blocks"  # who asks for a backend gets it
    monkeypatch.setenv("MANSARD_BACKEND", "emulated")
    mansard.settings.reread()
    try:
        choice = factor_plan.plan_factor(Task("cholesky"), NUMPY, S, None, {}, None).choice
        assert (choice.answered_by, choice.origin) == ("library", "rule")
    finally:
        monkeypatch.undo()
        mansard.settings.reread()
