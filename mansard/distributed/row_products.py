"""Products of matrices by rows: every rank's kernels do its own rows, and one message adds the small results.

A block is what one rank has, or `Rows.blocks` rows of it. Each operation runs on the blocks of local rows; tall results
stay where they are, small ones are summed in the order of the blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import kinds
from ..arrays.types import Array, Call
from ..operations.tall_skinny.fused import check_out, checked, multiplied
from ..operations.tall_skinny.gram import gram
from ..operations.tall_skinny.matmul import matmul
from ..operations.tall_skinny.orthogonal_steps import Passes
from ..operations.tall_skinny.sketch_call import is_tall, sketched
from .rows import Rows
from .transport import Sum, start_sum


class RowPasses(Passes):
    """Passes over the local rows of a division; those with a Gram matrix send one message each."""

    def __init__(self, rows: Rows, facts: str, backend: str | None = None) -> None:
        super().__init__(kinds.kind_of(rows.local, "local"), backend)
        self.rows, self.facts, self.parts = rows, facts, list(rows.parts())

    def total(self, found: list[Array], step: str = "") -> Sum:
        """Begin the sum of the blocks' results over all ranks."""
        counts = self.rows.counts()
        if max(counts) <= 1:
            stack = found[0][None]
        else:
            stack = self.empty((max(counts), *found[0].shape))
            for i, one in enumerate(found):
                stack[i] = one
        return start_sum(self.rows.comm, stack, counts, f"{step}{self.facts}")

    def empty(self, shape: tuple[int, ...]) -> Array:
        """Allocate an array beside the local rows."""
        return self.kind.empty(shape, self.kind.view(self.rows.local, "local").dtype, self.rows.local)

    def each(self, run: Callable[..., Any], tall: dict[str, Array], columns: int) -> tuple[Array, list[Any]]:
        """`run` on the rows of each block of tall operands: the tall result, and what else came of each block.

        Of several blocks, each writes its rows of `out`.
        """
        if len(self.parts) == 1:
            found = run(**tall)
            return (found[0], [found[1]]) if isinstance(found, tuple) else (found, [])
        if tall.get("out") is None:
            tall = tall | {"out": self.empty((self.rows.local.shape[0], columns))}
        results = [run(**{name: None if one is None else one[at] for name, one in tall.items()}) for at in self.parts]
        return tall["out"], [one[1] for one in results if isinstance(one, tuple)]

    def gram(self, A: Array, B: Array = None) -> Array:
        """A^H B of local rows, summed over all ranks."""
        found = [gram(A[at], None if B is None else B[at], backend=self.backend) for at in self.parts]
        return self.total(found).wait()

    def sketch(self, V: Array) -> Array:
        """A sketch of all ranks' rows: the sum of sketches with signs of their own. None if there are few rows."""
        if not is_tall(self.rows.shape[0], V.shape[1]):
            return None
        first = self.rows.offsets[self.rows.comm.rank]
        found = [sketched(V[at], self.backend, first + at.start) for at in self.parts]
        return self.total(found, "sketch in ").wait()

    def matmul(self, V: Array, S: Array, out: Array = None) -> Array:
        """V S of local rows; sends nothing."""

        def run(V: Array, out: Array) -> Array:
            return matmul(V, S, out=out, backend=self.backend)

        return self.each(run, {"V": V, "out": out}, S.shape[1])[0]

    def multiplied(
        self, V: Array, S: Array, out: Array, base: Array = None, alpha: complex = 1.0, beta: complex = 0.0
    ) -> tuple[Array, Array]:
        """W = alpha V S + beta base of local rows, and W^H W summed over all ranks."""

        def run(V: Array, out: Array, base: Array) -> tuple[Array, Array]:
            return multiplied(V, S, out, base, alpha, beta, self.backend)

        W, found = self.each(run, {"V": V, "out": out, "base": base}, S.shape[1])
        return W, self.total(found, "product with its Gram matrix in ").wait()


