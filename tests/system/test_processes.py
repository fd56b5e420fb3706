"""Processes: children of a fork answer with the parent's bits, spawned ones too, and CUDA says why it cannot."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest
from conftest import needs_cpu
from process_cases import run

from mansard.backends import cuda
from mansard.compile import cxx

_on_gpus = pytest.mark.skipif(cuda.unavailable() is not None, reason=f"cuda: {cuda.unavailable()}")

_WARM = """
import concurrent.futures, multiprocessing, os, sys, threading
import numpy as np
import mansard as ms
from process_cases import answers, calls

made = calls()
expected = answers(made)
def differing(_=None):
    found = answers(made)
    return [name for name in expected if found[name] != expected[name]]
def in_child(work):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, repr(work()).encode())
        os._exit(0)
    os.close(write)
    text = os.fdopen(read).read()
    os.waitpid(pid, 0)
    return text
"""


@needs_cpu
def test_forked_children_answer_with_the_same_bits() -> None:
    """Of a pool, of an executor that a thread starts, of a bare fork, and of a child's own child."""
    script = """
    fork = multiprocessing.get_context("fork")
    with fork.Pool(4) as pool:
        assert pool.map(differing, range(8)) == [[]] * 8
    assert differing() == []  # the parent goes on

    def from_a_thread():
        made["gram"]()  # this thread has a team of its own now
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=fork) as pool:
            assert list(pool.map(differing, range(4))) == [[]] * 4
        print("thread done")

    thread = threading.Thread(target=from_a_thread)
    thread.start()
    thread.join()
    print(in_child(differing), in_child(lambda: eval(in_child(differing))))
    """
    assert run(_WARM + textwrap.dedent(script)).split() == ["thread", "done", "[]", "[]"]


@needs_cpu
def test_forked_children_answer_where_teams_cannot_be_given_up() -> None:
    """As with the OpenMP runtime of GCC 8 and older: another thread of the child calls the kernels."""
    script = """
    import ctypes
    from mansard.backends import openmp
    openmp.hasattr = lambda library, name: name != "omp_pause_resource_all" and hasattr(library, name)
    """
    after = """
    assert type(ms.plan("gram", np.ones((9000, 4))).launch._function) is openmp.Handed
    print(in_child(differing), in_child(lambda: eval(in_child(differing))), differing())
    """
    assert run(textwrap.dedent(script) + _WARM + textwrap.dedent(after)).split() == ["[]", "[]", "[]"]


@needs_cpu
def test_workers_of_a_data_loader_answer() -> None:
    pytest.importorskip("torch")
    script = """
    import torch
    A = torch.from_numpy(np.random.default_rng(0).standard_normal((9000, 4)))
    G = ms.gram(A)

    class Grams(torch.utils.data.Dataset):
        def __len__(self):
            return 4
        def __getitem__(self, index):
            return torch.stack([ms.gram(A), G])

    loader = torch.utils.data.DataLoader(Grams(), num_workers=2, multiprocessing_context="fork")
    print([bool((pair[0, 0] == pair[0, 1]).all()) for pair in loader])
    """
    found = run("import numpy as np, mansard as ms\n" + textwrap.dedent(script))
    assert found.strip() == str([True] * 4)


@needs_cpu
def test_spawned_processes_answer_with_the_same_bits() -> None:
    script = """
    import multiprocessing
    from process_cases import answers, calls, of_seed

    if __name__ == "__main__":
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            found = pool.map(of_seed, [0, 1])
        print([one == answers(calls(seed)) for seed, one in enumerate(found)])
    """
    assert run(textwrap.dedent(script)).split() == ["[True,", "True]"]


# ---- what other threads of the parent were doing ----------------------------------------------------------------


