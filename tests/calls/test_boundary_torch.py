"""PyTorch at the array boundary: CPU tensors touch no CUDA function, gradients are never dropped, tensors without data
are refused, by every public function, whatever ran before."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import boundary_cases as cases
import numpy as np
import pytest
from boundary_cases import CASES, MEASURING, Case, given, parts
from conftest import needs_cpu

import mansard as ms
from mansard.operations.plans import PLANS

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = needs_cpu
ROOT = Path(__file__).resolve().parents[2]


def named(table: list[Case]) -> Any:
    return pytest.mark.parametrize("case", table, ids=lambda case: case.name)


def run_alone(code: str) -> str:
    """What a process of its own prints: a crash is seen, and nothing that is replaced in it stays."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests", ROOT / "tests/cases")))}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout


# ---- the table is complete --------------------------------------------------------------------------------


def public_callables() -> Iterator[str]:
    """Names of all public functions, and of public methods of public classes."""
    modules = {"": ms, "blas.": ms.blas, "linalg.": ms.linalg, "sparse.": ms.sparse, "sparse.linalg.": ms.sparse.linalg}
    for prefix, module in modules.items():
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isfunction(found):
                yield prefix + name
            elif inspect.isclass(found):
                yield prefix + name
                yield from (f"{prefix}{name}.{method}" for method in vars(found) if is_public(found, method))


def is_public(owner: type, method: str) -> bool:
    return method == "__matmul__" or (not method.startswith("_") and callable(getattr(owner, method)))


def test_every_public_function_is_in_the_table() -> None:
    covered = {name for case in (*CASES, *MEASURING) for name in case.functions}
    missing = set(public_callables()) - covered - set(cases.WITHOUT_ARRAYS)
    assert not missing, f"functions that no case of boundary_cases.py calls: {sorted(missing)}"
    assert not covered - set(public_callables()), "names in boundary_cases.py that are not public any more"


# ---- right answers ----------------------------------------------------------------------------------------


@named(CASES)
def test_tensors_give_what_arrays_give(case: Case) -> None:
    expected = parts(case.call(given(case, lambda array: array)))
    found = parts(case.call(given(case, torch.from_numpy)))
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


NO_CUDA = """
import sys, types
import torch

def touched(*arguments, **options):
    raise AssertionError("a CUDA function was called for an array on the CPU")

class Module(types.ModuleType):
    ndarray = type("ndarray", (), {})
    def __getattr__(self, name):
        raise AssertionError(f"cupy.{name} was looked up for an array on the CPU")

for name in {"_cuda_getCurrentRawStream", *(name for name in dir(torch._C) if name.startswith("_cuda_"))}:
    setattr(torch._C, name, touched)
for name, found in vars(torch.cuda).copy().items():
    if isinstance(found, types.FunctionType):
        setattr(torch.cuda, name, touched)
sys.modules["cupy"] = Module("cupy")
import boundary_cases as cases
from mansard.backends import cuda, cuda_driver
for name in ("backend", "unavailable"):
    setattr(cuda, name, touched)
for case in cases.CASES:
    for _ in range(2):
        case.call(cases.given(case, torch.from_numpy))
        case.call(cases.given(case, lambda array: array))
print("answered", len(cases.CASES))
"""


def test_tensors_on_the_cpu_touch_no_cuda_function() -> None:
    assert run_alone(NO_CUDA).strip() == f"answered {len(CASES)}"


# ---- gradients --------------------------------------------------------------------------------------------


def refused(call: Callable[[], Any], argument: str, what: str) -> None:
    """The call raises an error of ours that names the argument and says what is wrong with it."""
    with pytest.raises((TypeError, ValueError)) as error:
        call()
    text = str(error.value)
    assert re.search(rf"\b{argument}\b", text, re.IGNORECASE), text
    assert re.search(what, text), text


def refuses(call: Callable[[], Any], argument: str) -> bool:
    """Whether the call refuses to record a gradient, in words that name the argument; else its results record one."""
    try:
        results = call()
    except (TypeError, ValueError) as error:
        text = str(error)
        assert re.search(rf"\b{argument}\b|\bout\b", text, re.IGNORECASE), text
        assert re.search("requires a gradient|derivative", text), text
        return True
    assert any(one.requires_grad for one in tensors_of(results)), "the gradient was dropped"
    return False


def tensors_of(results: Any) -> list[Any]:
    if isinstance(results, tuple | list):
        return [one for part in results for one in tensors_of(part)]
    return [results] if isinstance(results, torch.Tensor) else []


