"""The native launcher: the bits of Python's path, the same refusals, and nothing that a signature does not capture."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import needs_cpu

import mansard as ms
from mansard import native
from mansard.operations import direct
from mansard.operations.launcher import LAUNCHER, Launcher
from mansard.operations.plans import PLANS

NATIVE = LAUNCHER.wait()
pytestmark = [needs_cpu, pytest.mark.skipif(not NATIVE, reason=f"calls are launched by {native.state()}")]
RANDOM = np.random.default_rng(5)
TALL, SQUARES = RANDOM.standard_normal((300, 3)), RANDOM.standard_normal((6, 4, 4)) + 4 * np.eye(4)
RIGHT = RANDOM.standard_normal((6, 4, 2))
CALLS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "gram": lambda of: ms.gram(of(TALL)),
    "gram, out": lambda of: ms.gram(of(TALL), out=of(np.zeros((3, 3)))),
    "matmul": lambda of: ms.matmul(of(SQUARES), of(SQUARES)),
    "scaled": lambda of: ms.blas.gemm(of(SQUARES), of(SQUARES), alpha=2.0),
    "solve": lambda of: ms.linalg.solve(of(SQUARES), of(RIGHT)),
    "trsm": lambda of: ms.blas.trsm(of(SQUARES), of(RIGHT)),
    "trsm in place": lambda of: ms.blas.trsm(of(SQUARES), place := of(RIGHT.copy()), out=place),
    "lu_factor": lambda of: ms.linalg.lu_factor(of(SQUARES)),
    "lu_factor, out": lambda of: ms.linalg.lu_factor(of(SQUARES), out=of(np.zeros((6, 4, 4)))),
    "gram, library": lambda of: ms.gram(of(TALL), backend="reference"),
    "inv, library": lambda of: ms.linalg.inv(of(SQUARES), backend="reference"),
    "eigh, library": lambda of: ms.linalg.eigh(of(SQUARES), backend="reference"),
    "trsm, library": lambda of: ms.blas.trsm(of(SQUARES), of(RIGHT), backend="reference"),
}


def tensor(array: Any) -> Any:
    return pytest.importorskip("torch", reason="torch is not installed").from_numpy(np.ascontiguousarray(array))


KINDS: dict[str, Callable[[Any], Any]] = {"numpy": lambda array: array, "torch": tensor}


@pytest.fixture
def by_python(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A function from whose call on Python launches."""

    def switch() -> None:
        for name in ("call", "quick", "enter", "is_zero"):
            monkeypatch.setattr(LAUNCHER, name, None)

    return switch


def module() -> native.Module:
    assert LAUNCHER.module is not None
    return LAUNCHER.module


def parts(result: Any) -> list[Any]:
    return [np.asarray(one) for one in (result if isinstance(result, tuple) else (result,))]


def entered(call: Callable[[], Any]) -> list[str]:
    """Mansard's Python functions that a call enters."""
    found: list[str] = []

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call" and "mansard" in frame.f_code.co_filename and __file__ != frame.f_code.co_filename:
            found.append(frame.f_code.co_name)

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_both_paths_give_the_same_bits(name: str, kind: str, by_python: Callable[[], None]) -> None:
    of = KINDS[kind]
    natively = [parts(CALLS[name](of)) for _ in range(4)]
    by_python()
    expected = parts(CALLS[name](of))
    for found in natively:
        assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_warm_launch_enters_the_public_functions_alone(kind: str) -> None:
    A, B = KINDS[kind](SQUARES), KINDS[kind](RIGHT)
    for _ in range(3):
        ms.blas.trsm(A, B)
    assert len(entered(lambda: ms.blas.trsm(A, B))) <= 4  # the exported one, trsm, solve, call


@pytest.mark.parametrize("kind", KINDS)
def test_operands_alone_enter_one_function(kind: str) -> None:
    """What a library answers is called without any code of ours; other arguments, and other arrays, pass through it."""
    A = KINDS[kind](SQUARES[0])
    B = KINDS[kind](SQUARES[1].copy())
    for _ in range(3):
        ms.matmul(A, B), ms.matmul(A, A), ms.gram(A), ms.gram(A, B)
    for operands in ((A, B), (A, A)):
        assert entered(lambda operands=operands: ms.matmul(*operands)) == ["call"]  # type: ignore[misc]
    assert "gram" not in entered(lambda: ms.gram(A)) and "gram" in entered(lambda: ms.gram(A, conj=False))
    assert np.array_equal(ms.matmul(A, B), SQUARES[0] @ SQUARES[1])
    product, twice = parts(ms.gram(A, A))[0], parts(ms.gram(A))[0]
    assert np.array_equal(product, twice) and np.array_equal(product, product.T)
    assert "plan_matmul" in entered(lambda: ms.matmul(A, B[:, :3]))
    with pytest.raises(ValueError, match="both need the same number"):
        ms.matmul(A, B[:3])


