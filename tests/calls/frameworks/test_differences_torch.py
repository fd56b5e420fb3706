"""What docs/differences.md says of torch.linalg: a test for every line of its tables, each of both libraries."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mansard as ms
from mansard import settings

torch = pytest.importorskip("torch")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "differences.md"
T: Any = torch.linalg
M = ms.linalg
A = torch.tensor([[[4.0, 1.0], [1.0, 3.0]], [[2.0, 0.0], [0.0, 5.0]]], dtype=torch.float64)
B = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
TALL = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
LINES: dict[str, Callable[[], None]] = {}
Test = Callable[[], None]


def line(name: str) -> Callable[[Test], Test]:
    """Register the test of the line whose first cell is `name`."""

    def register(test: Test) -> Test:
        LINES[name] = test
        return test

    return register


@pytest.fixture(autouse=True)
def _by_library() -> Iterator[None]:
    """Conventions are tested: LAPACK computes, and nothing is compiled."""
    before = settings.current().backend
    settings.reread(backend="reference")
    yield
    settings.reread(backend=before)


def refused(call: Callable[[], Any], kind: type[Exception], text: str = "") -> None:
    with pytest.raises(kind) as raised:
        call()
    assert text in str(raised.value)


def gradient(function: Callable[[Any], Any], at: Any) -> Any:
    at = at.detach().clone().requires_grad_()
    (found,) = torch.autograd.grad(function(at), at)
    return found


@line("vectors on the right")
def _vectors() -> None:
    assert T.solve(A, B).shape == (2, 2) and M.solve(A, B).shape == (2, 2, 2)
    torch.testing.assert_close(M.solve(A, B[..., None])[..., 0], T.solve(A, B))
    four = torch.eye(3).repeat(4, 1, 1)
    assert T.solve(four, torch.ones(4, 3)).shape == (4, 3)
    refused(lambda: M.solve(four, torch.ones(4, 3)), ValueError, "a has 3 rows and b 4")


@line("what is an operand")
def _operands() -> None:
    assert isinstance(M.inv(np.eye(2)), np.ndarray) and len(M.inv([torch.eye(2), torch.eye(3)])) == 2
    refused(lambda: T.inv(np.eye(2)), TypeError)
    refused(lambda: T.inv([torch.eye(2), torch.eye(3)]), TypeError)
    (found,) = M.inv(ms.Ragged.from_list([torch.eye(2)])).to_list()
    assert found.equal(torch.eye(2))


@line("names of arguments")
def _names() -> None:
    assert T.inv(A=A).shape == M.inv(a=A).shape == A.shape
    refused(lambda: T.inv(a=A), TypeError)
    refused(lambda: M.inv(A=A), TypeError)


@line("`left=False`")
def _left() -> None:
    right = T.solve(A, B.expand(2, 2, 2), left=False)
    torch.testing.assert_close(right @ A, B.expand(2, 2, 2))
    refused(lambda: M.solve(A, B, left=False), TypeError)
    torch.testing.assert_close(M.solve(A.mT, B.mT).mT, right)


@line("`solve_triangular`")
def _triangular() -> None:
    refused(lambda: T.solve_triangular(A, B), TypeError, "upper")
    for upper in (False, True):
        right = B.expand(2, 2, 2)
        found = M.solve_triangular(A, right, lower=not upper)
        torch.testing.assert_close(found, T.solve_triangular(A, right, upper=upper))
        found = M.solve_triangular(A, right, lower=not upper, unit_diagonal=True)
        torch.testing.assert_close(found, T.solve_triangular(A, right, upper=upper, unitriangular=True))


@line("`lu_solve`")
def _lu_solve() -> None:
    right = B.expand(2, 2, 2)
    expected = T.lu_solve(*T.lu_factor(A), right, adjoint=True)
    torch.testing.assert_close(M.lu_solve(M.lu_factor(A), right, 2), expected)


@line("pivots")
def _pivots() -> None:
    swapped = A.flip(-2)
    assert T.lu_factor(swapped).pivots.tolist() == [[2, 2]] * 2
    assert M.lu_factor(swapped)[1].tolist() == [[1, 1]] * 2


@line("`lu_factor(pivot=False)`")
def _without_pivots() -> None:
    refused(lambda: T.lu_factor(A, pivot=False), RuntimeError, "not implemented on the CPU")
    assert M.lu_factor(A, pivot=False)[1].tolist() == [[0, 1]] * 2


@line("`lu_factor` of a singular matrix")
def _singular_factors() -> None:
    refused(lambda: T.lu_factor(0 * A), RuntimeError, "U[1,1] is zero")
    with pytest.warns(RuntimeWarning, match=r"a\[0\] is singular"):
        M.lu_factor(0 * A)


@line('`qr(mode="r")`')
def _qr() -> None:
    Q, R = T.qr(A, mode="r")
    assert Q.numel() == 0
    torch.testing.assert_close(M.qr(A, mode="r"), R)
    assert len(M.qr(A, mode="raw")) == 2
    refused(lambda: T.qr(A, mode="raw"), RuntimeError)


@line("`_ex`")
def _ex() -> None:
    assert T.solve_ex(A, B).info.tolist() == [0, 0] and T.inv_ex(0 * A).info.tolist() == M.inv_ex(0 * A)[1].tolist()
    for function in (M.inv_ex, M.cholesky_ex, M.lu_factor_ex, lambda a: M.solve_ex(a, B)):
        assert type(function(A)) is tuple and function(A)[-1].dtype == torch.int32
    refused(lambda: M.inv_ex(A, check_errors=True), TypeError)
    refused(lambda: T.inv_ex(0 * A, check_errors=True), T.LinAlgError)


@line("`_ex` of `eigh`, `eigvalsh`, `svd`, `svdvals`")
def _spectral_ex() -> None:
    for name in ("eigh", "eigvalsh", "svd", "svdvals"):
        assert not hasattr(T, f"{name}_ex")
        assert getattr(M, f"{name}_ex")(A).info.tolist() == [0, 0]


@line("`norm`")
def _norm() -> None:
    torch.testing.assert_close(M.norm(A, axis=(1, 2), keepdims=True), T.norm(A, dim=(1, 2), keepdim=True))
    refused(lambda: M.norm(A, dim=(1, 2)), TypeError)
    refused(lambda: M.norm(A, dtype=torch.complex128), TypeError)


@line("`pinv`, `matrix_rank`")
def _cutoffs() -> None:
    torch.testing.assert_close(M.pinv(A, rtol=0.5), T.pinv(A, rtol=0.5))
    assert M.matrix_rank(A, 2.5).tolist() == T.matrix_rank(A, atol=2.5, rtol=0.0).tolist() == [1, 1]
    refused(lambda: M.pinv(A, atol=0.5), TypeError)
    refused(lambda: M.matrix_rank(A, atol=0.5), TypeError)
    small = torch.diag(torch.tensor([1.0, 2e-7]))  # below the default cutoff of both
    torch.testing.assert_close(M.pinv(small), T.pinv(small))


@line("drivers")
def _drivers() -> None:
    refused(lambda: T.svd(A, driver="gesvd"), RuntimeError, "only supported on CUDA")
    for driver in ("auto", "jacobi", "qr"):
        torch.testing.assert_close(M.svd(A, driver=driver).S, T.svdvals(A))
        torch.testing.assert_close(M.eigh(A, driver=driver).eigenvalues, T.eigvalsh(A))
    expected = T.lstsq(TALL, TALL[:, :1], driver="gelsy").solution
    for driver in ("svd", "qr"):
        torch.testing.assert_close(M.lstsq(TALL, TALL[:, :1], driver=driver).x, expected)
    refused(lambda: M.lstsq(A, B, driver="gelsd"), ValueError, "'svd', 'qr'")


@line("`lstsq`")
def _lstsq() -> None:
    right = torch.ones(3, 1, dtype=torch.float64)
    theirs, ours = T.lstsq(TALL, right), M.lstsq(TALL, right)
    torch.testing.assert_close(ours.x, theirs.solution)
    assert theirs.residuals.numel() == 0 and theirs.singular_values.numel() == 0
    assert ours.residuals.shape == (1,) and ours.s.shape == (2,)


@line("`out`")
def _out() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert T.inv(A, out=torch.empty(1, dtype=A.dtype)).shape == A.shape
    refused(lambda: M.inv(A, out=torch.empty(1, dtype=A.dtype)), ValueError, "out")
    place = torch.empty_like(A)
    assert M.inv(A, out=place) is place
    refused(lambda: M.eigvalsh(A, out=place), TypeError)


@line("memory of results")
def _strides() -> None:
    for given in (A, A.mT, torch.eye(6, dtype=A.dtype)[::2, ::2].expand(2, 3, 3)):
        n = given.shape[-1]
        assert T.inv(given).stride()[1:] == (1, n) and M.inv(given).stride()[1:] == (n, 1)
        torch.testing.assert_close(M.inv(given), T.inv(given))


@line("linear algebra errors")
def _errors() -> None:
    assert issubclass(T.LinAlgError, RuntimeError) and issubclass(np.linalg.LinAlgError, ValueError)
    for call in (lambda L: L.solve(0 * A, A), lambda L: L.inv(0 * A), lambda L: L.cholesky(-A)):
        refused(lambda call=call: call(T), T.LinAlgError, "Batch element 0")
        refused(lambda call=call: call(M), np.linalg.LinAlgError, "a[0]")


@line("other errors")
def _other_errors() -> None:
    for given in (torch.ones(2), torch.ones(2, 3)):
        refused(lambda given=given: T.inv(given), RuntimeError)
        refused(lambda given=given: M.inv(given), ValueError, "a has shape")
    refused(lambda: T.eigh(A, "x"), RuntimeError)
    refused(lambda: M.eigh(A, "x"), ValueError, "UPLO")


@line("entries that are not finite")
def _not_finite() -> None:
    bad = torch.tensor([[np.nan, 9.0], [0.0, 2.0]])
    T.eigh(bad), T.eigvalsh(bad)
    refused(lambda: T.svd(bad), T.LinAlgError)
    for name in ("eigh", "eigvalsh", "svd", "svdvals"):
        refused(lambda name=name: getattr(M, name)(bad), np.linalg.LinAlgError)
        found = getattr(M, f"{name}_ex")(bad)
        assert found.info == 3 and all(part.isnan().all() for part in found[:-1])


@line("`cond` of the zero matrix")
def _cond() -> None:
    assert T.cond(0 * A).isnan().all() and M.cond(0 * A).isinf().all()


@line("integers, float16, dtypes that differ")
def _dtypes() -> None:
    for given in (torch.ones(2, 2, dtype=torch.int64), torch.eye(2, dtype=torch.float16), torch.eye(2).bfloat16()):
        refused(lambda given=given: T.inv(given), RuntimeError)
        refused(lambda given=given: M.inv(given), TypeError, "convert it first")
    refused(lambda: T.solve(A, B.float()), RuntimeError)
    refused(lambda: M.solve(A, B.float()), TypeError, "convert one of them")


# ---- gradients --------------------------------------------------------------------------------------------

SINGULAR = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64)
HERMITIAN = torch.tensor([[3.0, 1.0 + 2.0j], [1.0 - 2.0j, 5.0]], dtype=torch.complex128)


@line("`cholesky` of complex matrices")
def _gradient_of_cholesky() -> None:
    theirs, ours = (gradient(lambda a, L=L: (L.cholesky(a).real * B).sum(), HERMITIAN) for L in (T, M))
    assert not torch.allclose(theirs, theirs.mH)
    torch.testing.assert_close(ours, ours.mH)
    torch.testing.assert_close(ours, (theirs + theirs.mH) / 2)


@line("`det` of the singular matrix [[1, 2], [2, 4]]")
def _gradient_of_det() -> None:
    assert (gradient(T.det, SINGULAR) == 0).all()
    torch.testing.assert_close(gradient(M.det, SINGULAR), torch.tensor([[4.0, -2.0], [-2.0, 1.0]], dtype=B.dtype))


@line("`slogdet` of a singular matrix")
def _gradient_of_slogdet() -> None:
    assert gradient(lambda a: T.slogdet(a)[1], SINGULAR).isinf().all()
    assert not gradient(lambda a: M.slogdet(a)[1], SINGULAR).isfinite().any()


@line("vectors of equal eigenvalues")
def _equal_eigenvalues() -> None:
    unit = torch.eye(3, dtype=torch.float64)
    for L in (T, M):
        assert gradient(lambda a, L=L: L.eigh(a)[1][0].sum(), unit).isnan().all()
        torch.testing.assert_close(gradient(lambda a, L=L: L.eigh(a)[0].sum(), unit), unit)


@line("the phase of complex vectors of `eigh` and `svd`")
def _phase() -> None:
    for loss in (lambda L, a: L.eigh(a)[1].imag.sum(), lambda L, a: L.svd(a)[0].imag.sum()):
        refused(lambda loss=loss: gradient(lambda a: loss(T, a), HERMITIAN), RuntimeError, "ill-defined")
        assert gradient(lambda a, loss=loss: loss(M, a), HERMITIAN).isfinite().all()


@line("`svd(full_matrices=True)`, not square")
def _full_matrices() -> None:
    assert gradient(lambda a: T.svd(a).S.sum(), TALL).isfinite().all()
    refused(lambda: gradient(lambda a: M.svd(a).S.sum(), TALL), TypeError, "pass full_matrices=False")
    expected = gradient(lambda a: T.svdvals(a).sum(), TALL)
    torch.testing.assert_close(gradient(lambda a: M.svd(a, full_matrices=False).S.sum(), TALL), expected)


@line('R of `qr(mode="r")`')
def _gradient_of_r() -> None:
    refused(lambda: gradient(lambda a: T.qr(a, mode="r")[1].sum(), TALL), RuntimeError)
    expected = gradient(lambda a: T.qr(a)[1].sum(), TALL)
    torch.testing.assert_close(gradient(lambda a: M.qr(a, mode="r").sum(), TALL), expected)


@line('`qr(mode="complete")` of tall matrices')
def _gradient_of_complete() -> None:
    refused(lambda: gradient(lambda a: T.qr(a, mode="complete")[0].sum(), TALL), RuntimeError)
    refused(lambda: gradient(lambda a: M.qr(a, mode="complete")[0].sum(), TALL), TypeError)


@line("`lu_factor`, not square")
def _gradient_of_lu() -> None:
    assert gradient(lambda a: T.lu_factor(a)[0].sum(), TALL).isfinite().all()
    refused(lambda: gradient(lambda a: M.lu_factor(a)[0].sum(), TALL), TypeError, "square")


@line("residuals of `lstsq`")
def _gradient_of_residuals() -> None:
    right = torch.ones(3, 1, dtype=torch.float64)
    needs = TALL.clone().requires_grad_()
    assert torch.autograd.grad(T.lstsq(needs, right).residuals.sum(), needs, allow_unused=True) == (None,)
    step = 1e-6 * torch.arange(6.0, dtype=torch.float64).reshape(3, 2)
    expected = (M.lstsq(TALL + step, right).residuals - M.lstsq(TALL - step, right).residuals).item() / 2e-6
    found = gradient(lambda a: M.lstsq(a, right).residuals.sum(), TALL)
    assert abs((found * step).sum().item() / 1e-6 - expected) < 1e-6


@line("`matrix_rank`")
def _rank() -> None:
    needs = A.clone().requires_grad_()
    assert not T.matrix_rank(needs).requires_grad
    refused(lambda: M.matrix_rank(needs), TypeError, "A.detach()")


@line("gradients and `out`")
def _out_with_gradients() -> None:
    needs = A.clone().requires_grad_()
    refused(lambda: T.inv(needs, out=torch.empty_like(A)), RuntimeError)
    refused(lambda: M.inv(needs, out=torch.empty_like(A)), TypeError, "out")


def _cells(page: str) -> list[str]:
    """First cells of the tables between the headings of torch.linalg and of what follows."""
    part = page.partition("\n## What differs from torch.linalg\n")[2].partition("\n## ")[0]
    return [cell for cell in re.findall(r"^\| ([^|]+) \| ", part, re.MULTILINE) if cell != "gradient of"]


def test_every_line_of_the_page_has_a_test() -> None:
    assert _cells(PAGE.read_text()) == list(LINES)


@pytest.mark.parametrize("name", LINES)
def test_line(name: str) -> None:
    LINES[name]()


def test_functions_that_are_not_there() -> None:
    """The list of the page: all of torch.linalg that `ms.linalg` has not, but for what `ms` itself has."""
    names = {name for name in dir(T) if not name.startswith("_") and callable(getattr(T, name))} - {"LinAlgError"}
    part = PAGE.read_text().partition("\n## What differs from torch.linalg\n")[2]
    text = re.search(r"^Not there: (.*?)\.\n\n", part, re.MULTILINE | re.DOTALL)
    assert text
    told = set(re.findall(r"`([\w*]+)`", text.group(1))) - {"ormqr"}
    absent = {name if not name.startswith("ldl_") else "ldl_*" for name in names - set(M.__all__) - {"matmul"}}
    assert told == absent