@named(CASES)
def test_gradients_are_recorded_or_refused_whatever_ran_before(case: Case) -> None:
    for name in (name for name in case.arrays if name not in case.silent):
        arrays = given(case, torch.from_numpy)
        case.call(arrays)  # the warm path knows these shapes
        getattr(arrays, name).requires_grad_()
        first = refuses(partial(case.call, arrays), name)
        with torch.no_grad():
            case.call(arrays)
        assert refuses(partial(case.call, arrays), name) == first
        with torch.inference_mode():
            case.call(arrays)
        assert refuses(partial(case.call, arrays), name) == first
        fresh = given(case, torch.from_numpy)
        setattr(fresh, name, getattr(arrays, name).detach())
        case.call(fresh)
        assert refuses(partial(case.call, arrays), name) == first


@named(MEASURING)
def test_gradients_are_refused_before_anything_is_measured(case: Case) -> None:
    for name in case.arrays:
        arrays = given(case, torch.from_numpy)
        getattr(arrays, name).requires_grad_()
        refused(partial(case.call, arrays), name, "requires a gradient")


def test_a_parameter_is_a_tensor() -> None:
    weight = torch.nn.Linear(8, 50, bias=False, dtype=torch.float64).weight
    assert ms.gram(weight).requires_grad
    with torch.no_grad():
        assert torch.equal(ms.gram(weight), ms.gram(weight.data))
    assert ms.gram(weight).requires_grad
    assert torch.equal(ms.gram(torch.nn.Parameter(weight.data, requires_grad=False)), ms.gram(weight.data))


def test_a_held_plan_looks_at_the_same_tensor_again() -> None:
    a = torch.randn(50, 2, dtype=torch.float64)
    plan = ms.plan("gram", a)
    first = plan(a)
    assert torch.equal(plan(a), first)
    refused(lambda: plan(a.requires_grad_()), "A", "requires a gradient")
    a.requires_grad_(False)
    assert torch.equal(plan(a), first)
    a.resize_(5, 2)
    refused(lambda: plan(a), "A", "differs in shape")
    b = torch.randn(50, 2, dtype=torch.float64)
    plan(b)
    b.set_(torch.randn(2, 50, dtype=torch.float64).T)
    refused(lambda: plan(b), "A", "differs in shape, strides")
    refused(lambda: plan(np.ones((50, 2))), "A", "NumPy arrays")
    refused(lambda: plan([b]), "A", "")


def test_forward_mode_derivatives_are_recorded_or_refused() -> None:
    from torch.autograd import forward_ad

    a = torch.randn(50, 2, dtype=torch.float64)
    ms.gram(a)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(a, torch.ones_like(a))
        half = a.mT @ torch.ones_like(a)
        torch.testing.assert_close(forward_ad.unpack_dual(ms.gram(dual)).tangent, half + half.mT)
        assert torch.equal(ms.gram(a), ms.gram(forward_ad.unpack_dual(dual).primal))
        refused(lambda: ms.linalg.matrix_rank(dual), "A", "forward-mode")
    assert ms.gram(a).shape == (2, 2)


# ---- tensors without data, or with another meaning ---------------------------------------------------------


def in_transformation(transform: Callable[..., Any], inner: Callable[[Any], Any], *arguments: Any) -> Any:
    """The call inside a transformation of torch.func; the transformation itself needs a result."""

    def traced(x: Any) -> Any:
        inner(x)
        return x.sum()

    return transform(traced, *arguments)