def test_derivatives_and_pins_do_not_enter_natively() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    A, leaf = tensor(SQUARES[0]), tensor(SQUARES[1]).clone().requires_grad_()
    for _ in range(3):
        ms.matmul(A, A)
    assert ms.matmul(A, leaf).requires_grad and not ms.matmul(A, A).requires_grad
    with torch.no_grad():
        assert not ms.matmul(A, leaf).requires_grad
    enter, entry = LAUNCHER.enter, ms.matmul.__dict__["entry"]
    assert enter is not None and enter(entry, (A, A), {}) is not NotImplemented
    for args, options in (((A, leaf), {}), ((), {}), ((A, A, A), {}), ((A, A), {"alpha": 1}), ((A, SQUARES), {})):
        assert enter(entry, args, options) is NotImplemented
    with ms.pin(VARIANT="simd"):
        assert enter(entry, (A, A), {}) is NotImplemented
    with pytest.raises(TypeError, match="operation, form, folds"):
        enter(entry[:2], (A, A), {})  # type: ignore[arg-type]


# ---- signatures ---------------------------------------------------------------------------------------------------


def arrays() -> dict[str, Any]:
    wide = np.arange(60.0).reshape(5, 12)
    fixed = np.zeros((3, 3))
    fixed.flags.writeable = False
    return {
        "rows": wide, "columns": wide.T, "part": wide[1:, 2:7], "backwards": wide[::-1, ::-2], "read-only": fixed,
        "complex": np.zeros((2, 3, 4), np.complex64), "number": np.zeros(()), "empty": np.zeros((0, 3)),
    }  # fmt: skip


@pytest.mark.parametrize("name", arrays())
def test_numpy_arrays_are_read_as_numpy_says(name: str) -> None:
    array = arrays()[name]
    address, readonly = array.__array_interface__["data"]
    found = module().describe(array)
    assert found is not None
    assert found[:3] == (address, array.shape, array.strides) and found[4:] == (-1, readonly, False)


def test_tensors_are_read_as_torch_says() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    ms.gram(tensor(TALL))
    base = torch.arange(24.0).reshape(4, 6)
    for one in (base, base.T, base[1:, ::2], base.to(torch.complex128).conj()):
        found = module().describe(one)
        assert found is not None
        assert found[:3] == (one.data_ptr(), tuple(one.shape), one.stride()) and found[6] == one.is_conj()


def unfit() -> dict[str, Callable[[], Any]]:
    import torch

    def resized() -> Any:
        one = torch.zeros(20)[4:]
        one.untyped_storage().resize_(0)
        return one

    return {
        "half": lambda: np.zeros(3, np.float16),
        "foreign": lambda: np.zeros(3, ">f8"),
        "deep": lambda: np.zeros((1,) * 7),
        "objects": lambda: np.zeros(2, object),
        "subclass": lambda: np.ma.zeros(3),
        "list": lambda: [1.0],
        "gradient": lambda: torch.ones(3, requires_grad=True),
        "negated": lambda: torch.ones(3, dtype=torch.cfloat).conj().imag,
        "sparse": lambda: torch.eye(2).to_sparse(),
        "meta": lambda: torch.ones(2, device="meta"),
        "resized": resized,
        "zeros": lambda: torch._efficientzerotensor((2, 2)),
        "part of zeros": lambda: torch._efficientzerotensor((3, 2))[1:],
        "half tensor": lambda: torch.ones(2, dtype=torch.half),
    }


