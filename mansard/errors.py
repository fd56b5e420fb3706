"""Every exception and warning Mansard raises on purpose. Messages name the argument and the remedy. All of them pickle:
a pool whose worker raises one that does not waits for ever."""

from __future__ import annotations

from numpy.linalg import LinAlgError


class MansardError(Exception):
    """Base of the errors below that are not also a built-in kind of error."""


class UsageError(MansardError, ValueError):
    """A command line, or the files it names, asks for something that makes no sense."""


class UnsupportedProblem(MansardError, ValueError):
    """No kernel family accepts the problem; the message carries each refusal's reason."""


class Transformed(TypeError):
    """An operand has no values yet, or its derivative is wanted: kernels cannot take it, but a framework that knows the
    operation may answer (`mansard.frameworks`). Where none does, this is what the caller sees."""

    def __init__(self, message: str, library: str) -> None:
        self.library = library  # the name by which it is imported
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return Transformed, (self.args[0], self.library)


class IllegalConfig(MansardError, ValueError):
    """A configuration that was asked for (pinned, or given to the tuner) breaks a rule of its space."""


class CompileError(MansardError, RuntimeError):
    """A compiler refused generated source. `str()` shows its log and the source with line numbers."""

    def __init__(self, compiler: str, log: str, source: str) -> None:
        self.compiler, self.log, self.source = compiler, log, source
        super().__init__(f"{compiler} failed\n{log.strip()}\n\n{number_lines(source)}")

    def __reduce__(self) -> tuple[object, ...]:
        return CompileError, (self.compiler, self.log, self.source)


class LaunchError(MansardError, RuntimeError):
    """A kernel could not be loaded or launched, or the emulator found a fault in it."""


class CudaAfterFork(LaunchError):
    """A GPU was asked for in a process that was forked after CUDA had been initialised: no driver serves it."""

    def __init__(self) -> None:
        super().__init__(
            "CUDA was initialised before this process was forked, and cannot be used in it: start processes that use "
            "a GPU with the spawn method (multiprocessing.get_context('spawn')), or fork before the first use of a GPU"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return CudaAfterFork, ()


class BackendUnavailable(MansardError, RuntimeError):
    """The backend that was asked for cannot run here; the message says what is missing and how to get it."""


class EnergyUnreadable(MansardError, RuntimeError):
    """The joules of a device cannot be read; the message says why."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"cannot be read here: {why}")

    def __reduce__(self) -> tuple[object, ...]:
        return EnergyUnreadable, (self.why,)


class RankDeficient(MansardError, LinAlgError):
    """A column has no part of its own beside those before it, to the precision of the method; `column` says which."""

    def __init__(self, message: str, column: int) -> None:
        self.column = column
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return RankDeficient, (str(self), self.column)


class RankError(MansardError, RuntimeError):
    """Another rank of the communicator failed in the same call; `rank` says which, the message why."""

    def __init__(self, message: str, rank: int) -> None:
        self.rank = rank
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.rank)


class RanksDiffer(RankError, ValueError):
    """Ranks called different operations, or one with different dtypes, widths or options; `rank` differs from 0."""


class MansardWarning(UserWarning):
    """Something works, but not as well as it could; the text says what to do about it."""


def number_lines(source: str) -> str:
    """`source` with line numbers, as a compiler's messages count them."""
    return "\n".join(f"{number:4d} | {line}" for number, line in enumerate(source.splitlines(), 1))


def known_text(error: BaseException) -> str | None:
    """One line for the user of a command about an error with a cause outside Mansard; None for a bug."""
    if isinstance(error, CompileError):
        lines = [line for line in error.log.splitlines() if "error" in line.lower()] or error.log.splitlines()
        return f"{error.compiler.split()[0]} failed: {(lines or ['no message'])[0]} (--traceback shows the log)"
    if isinstance(error, MansardError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"not enough memory{f': {error}' if str(error) else ''}"
    if isinstance(error, ModuleNotFoundError) and not (error.name or "mansard").startswith("mansard"):
        return f"{error.name} is not installed: pip install {error.name}"
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return f"{error.filename}: {reason}" if error.filename else reason if error.strerror is None else str(error)
    return None