STRANGE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "meta": (lambda a: a.to("meta"), "without data"),
    "zero": (lambda a: torch._efficientzerotensor(*a.shape, dtype=a.dtype), "without data"),
    "part of zero": (
        lambda a: torch._efficientzerotensor(len(a) + 1, *a.shape[1:], dtype=a.dtype)[1:], "without data"
    ),
    "negated": (lambda a: torch.complex(a, a).conj().imag, "negated"),
    "csr": (lambda a: a.to_sparse_csr() if a.ndim > 1 else a.to_sparse(), "layout"),
    "coo": (lambda a: a.to_sparse(), "layout"),
    "nested": (lambda a: torch.nested.nested_tensor([a, a]), "nested"),
    "half": (lambda a: a.half(), "dtype float16|dtype torch.float16"),
    "bfloat16": (lambda a: a.bfloat16(), "dtype bfloat16"),
    "quantized": (lambda a: torch.quantize_per_tensor(a.float(), 0.1, 0, torch.qint8), "dtype qint8"),
    "integers": (lambda a: a.long(), "dtype int64"),
    "subclass": (lambda a: a.as_subclass(Loud), "subclass"),
}
SMALL, VECTORS = torch.from_numpy(cases.SMALL), torch.from_numpy(cases.VECTORS)
FUNCTIONS = {
    "gram": ("A", lambda a: ms.gram(a), (50, 2)),
    "gemm": ("A", lambda a: ms.blas.gemm(a, a), (40, 2, 2)),
    "gemv": ("a", lambda a: ms.blas.gemv(a, VECTORS), (40, 2, 2)),
    "trsm": ("a", lambda a: ms.blas.trsm(a, a), (40, 2, 2)),
    "inv": ("a", lambda a: ms.linalg.inv(a), (40, 2, 2)),
    "solve": ("a", lambda a: ms.linalg.solve(a, a), (40, 2, 2)),
    "matmul_gram": ("V", lambda a: ms.matmul_gram(a, SMALL), (50, 2)),
    "sparse": ("x", lambda a: cases._MATRIX @ a, (30, 3)),
    "powers": ("x", lambda a: cases.powers()(a), (30,)),
}


class Loud(torch.Tensor):
    """A subclass that changes what functions do."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(function, types, args, kwargs or {})


class Quiet(torch.Tensor):
    """A subclass that changes nothing."""


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.filterwarnings("ignore")
def test_strange_tensors_are_refused_after_plain_ones(function: str, strange: str) -> None:
    argument, call, shape = FUNCTIONS[function]
    make, what = STRANGE[strange]
    plain = torch.randn(shape, dtype=torch.float64)
    if len(shape) == 3:
        plain += 4 * torch.eye(2).double()
    call(plain)
    refused(lambda: call(make(plain)), argument, what)


def test_lazily_conjugated_tensors_are_right() -> None:
    a = torch.randn(50, 2, dtype=torch.complex128)
    ms.gram(a)
    torch.testing.assert_close(ms.gram(a.conj()), a.mT @ a.conj())
    apart = torch.randn(50, 3, dtype=torch.complex128)[:, :1].expand(50, 2)  # strides that a CPU's kernel has copied
    for one in (apart, apart.conj()):
        torch.testing.assert_close(ms.gram(one, a), one.mH @ a)
        torch.testing.assert_close(ms.gram(a, one.conj()), a.mH @ one.conj())
    s = torch.randn(40, 2, 2, dtype=torch.complex128)
    for one in (s, s.conj(), s.mH):
        torch.testing.assert_close(ms.linalg.inv(one), torch.linalg.inv(one))
        torch.testing.assert_close(ms.blas.gemm(one, s), one @ s)


def test_subclasses_that_change_nothing_are_taken() -> None:
    a = torch.randn(50, 2, dtype=torch.float64)
    found = ms.gram(a.as_subclass(Quiet))
    assert type(found) is Quiet and torch.equal(found.as_subclass(torch.Tensor), ms.gram(a))


def test_resized_storages_are_refused() -> None:
    for first in (0, 3):
        part = torch.randn(53, 2, dtype=torch.float64)[first : first + 50]
        ms.gram(part)
        part.untyped_storage().resize_(0)
        refused(lambda part=part: ms.gram(part), "A", "storage|without data")
    part = torch.randn(47, 2, dtype=torch.float64)[3:]
    part.untyped_storage().resize_(part.nbytes)
    refused(lambda: ms.gram(part), "A", "storage")


# functions that PyTorch's arithmetic answers, which says so itself, and held plans, which compare signatures
_SAY_IT_THEMSELVES = {"axpy", "axpy into", "swap", "held lu", "powers into", "cg", "gmres", "minres", "lobpcg"}


@named([one for one in CASES if len(one.arrays) > 1 and one.name not in _SAY_IT_THEMSELVES])
def test_operands_on_different_devices_are_refused(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each argument in turn pretends to lie on a GPU: a kernel there would read the others' addresses."""
    from mansard.arrays.torch import TorchKind

    real, pretending = TorchKind.view, set[int]()

    def view(self: Any, array: Any, argument: str) -> Any:
        found = real(self, array, argument)
        return found._replace(device=("cuda", 0)) if array.untyped_storage().data_ptr() in pretending else found

    monkeypatch.setattr(TorchKind, "view", view)
    for name in case.arrays:
        arrays = given(case, torch.from_numpy)
        pretending = {getattr(arrays, name).untyped_storage().data_ptr()}
        PLANS.forget()
        with pytest.raises((ValueError, TypeError), match=r"is on|same library and device"):
            case.call(arrays)


