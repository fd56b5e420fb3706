"""Size classes of ragged batches on GPUs: which matrices share a kernel, and whether they are padded for it.

A class is a range of rows, of columns and of right-hand sides. Its matrices are copied into a stack of its largest
size, each followed by the unit matrix, and one kernel for that size does them all. Copies are not worth it where the
class has one shape, or few shapes with many matrices each: then every shape has its own kernel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays.types import Array

_SMALLEST, _STEP, _WIDE, _WIDE_STEP = 4, 8, 64, 32  # bounds are 4, multiples of 8 up to 64, then of 32
# A launch and the wait for its last blocks take about 5 us, in which a GPU copies 8 MiB in and out of a stack. Few
# shapes: every further one is a kernel to compile.
_FEW_SHAPES, _MUCH = 4, 8 << 20


class SizeClass(NamedTuple):
    """Matrices that one kernel does: the size of their stack, their places in the batch, and why they are together."""

    bounds: tuple[int, int, int]  # rows, columns, right-hand sides
    members: Array
    is_padded: bool
    reason: str


def bounds_of(sizes: Array) -> Array:
    """The largest size of the class of each size."""
    step = np.where(sizes > _WIDE, _WIDE_STEP, _STEP)
    return np.where(sizes <= _SMALLEST, _SMALLEST, -(-sizes // step) * step)


def divide(sizes: Array, itemsize: int) -> list[SizeClass]:
    """Classes of matrices with these rows, columns and right-hand sides (one line each), the largest first."""
    right = np.where(sizes[:, 2] <= 1, sizes[:, 2], bounds_of(sizes[:, 2]))  # vectors are a class of their own
    bounds = np.stack([bounds_of(sizes[:, 0]), bounds_of(sizes[:, 1]), right], 1)
    classes: list[SizeClass] = []
    for bound, members in _groups(bounds):
        shapes = _groups(sizes[members])
        each = len(members) // len(shapes) * int(np.prod(bound[:2])) * itemsize
        if len(shapes) == 1:
            classes.append(SizeClass(shapes[0][0], members, False, "all matrices of the class have one shape"))
        elif len(shapes) <= _FEW_SHAPES and each >= _MUCH:
            reason = f"{len(shapes)} shapes with {each >> 20} MiB each: copies would take longer than launches"
            classes += [SizeClass(shape, members[some], False, reason) for shape, some in shapes]
        else:
            classes.append(SizeClass(bound, members, True, f"{len(shapes)} shapes share a kernel"))
    return classes


def shapes_apart(sizes: Array) -> list[SizeClass]:
    """A class for each shape, where kernels do not bear padding."""
    reason = "these matrices bear no padding"
    return [SizeClass(shape, members, False, reason) for shape, members in _groups(sizes)]


def _groups(lines: Array) -> list[tuple[tuple[int, int, int], Array]]:
    """Distinct lines, the largest first, and the indices of their copies in ascending order."""
    distinct, which = np.unique(lines, axis=0, return_inverse=True)
    which = which.reshape(-1)
    members = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    sizes = [(int(a), int(b), int(c)) for a, b, c in distinct]
    return list(zip(sizes, members, strict=True))[::-1]