@needs_cpu
def test_a_fork_while_a_kernel_is_compiled(tmp_path: Path) -> None:
    """The child needs the kernel whose lock its parent's other thread holds: it must wait for the parent, and not for
    the copy of the lock that it inherited itself. The parent's compiler ends although children live on."""
    script = """
    import multiprocessing, os, threading, time
    import numpy as np, mansard as ms
    from mansard.compile import cxx

    started, real = threading.Event(), cxx.forks.run
    def slow(command, **options):
        started.set()
        time.sleep(0.5)
        return real(command, **options)
    cxx.find_compiler()
    cxx.forks.run = slow
    A = np.arange(30.0).reshape(10, 3)
    thread = threading.Thread(target=ms.gram, args=(A,))
    thread.start()
    started.wait()
    def locks():  # open ones
        paths = [f"/proc/self/fd/{one}" for one in os.listdir("/proc/self/fd")]
        return sum("/locks/" in os.readlink(path) for path in paths if os.path.islink(path))
    before = locks()
    def child(queue, go):
        queue.put([locks(), bool((ms.gram(A) == A.T @ A).all())])
        go.wait()
    fork = multiprocessing.get_context("fork")
    queue, go = fork.Queue(), fork.Event()
    children = [fork.Process(target=child, args=(queue, go)) for _ in range(2)]
    for one in children:
        one.start()
    print(before, *(queue.get() for _ in children))
    thread.join()
    go.set()
    for one in children:
        one.join()
    """
    found = run(textwrap.dedent(script), MANSARD_CACHE_DIR=str(tmp_path), MANSARD_LAUNCHER="python")
    assert found.split() == ["1", "[0,", "True]", "[0,", "True]"]


def test_a_fork_waits_for_what_it_must_not_cut_in_two() -> None:
    """A command that is being started, whose pipes a child would keep open for ever."""
    script = """
    import os, subprocess, threading, time
    from mansard import forks

    order, opened, start = [], threading.Event(), subprocess.Popen.__init__
    def slow(self, *arguments, **options):
        opened.set()
        time.sleep(0.3)
        order.append("started")
        start(self, *arguments, **options)
    subprocess.Popen.__init__ = slow
    thread = threading.Thread(target=lambda: order.append(forks.run(["echo", "done"]).stdout.strip()))
    thread.start()
    opened.wait()
    pid = os.fork()
    if pid == 0:
        with forks.postponed():
            time.sleep(2)
            os._exit(0)
    order.append("forked")
    thread.join()
    print(*order)
    os.waitpid(pid, 0)
    """
    found = run(textwrap.dedent(script), seconds=30).split()
    assert found in (["started", "forked", "done"], ["started", "done", "forked"])


# ---- GPUs -----------------------------------------------------------------------------------------------------------

_DRIVER = r"""
#include <unistd.h>
static pid_t process;
extern "C" {
int cuInit(unsigned) { if (process && process != getpid()) return 3; process = getpid(); return 0; }
int cuGetErrorName(int, const char** name) { *name = "an error"; return 0; }
int cuDeviceGetCount(int* count) { *count = 1; return 0; }
int cuDeviceGet(int* device, int) { *device = 0; return 0; }
int cuDeviceGetName(char* name, int, int) { name[0] = 'x'; name[1] = 0; return 0; }
int cuDeviceGetAttribute(int* value, int, int) { *value = 9; return 0; }
int cuStreamIsCapturing(void*, int* flag) { *flag = 0; return process == getpid() ? 0 : 3; }
int cuThreadExchangeStreamCaptureMode(int*) { return 0; }
int cuMemAlloc_v2(void** address, unsigned long) { *address = (void*)4096; return 0; }
int cuStreamCreate(void** stream, unsigned) { *stream = (void*)1; return 0; }
int cuMemsetD8Async(void*, int, unsigned long, void*) { return 0; }
int cuStreamSynchronize(void*) { return 0; }
int cuStreamDestroy_v2(void*) { return 0; }
int cuLaunchKernel(...) { return process == getpid() ? 0 : 3; }
}
"""