def test_ragged_and_interleaved_buffers_may_change() -> None:
    r = cases.ragged(torch.tensor(cases.STACK))
    expected = ms.linalg.det(r)
    r.buffer.resize_(200_000)  # lives elsewhere now
    assert torch.equal(ms.linalg.det(r), expected)
    r.buffer.resize_(7)
    refused(lambda: ms.matmul(r, r), "A|matrix", "ends at element")
    x = cases.interleaved(torch.tensor(cases.LANES["A"]))
    x.buffer.resize_(1, 2, 1, 8)
    refused(lambda: ms.matmul(x, x), "A", "interleave again")
    for buffer, leading in ((np.zeros((1, 2, 2, 8)), (9,)), (np.zeros((4, 2, 2, 8))[::2], (16,)), (np.zeros(8), (1,))):
        refused(lambda b=buffer, n=leading: ms.Interleaved(b, n), "buffer", "interleave|too few")


def test_transformations_of_torch_func_are_answered_or_refused() -> None:
    a = torch.randn(50, 2, dtype=torch.float64)
    ms.gram(a)
    torch.testing.assert_close(torch.func.grad(lambda x: ms.gram(x).sum())(a), 2 * a.sum(1, keepdim=True).expand(50, 2))
    torch.testing.assert_close(torch.vmap(ms.gram)(torch.stack([a, 2 * a]))[1], 4 * a.mT @ a)
    seen = lambda x: refused(lambda: ms.gram(x), "A", "torch.func")  # noqa: E731
    in_transformation(lambda f: torch.func.functionalize(f)(a), seen)
    unknown = lambda x: refused(lambda: ms.linalg.matrix_rank(x), "A", "torch.func")  # noqa: E731
    in_transformation(lambda f: torch.func.grad(f)(a), unknown)
    both = lambda x: refused(lambda: ms.matmul(a, x, out=x), "B", "torch.func")  # noqa: E731
    in_transformation(lambda f: torch.vmap(f)(torch.randn(3, 2, 2, dtype=torch.float64)), both)


@pytest.mark.filterwarnings("ignore")
def test_traces_of_torch_jit_are_refused() -> None:
    a = torch.randn(50, 2, dtype=torch.float64)
    ms.gram(a)
    refused(lambda: torch.jit.trace(lambda x: ms.gram(x) + 1, a, check_trace=False), "A", "torch.jit")


# What crashed once, and what takes long to import, in one process of its own.
TRACED = """
import warnings; warnings.simplefilter("ignore")
import torch, mansard as ms
a = torch.randn(50, 2, dtype=torch.float64)
s = torch.randn(40, 2, 2, dtype=torch.float64) + 4 * torch.eye(2).double()

def refused(call, *words):
    try:
        call()
    except TypeError as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(f"not refused: {words}")

ms.gram(a), ms.linalg.inv(s), ms.blas.gemm(s, s)
refused(lambda: ms.gram(a.to("meta")), "A is", "without data")
refused(lambda: ms.linalg.inv(s.to("meta")), "a is", "without data")
refused(lambda: ms.blas.gemm(s, s.to("meta")), "B is", "without data")
refused(lambda: ms.gram(torch.nested.nested_tensor([a, a], layout=torch.jagged)), "A is", "subclass")

from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode(allow_non_fake_inputs=True) as mode:
    assert ms.gram(mode.from_tensor(a)).shape == (2, 2)
    refused(lambda: ms.linalg.matrix_rank(mode.from_tensor(a)), "A is", "FakeTensor", "torch.compiler.disable")
    refused(lambda: ms.gram(a), "FakeTensorMode")

compiled = torch.compile(lambda x: ms.gram(x * 2) + 1, backend="eager", fullgraph=True)
for _ in range(2):
    assert torch.allclose(compiled(a), ms.gram(a * 2) + 1)
compiled(a.requires_grad_()).sum().backward()
assert torch.allclose(a.grad, 8 * a.detach().sum(1, keepdim=True).expand(50, 2))
held = ms.sparse.matrix(__import__("scipy.sparse").sparse.eye_array(50))
broken = torch.compile(lambda x: (held @ (x * 2)) + 1, backend="eager")
assert torch.allclose(broken(a.detach()), a.detach() * 2 + 1)
print("done")
"""


def test_tracing_and_compiling_neither_crash_nor_drop_anything() -> None:
    assert run_alone(TRACED).strip() == "done"