UNFIT = (
    "half", "foreign", "deep", "objects", "subclass", "list", "gradient", "negated", "sparse", "meta", "resized",
    "zeros", "part of zeros", "half tensor",
)  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_what_a_signature_does_not_capture_is_left_to_python(name: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    ms.gram(tensor(TALL))
    assert module().describe(unfit()[name]()) is None


def test_operands_that_want_a_gradient() -> None:
    """In Python and natively alike: tensors, parameters, other objects, tuples, nothing."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from mansard.operations import launcher

    plain, leaf = torch.ones(2), torch.ones(2, requires_grad=True)
    given = [(), (plain,), (plain, leaf), (np.ones(2), leaf), (np.ones(2), plain, None, 1.0, "x", [leaf], (leaf,))]
    for operands in (*given, (torch.nn.Parameter(plain),), (SimpleNamespace(requires_grad=1),)):
        assert module().wants_gradient(operands) is launcher._wants_gradient(operands)
    with pytest.raises(TypeError, match="tuple"):
        module().wants_gradient([leaf])


def test_state_of_torch_is_asked_in_every_call() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    one = tensor(TALL)
    for _ in range(3):
        ms.gram(one)
    with torch.no_grad():
        assert module().describe(one.clone().requires_grad_()) is not None
    with torch.autograd.forward_ad.dual_level():
        assert module().describe(one) is None
    seen = []
    torch.jit.trace(lambda x: seen.append(module().describe(x)) or x + 1, (one,))
    assert seen[0] is None


# ---- plans --------------------------------------------------------------------------------------------------------


def test_arrays_that_change_find_another_plan() -> None:
    A = np.arange(48.0).reshape(12, 4)
    for shape in ((12, 4), (12, 4), (12, 4), (24, 2), (16, 3), (12, 4)):
        A.shape = shape
        assert np.array_equal(ms.gram(A, backend="reference"), A.T @ A)
    PLANS.forget()
    turned = np.asfortranarray(A)
    for one in (A, turned, A[1:] if A[1:].ctypes.data % 16 else A[::2]):
        assert "plan_gram" in entered(lambda one=one: ms.gram(one, backend="reference"))  # type: ignore[misc]
    for one in (A, turned, A[::2], turned[:, 1:], A[::-1]):
        for _ in range(3):
            assert np.array_equal(ms.gram(one, backend="reference"), one.T @ one)


def test_places_are_looked_at_in_every_call() -> None:
    A, out = np.ones((300, 3)), np.zeros((3, 3))
    for _ in range(4):
        assert ms.gram(A, out=out) is out
    for _ in range(2):
        with pytest.raises(ValueError, match="out overlaps A"):
            ms.gram(A, out=A[7:10])
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        ms.gram(A, out=out)
    B = RIGHT.copy()
    for _ in range(4):
        B[...] = RIGHT
        ms.blas.trsm(SQUARES, B, out=B)
        assert np.allclose(np.tril(SQUARES) @ B, RIGHT)
    several = np.concatenate([RIGHT, RIGHT])
    for _ in range(2):
        with pytest.raises(ValueError, match="out overlaps b"):
            ms.blas.trsm(SQUARES, several[:6], out=several[1:7])


def test_pins_and_forgetting() -> None:
    A = np.ones((300, 3))
    for _ in range(3):
        ms.gram(A)
    before = module().size()
    with ms.pin(VARIANT="vendor"):
        assert "plan_gram" in entered(lambda: ms.gram(A))
    assert before > 0 and "plan_gram" not in entered(lambda: ms.gram(A))
    PLANS.forget()
    assert module().size() == 0 and "plan_gram" in entered(lambda: ms.gram(A))


def test_threads_call_while_another_one_forgets() -> None:
    wrong: list[Any] = []
    done = threading.Event()

    def work(seed: int) -> None:
        A = np.random.default_rng(seed).integers(-3, 4, (300, 3)).astype(float)
        for _ in range(400):
            if not np.array_equal(ms.gram(A, backend="reference"), A.T @ A):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        module().forget()
        done.wait(0.002)
    assert not wrong


def test_the_table_begins_anew_when_it_is_full() -> None:
    A = np.ones(5000)[:, None]
    module().forget()
    sizes = [module().size() for rows in range(1, 4110) if ms.gram(A[:rows], backend="reference") == rows]
    assert len(sizes) == 4109 and max(sizes) == 4096 and sizes[-1] == 4109 - 4096


# ---- launches on a GPU, with a driver of the test's own -----------------------------------------------------

STARTED = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    *(ctypes.c_uint,) * 7,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)
ASKED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))


class Driver:
    """Notes every launch; may say that a stream is captured, or that a launch failed."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []
        self.python: list[tuple[Any, ...]] = []
        self.workspaces: list[int] = []
        self.status, self.capturing = 0, 0
        self.start, self.ask = STARTED(self._start), ASKED(self._ask)
        self.stream = 64

    def _start(self, function: int, *given: Any) -> int:
        *sizes, stream, parameters, _ = given
        words = ctypes.cast(parameters[0], ctypes.POINTER(ctypes.c_uint64))
        self.launches.append((function, tuple(sizes), stream or 0, tuple(words[i] for i in range(6))))
        return self.status

    def _ask(self, stream: int, flag: Any) -> int:
        flag[0] = self.capturing
        return 0

    def __call__(self, pointers: tuple[int, ...], scalars: tuple[float, ...], stream: int) -> None:
        self.python.append((pointers, scalars, stream))

    @property
    def entry(self) -> tuple[Any, ...]:
        start, ask = (ctypes.cast(one, ctypes.c_void_p).value for one in (self.start, self.ask))
        words = (ctypes.c_uint64 * 6)(0, 0, 0, 0, 0, 77)
        return "cuda", start, ask, 4711, (3, 2, 1, 128, 512), bytes(words), 3, False, self._workspace

    def _workspace(self, stream: int) -> tuple[int, int]:
        self.workspaces.append(stream)
        return 1000 + stream, 2000 + stream


def launched(driver: Driver, A: Any, B: Any) -> Any:
    """What `call` gives for a path that comes down to a launch by this driver."""
    from mansard.arrays import kinds
    from mansard.arrays.types import StreamSource
    from mansard.operations.operation import Operation, call

    class Kind:
        """NumPy's arrays as if they were on a GPU."""

        package = "numpy"
        stream_source = staticmethod(lambda device: StreamSource(lambda: driver.stream))

    maker = kinds.KINDS["numpy"].maker((2, 2), "float64", "float64")
    found: Any = Kind()
    path = direct.described(
        lambda A, B, out, alpha, beta: "general",
        direct.Direct(found, driver, ("cuda", 0), (0, 1, 2), (maker,), scalars=(1.0, 0.0, 0.0, 0.0)),
    )

    class Planned:
        run = path

    operation = OPERATIONS.setdefault(id(driver), Operation("driven", lambda *given: Planned, lists=False))  # type: ignore[arg-type, return-value]
    return call(operation, A, B, None, 1.0, 0.0, None, None)


OPERATIONS: dict[int, Any] = {}


def test_launches_on_a_gpu() -> None:
    driver, A, B = Driver(), np.ones((2, 2)), np.ones((2, 2))
    assert launched(driver, A, B) == "general"  # the first call is Python's
    C = launched(driver, A, B)
    addresses = tuple(one.ctypes.data for one in (A, B, C))
    assert driver.launches == [(4711, (3, 2, 1, 128, 1, 1, 512), 64, (*addresses, 1064, 2064, 77))]
    driver.stream = 65
    launched(driver, A, B), launched(driver, A, B)
    assert [one[2] for one in driver.launches[1:]] == [65, 65] and driver.workspaces == [64, 65]
    assert driver.launches[-1][3][3:5] == (1065, 2065)


@pytest.mark.parametrize("trouble", ["capturing", "status"])
def test_python_launches_where_a_stream_is_captured_or_a_launch_fails(trouble: str) -> None:
    driver, A, B = Driver(), np.ones((2, 2)), np.ones((2, 2))
    launched(driver, A, B), launched(driver, A, B)
    setattr(driver, trouble, 1)
    C = launched(driver, A, B)
    assert driver.python == [(tuple(one.ctypes.data for one in (A, B, C)), (1.0, 0.0, 0.0, 0.0), 64)]
    assert len(driver.launches) == (1 if trouble == "capturing" else 2)


# ---- where it cannot be had ---------------------------------------------------------------------------------------


def test_reasons_for_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "is_cached", lambda: False)
    monkeypatch.setattr(native, "_headers", lambda: native.Path("/nowhere"))
    assert "python3-dev" in str(native.unavailable()) and native.state().startswith("Python (no Python.h")
    monkeypatch.setattr(native, "is_cached", lambda: True)
    assert native.unavailable() is None and native.state() == "the native launcher"