@needs_cpu
def test_cuda_refuses_in_a_forked_child(tmp_path: Path) -> None:
    """With a driver that, as NVIDIA's, serves the process that initialised it and no other."""
    (tmp_path / "driver.cpp").write_text(_DRIVER)
    command = [cxx.find_compiler()[0], "-shared", "-fPIC", "driver.cpp", "-o", "libcuda.so.1"]
    subprocess.run(command, cwd=tmp_path, check=True)
    script = """
    import ctypes, os, sys
    from types import SimpleNamespace
    from mansard.backends import cuda, cuda_driver, select
    from mansard.codegen.geometry import Geometry, Kernel
    from mansard.codegen.instantiate import WORKSPACE, Field, Source
    from mansard.errors import CudaAfterFork

    def error(work):
        try:
            work()
        except CudaAfterFork as caught:
            return "spawn" in str(caught)
        except Exception as caught:
            return repr(caught)
        return "nothing"

    def in_child(*work):
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, repr([error(one) for one in work]).encode())
            os._exit(0)
        os.close(write)
        os.wait()
        return os.fdopen(read).read()

    ctypes.CDLL("libcuda.so.1").cuInit(0)  # by another library
    print(in_child(lambda: select.select(("cuda", 0), None)))
    backend = cuda.backend(0)
    source = Source("cuda", "", (Field("A", "void*", "pointer"), *WORKSPACE))
    launch = cuda.CudaLaunch(backend, Kernel(source, Geometry((1, 1, 1), 32), ()), ctypes.c_void_p(1))
    launch((64,), (), 0)
    print(in_child(
        lambda: launch((64,), (), 0), lambda: cuda.backend(0), lambda: select.select(("cuda", 0), None),
        lambda: backend.synchronize(), cuda_driver.driver, lambda: launch((64,), (), 5),
    ))
    launch((64,), (), 0)
    """
    found = run(textwrap.dedent(script), LD_LIBRARY_PATH=str(tmp_path)).splitlines()
    assert found == ["[True]", str([True] * 6)]


_GPU = """
import os
import numpy as np, mansard as ms

def errors_in_child(*work):
    def error(one):
        try:
            one()
        except Exception as caught:  # ours, or PyTorch's where it is asked for memory first
            return "spawn" in str(caught) or repr(caught)
        return "nothing"
    read, write = os.pipe()
    if os.fork() == 0:
        fine = bool((ms.gram(np.ones((1000, 4))) == 1000).all())
        os.write(write, repr([fine, *map(error, work)]).encode())
        os._exit(0)
    os.close(write)
    os.wait()
    return os.fdopen(read).read()
"""


@_on_gpus
def test_a_gpu_refuses_in_a_forked_child() -> None:
    """With CuPy's arrays, by calls made before and by new ones; the parent goes on."""
    pytest.importorskip("cupy")
    script = """
    import cupy
    A, small, stack = cupy.ones((1000, 4)), cupy.ones((4, 4)), cupy.ones((250, 4, 4))
    out, plan = ms.gram(A), ms.plan("gram", A)
    powers, x = ms.matrix_powers(ms.sparse.matrices.stencil(5, (20, 20), xp=cupy), 3), cupy.ones(400)
    powers(x)
    print(errors_in_child(
        lambda: ms.gram(A), lambda: ms.gram(A, out=out), lambda: ms.matmul(A, small), lambda: ms.matmul(stack, small),
        lambda: ms.linalg.cholesky(stack), lambda: plan(A), lambda: powers(x),
    ), bool((ms.gram(A) == 1000).all()))
    """
    assert run(_GPU + textwrap.dedent(script)).strip() == f"{[True] * 8} True"


@_on_gpus
def test_a_gpu_refuses_tensors_in_a_forked_child() -> None:
    """Whoever is asked first, PyTorch for memory or Mansard for a launch, names the remedy."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch without CUDA")
    script = """
    import torch
    A, stack = torch.ones((1000, 4), device="cuda"), torch.ones((250, 4, 4), device="cuda")
    out = ms.gram(A)
    print(errors_in_child(lambda: ms.gram(A, out=out), lambda: ms.linalg.cholesky(stack), lambda: ms.gram(A)))
    """
    assert run(_GPU + textwrap.dedent(script)).strip() == str([True] * 4)