def check_rows(given: dict[str, Any], names: tuple[str, ...]) -> Rows:
    """The first of these operands; all that are there are Rows of the same division over one communicator."""
    first = given[names[0]]
    for name in names:
        one = given.get(name, first)
        if not isinstance(one, Rows):
            raise TypeError(f"{name} is a {type(one).__name__} and other operands are Rows: pass Rows(local, comm)")
        if one.comm is not first.comm:
            raise ValueError(f"{names[0]} and {name} are distributed over different communicators: use one")
        if (one.offsets, one.blocks) != (first.offsets, first.blocks):
            raise ValueError(
                f"{names[0]} and {name} have different rows on their ranks: pass {name}.redistribute("
                f"{names[0]}.offsets, blocks={names[0]}.blocks)"
            )
    return first  # type: ignore[no-any-return]


def check_small(given: dict[str, Any], name: str) -> Array:
    """A small operand: a plain array, the same on every rank."""
    if isinstance(given.get(name), Rows):
        raise TypeError(f"{name} is distributed by rows: pass a plain array, the same on every rank")
    return given.get(name)


def facts(call: Call) -> str:
    """The name and options of a call, and the widths of its operands: equal on all ranks."""
    widths = " ".join(f"{name}[{one.shape[-1]}]" for name, one in call.given.items())
    return f"{call.name} {widths} {' '.join(f'{name}={value}' for name, value in call.options.items())}"


def start_gram(call: Call) -> Sum:
    """Begin A^H B; `.wait()` returns it, the same bits on every rank."""
    rows, out = check_rows(call.given, ("A", "B")), check_small(call.given, "out")
    alpha, beta = call.options["alpha"], call.options["beta"]
    if out is None and beta != 0.0:
        raise ValueError("beta scales the content of out: pass out")
    passes, plain = RowPasses(rows, facts(call)), call.options | {"alpha": 1.0, "beta": 0.0}
    tall = [(name, one.local) for name, one in call.given.items() if name != "out"]
    total = passes.total([call.run({name: local[at] for name, local in tall}, plain) for at in passes.parts])
    if out is None and alpha == 1.0:
        return total

    def scaled() -> Array:
        G = total.wait() * alpha
        if out is None:
            return G
        out[...] = G if beta == 0.0 else G + out * beta
        return out

    return Sum(scaled)


def multiply(call: Call) -> Rows:
    """A B for a small B: every rank multiplies its rows, and sends nothing."""
    rows, B = check_rows(call.given, ("A", "out")), check_small(call.given, "B")
    tall = {"A": rows.local, "out": call.given["out"].local if "out" in call.given else None}

    def run(A: Array, out: Array) -> Array:
        return call.run({"A": A, "B": B, "out": out}, call.options)

    local, _ = RowPasses(rows, "").each(run, tall, B.shape[-1])
    return call.given.get("out") or rows.like(local)


def multiply_with_gram(call: Call) -> tuple[Rows, Array]:
    """W = alpha V S + beta out, and W^H W: one message."""
    rows, S = check_rows(call.given, ("V", "out")), check_small(call.given, "S")
    tall = {"V": rows.local, "out": call.given["out"].local if "out" in call.given else None}

    def run(V: Array, out: Array) -> Any:
        return call.run({"V": V, "S": S} | ({} if out is None else {"out": out}), call.options)

    passes = RowPasses(rows, facts(call))
    local, found = passes.each(run, tall, S.shape[-1])
    return call.given.get("out") or rows.like(local), passes.total(found).wait()


def project(call: Call) -> tuple[Rows, Array]:
    """W' = W - V (V^H W), and W'^H W': two messages."""
    rows = check_rows(call.given, ("V", "W", "out"))
    local = {name: one.local for name, one in call.given.items()}
    _, views = checked(local)
    check_out(views, views["W"].shape, may_be="W", apart=("V",))
    passes = RowPasses(rows, facts(call), call.options["backend"])
    rest, _, G = passes.projected(local["V"], local["W"], local.get("out"))
    return call.given.get("out") or rows.like(rest), G