@pytest.mark.parametrize("cached", [True, False])
def test_a_launcher_in_the_cache_is_loaded_after_a_few_calls(monkeypatch: pytest.MonkeyPatch, cached: bool) -> None:
    """By a thread; one that is not there is compiled after many."""
    loaded: list[Launcher] = []
    monkeypatch.setattr(Launcher, "_load", lambda self: loaded.append(self))
    monkeypatch.setattr(native, "is_cached", lambda: cached)
    made = Launcher()
    for _ in range(19):
        made.counted()
    assert made._thread is None
    for _ in range(980):
        made.counted()
    made._thread.join()  # type: ignore[attr-defined]
    assert loaded == [made] * cached
    made.counted()
    assert not made.wait() and loaded[-1] is made


@pytest.mark.parametrize("told", [(), (1,) * 14, (0, (0,), (), False, 0, 0, 0, (), (), None, (), None, None, None)])
def test_descriptions_that_fit_no_kernel_are_refused(told: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError)):
        module().make_run(told)


# ---- info of a GPU's, with a driver of the test's own --------------------------------------------------------------


class OnGpu:
    """An int32 array as the launcher reads CuPy's, in host memory."""

    def __init__(self, entries: np.ndarray, device: int) -> None:
        self.entries = np.asarray(entries, np.int32)
        self.shape, self.strides, self.dtype = self.entries.shape, self.entries.strides, np.dtype("int32")
        self.data = type("Memory", (), {"ptr": self.entries.ctypes.data, "device_id": device})


