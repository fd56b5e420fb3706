"""Shared memory of the gradients kernels: how their operands lie there, so that reads do not collide."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from ....plan.problem import Problem
from ...common import images, operands
from ...common.configs import up
from ...common.images import Image
from ..lu import shapes as lu_shapes
from ..lu import space as lu_space
from ..lu import spec as lu_spec
from . import spec

_TURNED = {"line": "run", "run": "line"}


@dataclass(frozen=True)
class Shape:
    """Images of a warp's matrices, and shared memory; the kernels assert that they agree."""

    images: tuple[tuple[str, Image], ...]
    group: int  # matrices per warp
    shared_bytes: int


@lru_cache(maxsize=8192)
def view(problem: Problem, name: str) -> Problem:
    """The operand by itself, as the C of a problem."""
    size = spec.shape(problem, name)
    return operands.alone(problem, operands.as_column(operands.of(problem, name), size), size)


def layout(problem: Problem, name: str) -> str:
    """Which way lines run."""
    return str(view(problem, name).layout_c)


def image(problem: Problem, name: str, group: int) -> Image:
    """An operand of so many matrices, without padding."""
    return images.of_operand(view(problem, name), "c", group)


def result(problem: Problem, group: int) -> Image:
    """F, without gaps in global memory, and without padding."""
    size = int(problem.N)
    packed = operands.alone(problem, operands.Operand("row", size, "packed"), (size, size))
    return images.of_operand(packed, "c", group)


def products_shape(problem: Problem, c: Any) -> Shape:
    """A is the right operand of one product and the left one of the other, T the right one of this."""
    lanes = (c.LANES_M, c.LANES_N)
    group = 32 // (c.LANES_M * c.LANES_N)
    by_columns = layout(problem, "a") == "col"
    right = "run" if by_columns else "line"  # what separates columns of A^H, which are rows of A
    left = _TURNED[right] if problem.want == "inverse" else right  # and rows of A^H, or of A
    plain = image(problem, "a", group)
    a = min(
        images.padded(plain),
        key=lambda one: (
            images.collisions(one, lanes, ("", right)) + images.collisions(one, lanes, (left, "")), one.bytes,
        ),
    )  # fmt: skip
    step = "run" if layout(problem, "g") == "col" else "line"
    g = images.spread(image(problem, "g", group), lanes, (step, ""))
    f = images.spread(result(problem, group), lanes, ("", "run"))
    bytes_of_warp = a.bytes + g.bytes + f.bytes
    return Shape((("a", a), ("g", g), ("f", f)), group, up(c.WARPS * bytes_of_warp, 128) * 128)


def tensor_shape(problem: Problem, c: Any) -> Shape:
    """Lines of A and G an odd multiple of four numbers apart, where their feed admits it."""
    a, g = (_spread_by_fours(image(problem, name, c.GROUP)) for name in "ag")
    return Shape((("a", a), ("g", g)), c.GROUP, up(c.WARPS * (a.bytes + g.bytes), 128) * 128)


def _spread_by_fours(image: Image) -> Image:
    if image.feed not in ("lines", "elements") and (image.shifted or image.length % image.vector):
        return image
    pitch = next(pitch for pitch in range(image.length, image.length + 16) if pitch % 8 == 4)
    return replace(image, pitch=pitch, matrix=up(image.lines * pitch, image.vector) * image.vector)


def columns_shape(problem: Problem, c: Any) -> Shape:
    """L, of which teams read rows, and G, of which lanes read columns; W has the place of G."""
    group, lanes = 32 // c.TEAM, (1, c.TEAM)
    along = "line" if layout(problem, "a") == "col" else "run"
    a = images.spread(image(problem, "a", group), lanes, ("", "")) if along == "run" else image(problem, "a", group)
    g = images.spread(image(problem, "g", group), lanes, ("", "line" if layout(problem, "g") == "col" else "run"))
    w = up(group * problem.N * (problem.N | 1) * problem.itemsize, 16) * 16
    real = problem.itemsize // 2 if problem.is_complex else problem.itemsize
    bytes_of_warp = a.bytes + max(g.bytes, w) + up(group * problem.N * real, 16) * 16
    return Shape((("a", a), ("g", g)), group, up(c.WARPS * bytes_of_warp, 128) * 128)


def solution_shape(problem: Problem, c: Any) -> Shape:
    """Regions of lu's kernel, then Y."""
    lu = lu_shapes.lanes_shape(of_lu(problem), lu_config(c))
    y = image(problem, "y", lu.group)
    held = tuple((name, getattr(lu, name)) for name in lu_spec.SHAPES)
    return Shape((*held, ("y", y)), lu.group, up(lu.shared_bytes + c.WARPS * y.bytes, 128) * 128)


@lru_cache(maxsize=8192)
def of_lu(problem: Problem) -> Problem:
    """The system that lu's kernel solves: its B is G, its X is W."""
    return lu_spec.problem(
        problem.dtype, problem.N, problem.N, problem.BATCH, NRHS=problem.NRHS, want="solve", pivot=problem.pivot,
        aligned=problem.aligned, a=operands.of(problem, "a"), b=operands.of(problem, "g"),
        x=operands.Operand("row", problem.NRHS, "packed"),
    )  # fmt: skip


def lu_config(c: Any) -> lu_space.Lanes:
    """The configuration of lu's kernel."""
    return lu_space.Lanes(**asdict(c))


_SHAPES = {"products": products_shape, "tensor": tensor_shape, "columns": columns_shape, "solution": solution_shape}


@lru_cache(maxsize=8192)
def shape(problem: Problem, c: Any) -> Shape:
    """That of the configuration's variant."""
    return _SHAPES[c.VARIANT](problem, c)
