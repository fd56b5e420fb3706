"""Graphs of launches: when they are captured, and which are kept."""

from __future__ import annotations

from ctypes import c_void_p
from typing import Any

from played_driver import PlayedDriver, PlayedLibrary

from mansard.operations.sparse.captured import Captured, Graphs


class Library(PlayedLibrary):
    """Counts instantiations and graphs that were given up."""

    def __init__(self) -> None:
        super().__init__()
        self.made = self.gone = 0

    def cuGraphInstantiateWithFlags(self, executable: Any, graph: Any, flags: Any) -> int:
        self.made += 1
        return super().cuGraphInstantiateWithFlags(executable, graph, flags)

    def cuGraphExecDestroy(self, executable: Any) -> int:
        self.gone += 1
        return 0

    def cuStreamIsCapturing(self, stream: Any, flag: Any) -> int:
        flag._obj.value = stream.value == 77
        return 0


class Driver(PlayedDriver):
    """A driver with a context that is current before the capture."""

    restored: Any = None

    def current_context(self) -> c_void_p:
        return c_void_p(9)

    def restore(self, context: c_void_p) -> None:
        self.restored = context.value


class Backend:
    """As much of a GPU's backend as graphs ask for."""

    class device:
        ordinal = 0

    def __init__(self) -> None:
        self.driver = Driver()
        self.driver.lib = Library()


def launching(backend: Backend, done: list[int], number: int) -> Any:
    """A sequence of two launches, which a capture holds back."""

    def launch(stream: int) -> None:
        for step in (number, number + 1):
            if backend.driver.lib.capture is None:
                done.append(step)
            else:
                backend.driver.lib.capture.append(lambda step=step: done.append(step))

    return launch


def test_a_capture_launches_nothing_until_it_is_called() -> None:
    backend, done = Backend(), []
    graph = Captured(backend, launching(backend, done, 1))  # type: ignore[arg-type]
    assert done == [] and backend.driver.lib.made == 1 and backend.driver.restored == 9
    graph(0)
    graph(0)
    assert done == [1, 2, 1, 2]
    graph.destroy()
    assert backend.driver.lib.gone == 1


def test_patient_graphs_are_captured_when_addresses_come_again() -> None:
    for patient in (False, True):
        backend, done = Backend(), []
        graphs = Graphs(backend, patient)  # type: ignore[arg-type]
        for call in range(3):
            graphs.run("x", launching(backend, done, 5), 0)
            assert backend.driver.lib.made == (1 if call or not patient else 0)
        assert done == [5, 6] * 3
        assert graphs.capturing(77) and not graphs.capturing(0)


def test_the_last_few_graphs_are_kept() -> None:
    backend, done = Backend(), []
    graphs = Graphs(backend)  # type: ignore[arg-type]
    for key in (0, 1, 2, 3, 0, 4):
        graphs.run(key, launching(backend, done, 10 * key), 0)
    assert (backend.driver.lib.made, backend.driver.lib.gone) == (5, 1)
    made = backend.driver.lib.made
    graphs._kept.move_to_end(0)
    assert list(graphs._kept) == [2, 3, 4, 0] and backend.driver.lib.made == made


def test_addresses_that_never_come_again_are_never_captured() -> None:
    backend, done = Backend(), []
    graphs = Graphs(backend, patient=True)  # type: ignore[arg-type]
    for key in range(20):
        graphs.run(key, launching(backend, done, key), 0)
    assert backend.driver.lib.made == 0 and len(done) == 40
