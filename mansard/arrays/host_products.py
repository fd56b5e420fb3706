"""Products of NumPy's arrays as its BLAS is asked for them: any strides, transposed, conjugated, alone or in a stack.

BLAS reads matrices whose rows or columns are adjacent, and vectors of any positive increment. What lies otherwise is
gathered first, which costs a pass over it; products whose operands would be large copies are left to NumPy.
"""

from __future__ import annotations

from typing import NamedTuple

from ..backends import cblas
from ..backends.base import Launch
from ..backends.cblas import ADJOINT, COLUMN, LOWER, PLAIN, ROW, TRANSPOSE, UPPER, Request, Side
from .gemm import LETTER, Gemm

_MOST_GATHERED = 1 << 20  # numbers of a matrix that are copied for one product
_OUTER = 1 << 12  # entries of outer products above which NumPy's product of entries is faster than a depth of one

Strides = tuple[int, int]


class Matrix(NamedTuple):
    """One operand of products: the matrices as they are multiplied."""

    operand: int  # 0: A, 1: B, 2: the result
    rows: int
    columns: int
    row: int  # stride
    column: int
    step: int = 0  # between the matrices of a stack
    conjugated: bool = False

    @staticmethod
    def of(
        operand: int, shape: tuple[int, ...], strides: tuple[int, ...], step: int = 0, conjugated: bool = False
    ) -> Matrix:  # fmt: skip
        """Matrices of this shape and these strides."""
        return Matrix(operand, shape[0], shape[1], strides[0], strides[1], step, conjugated)

    @property
    def turned(self) -> Matrix:
        """The transposed matrices."""
        return self._replace(rows=self.columns, columns=self.rows, row=self.column, column=self.row)

    def pitch(self, order: int) -> int:
        """The distance between rows (or columns) where those are adjacent as BLAS needs them; 0 where they are not."""
        if order == COLUMN:
            return self.turned.pitch(ROW)
        if self.columns > 1 and self.column != 1:
            return 0
        if self.rows == 1:
            return self.columns
        return self.row if self.row >= self.columns else 0

    def side(self, order: int) -> Side:
        """The operand as it is read in this order, gathered where it has no pitch there."""
        pitch = self.pitch(order)
        m = self if order == ROW else self.turned
        gathered = not pitch or self.conjugated
        return Side(
            self.operand, m.columns if gathered else pitch, self.step, gathered, m.rows, m.columns, m.row, m.column,
            self.conjugated,
        )  # fmt: skip


def launch(gemm: Gemm) -> Launch | None:
    """The products as a launch of BLAS; None where NumPy multiplies: there is no BLAS, nothing to multiply, or the
    matrices need several launches."""
    if gemm.dtype not in LETTER or len(gemm.starts) != 1 or any(gemm.starts[0]) or gemm.batch < 1:
        return None
    (m, k), (_, n) = gemm.shapes[:2]
    if 0 in (m, k, n) or (k == 1 and m * n * gemm.batch > _OUTER):
        return None
    conjugated = (*(one and gemm.dtype.startswith("complex") for one in gemm.conjugated), False)
    a, b, c = (
        Matrix.of(side, gemm.shapes[side], gemm.strides[side], gemm.steps[side], conjugated[side]) for side in range(3)
    )
    asked = _vector(a, b, c) if n == 1 else _vector(b.turned, a.turned, c.turned) if m == 1 else _matrices(a, b, c)
    routine, options, sides, sizes = asked
    if _gathers_much(sides):
        return None
    work = float(m * n * k * gemm.batch)
    return cblas.launch(Request(routine, LETTER[gemm.dtype], options, sizes, sides, gemm.batch, work=work))


Asked = tuple[cblas.Routine, tuple[int, int, int], tuple[Side, Side, Side], tuple[int, int, int]]


def _gathers_much(sides: tuple[Side, ...]) -> bool:
    return any(side.gathered and side.rows * side.columns > _MOST_GATHERED for side in sides)