class Fetching:
    """Copies when it is waited for, as a GPU may."""

    def __init__(self) -> None:
        self.copies: list[tuple[int, int, int, int]] = []
        self.memory: list[Any] = []
        self.context, self.capturing, self.status, self.streams = 7, 0, 0, [5]
        pointer, number = ctypes.c_void_p, ctypes.c_int
        self._functions = (
            ctypes.CFUNCTYPE(number, ctypes.POINTER(pointer))(self._current),
            ASKED(lambda stream, flag: self._put(flag, self.capturing)),
            ctypes.CFUNCTYPE(number, pointer, pointer, ctypes.c_size_t, pointer)(self._copy),
            ctypes.CFUNCTYPE(number, pointer)(self._wait),
            ctypes.CFUNCTYPE(number, ctypes.POINTER(pointer), ctypes.c_size_t, ctypes.c_uint)(self._allocate),
        )

    def tell(self, device: int) -> None:
        current, *others = (ctypes.cast(one, ctypes.c_void_p).value for one in self._functions)
        source = (lambda: self.streams[0], False, 0, False)
        module().know(OnGpu, 2)
        module().set_fetch(2, device, source, (current, 7, *others))

    @staticmethod
    def _put(place: Any, value: int) -> int:
        place[0] = value
        return 0

    def _current(self, place: Any) -> int:
        return self._put(place, self.context)

    def _copy(self, to: int, source: int, size: int, stream: int) -> int:
        self.copies.append((to, source, size, stream))
        return 0

    def _wait(self, stream: int) -> int:
        to, source, size, queued = self.copies[-1]
        assert stream == queued
        ctypes.memmove(to, source, size)
        return self.status

    def _allocate(self, place: Any, size: int, flags: int) -> int:
        self.memory.append((ctypes.c_char * size)())
        return self._put(place, ctypes.addressof(self.memory[-1]))


@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (4096,)])
def test_info_is_fetched_over_memory_that_is_used_again(shape: tuple[int, ...]) -> None:
    played = Fetching()
    played.tell(3)
    good, bad = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    bad[(-1,) * len(shape)] = 2
    for entries, found in ((good, True), (bad, False), (good, True)):
        assert module().is_zero(OnGpu(entries, 3)) is found
    assert {(size, stream) for *_, size, stream in played.copies} == {(good.nbytes, 5)} and len(played.memory) == 1


def test_info_that_python_fetches() -> None:
    """On other devices, in other contexts, on captured streams, of other strides, of many, and after a failure."""
    played, good = Fetching(), np.zeros(8, np.int32)
    played.tell(4)
    assert module().is_zero(OnGpu(good, 9)) is None
    for name, value, before in (("context", 8, 7), ("capturing", 1, 0)):
        setattr(played, name, value)
        assert module().is_zero(OnGpu(good, 4)) is None and not played.copies
        setattr(played, name, before)
    assert module().is_zero(OnGpu(good[::2], 4)) is None and module().is_zero(OnGpu(np.zeros(4097), 4)) is None
    played.status = 700
    assert module().is_zero(OnGpu(good, 4)) is None
    played.status = 0
    assert module().is_zero(OnGpu(good, 4)) is True and len(played.memory) == 2, "a copy may still come"
