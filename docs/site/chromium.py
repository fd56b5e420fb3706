"""Drive a headless Chromium by its debugging protocol over two pipes: no driver, no port, no package.

Chromium reads commands from file descriptor 3 and writes answers and events to 4, one JSON object each, ended by a zero
byte. One tab is used for everything.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
_SWITCHES = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars",
             "--disable-extensions", "--no-first-run", "--disable-dev-shm-usage", "--allow-file-access-from-files",
             "--remote-debugging-pipe")  # fmt: skip
_PATIENCE = 60.0  # seconds for one answer

Message = dict[str, Any]


def find() -> str | None:
    """Path of an installed Chromium or Chrome, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def _spawn(command: list[str], read: int, write: int) -> int:
    """Start Chromium with these ends of pipes as descriptors 3 and 4, and without its own messages."""
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (read, write)]  # out of the way of 3 and 4
    actions: list[Any] = [(os.POSIX_SPAWN_DUP2, end, place) for end, place in zip(high, (3, 4), strict=True)]
    actions += [(os.POSIX_SPAWN_OPEN, place, os.devnull, os.O_WRONLY, 0) for place in (1, 2)]
    process = os.posix_spawn(command[0], command, dict(os.environ), file_actions=actions)
    for end in high:
        os.close(end)
    return process


class Tab:
    """A tab of a Chromium that runs as long as the `with` block; `events` collects what it reports by itself."""

    def __init__(self, program: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        read, self._commands = os.pipe()
        self._answers, write = os.pipe()
        command = [program, *_SWITCHES, f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = _spawn(command, read, write)
        os.close(read)
        os.close(write)
        self._rest, self._number, self._session = b"", 0, ""
        self.events: list[Message] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Tab:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.kill(self._process, signal.SIGTERM)
        os.waitpid(self._process, 0)
        os.close(self._commands)
        os.close(self._answers)
        self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> Message:
        """The answer to a command; events that come meanwhile are kept."""
        self._number += 1
        message: Message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda one: one.get("id") == message["id"])
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        result: Message = answer["result"]
        return result

    def open(self, url: str) -> None:
        """Load a page and wait for its load event."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        if not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._until(lambda one: one.get("method") == "Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """Evaluate a JavaScript expression; promises are awaited."""
        said = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in said:
            raise RuntimeError(f"{expression}: {said['exceptionDetails']}")
        return said["result"].get("value")

    def look(self, width: int, height: int = 900, dark: bool = False) -> None:
        """Set the size of the window in CSS pixels, and which colours the reader prefers."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """Write a PNG of the window, or of the whole page."""
        said = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(said["data"]))

    def _until(self, fits: Callable[[Message], bool]) -> Message:
        end = time.monotonic() + _PATIENCE
        while True:
            message = self._next(end)
            if "method" in message:
                self.events.append(message)
            if fits(message):
                return message

    def _next(self, end: float) -> Message:
        while b"\0" not in self._rest:
            if not select.select([self._answers], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("Chromium did not answer")
            more = os.read(self._answers, 1 << 20)
            if not more:
                raise RuntimeError("Chromium ended")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        message: Message = json.loads(line)
        return message