def _matrices(a: Matrix, b: Matrix, c: Matrix) -> Asked:
    """gemm, in the order of the result."""
    order = _order_of(c)
    (option_a, left), (option_b, right) = (_factor(one, order) for one in (a, b))
    return "gemm", (order, option_a, option_b), (left, right, c.side(order)), (c.rows, c.columns, a.columns)


def _order_of(one: Matrix) -> int:
    """The order in which BLAS is told of a matrix: by columns only where rows are not adjacent, and columns are."""
    return COLUMN if not one.pitch(ROW) and one.pitch(COLUMN) else ROW


def _gathered_by(one: Matrix) -> int:
    """The order in which a matrix is gathered: of neighbours in memory."""
    return COLUMN if abs(one.row) < abs(one.column) else ROW


def _opposite(order: int) -> int:
    return ROW if order == COLUMN else COLUMN


def _factor(one: Matrix, order: int) -> tuple[int, Side]:
    """What BLAS does to an operand, and how it is read: transposed where it lies, or is gathered faster, in the other
    order. What is conjugated and lies in this one is gathered, since BLAS has no conjugate without a transpose."""
    as_it_lies = bool(one.pitch(order)) and not one.conjugated
    if as_it_lies or not (one.pitch(_opposite(order)) or _gathered_by(one) == _opposite(order)):
        return PLAIN, one.side(order)
    return ADJOINT if one.conjugated else TRANSPOSE, one._replace(conjugated=False).side(_opposite(order))


def _vector(a: Matrix, x: Matrix, y: Matrix) -> Asked:
    """gemv: x and y have one column. A conjugated matrix is read as the adjoint of its transpose."""
    order = _order_of(a) if a.pitch(ROW) or a.pitch(COLUMN) else _gathered_by(a)
    places = _increment(x), _increment(y)
    if a.conjugated:
        side = a._replace(conjugated=False).side(order)
        return "gemv", (_opposite(order), ADJOINT, 0), (side, *places), (a.columns, a.rows, 0)
    return "gemv", (order, PLAIN, 0), (a.side(order), *places), (a.rows, a.columns, 0)


def _increment(x: Matrix) -> Side:
    """A column as a vector with an increment."""
    row = 1 if x.rows == 1 else x.row
    gathered = row < 1 or x.conjugated
    return Side(x.operand, 1 if gathered else row, x.step, gathered, 1, x.rows, 0, row, x.conjugated)


class RankK(NamedTuple):
    """`batch` updates C = F F' or conj(F F') of factors F (n x k); ' is the transpose or (`hermitian`) the adjoint."""

    dtype: str
    factor: Matrix
    place: Matrix
    batch: int
    lower: bool  # the triangle that is written
    hermitian: bool
    conjugated: bool  # conj(F F'): F is the transpose of what is stored, and of that the adjoint was meant
    mirrored: bool  # the other triangle is filled


def rank_k_launch(update: RankK) -> Launch | None:
    """The updates as a launch of BLAS, which computes one triangle; None where there is no BLAS."""
    a, c = update.factor, update.place
    if update.dtype not in LETTER or 0 in (a.rows, a.columns) or update.batch < 1:
        return None
    hermitian = update.hermitian and update.dtype.startswith("complex")
    order = _order_of(c)
    opposite = _opposite(order)
    is_turned = not a.pitch(order) and (bool(a.pitch(opposite)) or _gathered_by(a) == opposite)  # BLAS transposes
    option = PLAIN if not is_turned else ADJOINT if hermitian else TRANSPOSE
    factor, place = a.side(opposite if is_turned else order), c.side(order)
    if _gathers_much((factor, place)):
        return None
    # Places of numbers as the matrix has them: finishing asks for rows and columns, not for BLAS's order.
    place = place._replace(rows=c.rows, columns=c.columns, row=c.row, column=c.column)
    request = Request(
        "herk" if hermitian else "syrk", LETTER[update.dtype],
        (order, LOWER if update.lower else UPPER, option), (0, a.rows, a.columns), (factor, factor, place),
        update.batch, 1 if update.lower else 2, update.mirrored,
        hermitian and is_turned != update.conjugated, a.rows * (a.rows + 1) / 2 * a.columns * update.batch,
    )  # fmt: skip
    return cblas.launch(request)
