"""The native launcher in this process: when it is built, what it is told, and who launches as long as it is not there.

It is loaded with the first kernel that is prepared if the cache has it, which takes milliseconds; otherwise a thread
compiles it meanwhile, once, and nobody waits. A program that only ever calls array libraries gets it after `_CALLS`
calls, and after `_FEW` if the cache has it. Until then, and wherever it cannot be had (`mansard info` says why), Python
launches.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import NamedTuple

from .. import native
from ..arrays import readers
from ..arrays.types import Array, Matrices
from ..errors import MansardError
from ..plan import pin
from . import direct
from .plans import forgets

_CALLS = 1000  # by Python, of 5 us more each, after which a second of another core is spent on the launcher
_FEW = 20  # by Python, after which it is loaded from the cache, in some 10 ms


# An operation, its form, whether the same array twice is one array; names of other options, their defaults, and the
# form for values of them
Entry = tuple[object, Hashable, bool, tuple[str, ...], tuple[object, ...], dict[tuple[object, ...], Hashable]]


class Answers(NamedTuple):
    """Python's side of a group of calls: what runs a call, and what names the plan that it has left."""

    run: Callable[..., Matrices]
    recall: Callable[..., Callable[..., Matrices] | None]


def _wants_gradient(operands: tuple[object, ...]) -> bool:
    """Whether one of the operands has a `requires_grad` that is true."""
    for one in operands:  # noqa: SIM110  a generator takes twice as long
        if getattr(one, "requires_grad", False):
            return True
    return False


class Launcher:
    """The functions of the native module: None, or in Python, until it is loaded."""

    def __init__(self) -> None:
        self.call: Callable[..., Matrices] | None = None
        self.quick: Callable[..., Matrices] | None = None
        self.enter: Callable[[Entry, tuple[object, ...], dict[str, object]], object] | None = None
        self.is_zero: Callable[[Array], bool | None] | None = None
        self.wants_gradient: Callable[[tuple[object, ...]], bool] = _wants_gradient
        self.module: native.Module | None = None
        self._answers: dict[str, Answers] = {}
        self._reason: str | None = None  # why it cannot be had; empty: not tried
        self._thread: threading.Thread | None = None
        self._calls = 0
        self._is_asked = False

    def serves(self, name: str, answers: Answers) -> None:
        """Tell who answers `call` or `quick` in Python."""
        self._answers[name] = answers
        if self.module is not None:
            self._attach(name, self.module)

    def _attach(self, name: str, module: native.Module) -> None:
        answers = self._answers[name]

        def recall(*asked: object) -> object:
            """What the module is to keep for a call that Python has answered; None: nothing."""
            path = answers.recall(*asked)
            return None if path is None else direct.native(module, path)

        module.serve(name, answers.run, recall)
        setattr(self, name, getattr(module, name))

    def counted(self) -> None:
        """Count a call that Python has launched."""
        self._calls += 1
        if self._calls == _FEW and not self._is_asked:
            self._thread = threading.Thread(target=self._load_cached, name="mansard-launcher")
            self._thread.start()
        elif self._calls == _CALLS:
            self.start()

    def start(self) -> None:
        """Load the launcher, or begin to compile it; without effect from the second time on."""
        if self._is_asked:
            return
        self._is_asked = True
        if self._thread is not None:
            self._thread.join()
        if self.module is not None:
            return
        self._reason = native.unavailable()
        if self._reason is None and native.is_cached():
            self._load()
        elif self._reason is None:
            self._thread = threading.Thread(target=self._load, name="mansard-launcher")
            self._thread.start()

    def wait(self) -> bool:
        """Whether calls are launched natively, once that is decided."""
        self.start()
        if self._thread is not None:
            self._thread.join()
        return self.module is not None

    def forget(self) -> None:
        """Forget plans, as Python does at the same time."""
        if self.module is not None:
            self.module.forget()

    def _load_cached(self) -> None:
        if native.unavailable() is None and native.is_cached():
            self._load()

    def _load(self) -> None:
        try:
            module = native.load()
            readers.begin(module)
        except (MansardError, ImportError, OSError) as error:
            self._reason = str(error).splitlines()[0]
            return
        module.attach(lambda array: readers.introduce(module, array), pin.CURRENT)
        self.module, self.is_zero, self.wants_gradient = module, module.is_zero, module.wants_gradient
        for name in tuple(self._answers):
            self._attach(name, module)
        self.enter = module.enter

    def renew_in_child(self) -> None:
        """In a forked child: a thread that was compiling is gone, and so is CUDA."""
        if self.module is not None:
            self.module.lose_cuda()
        elif self._thread is not None:
            self._is_asked, self._thread = False, None


LAUNCHER = Launcher()
forgets(LAUNCHER.forget)
os.register_at_fork(after_in_child=LAUNCHER.renew_in_child)
