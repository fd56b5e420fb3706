// Operands of the lu kernels: A, the factors (or inverse) F, right-hand sides B and solutions X.
#pragma once
#include "kernels/factor/lu/pivots.cuh"

namespace mansard {

template <class P, class Arguments>
struct Operands {
  decltype(place_of(Arguments::A, Layout::row, 0, 0, 0)) A;
  decltype(place_of(Arguments::F, Layout::row, 0, 0, 0)) F;
  decltype(place_of(Arguments::B, Layout::row, 0, 0, 0)) B;
  decltype(place_of(Arguments::X, Layout::row, 0, 0, 0)) X;

  MANSARD_DEVICE Operands(const Arguments& x)
      : A(place_of(x.A, P::LAYOUT_A, x.a_matrix, x.a_row, x.a_col)),
        F(place_of(x.F, P::LAYOUT_F, x.f_matrix, x.f_row, x.f_col)),
        B(place_of(x.B, P::LAYOUT_B, x.b_matrix, x.b_row, x.b_col)),
        X(place_of(x.X, P::LAYOUT_X, x.x_matrix, x.x_row, x.x_col)) {}
};

// Offset of entry (row, column) in an image of this layout.
template <Layout LAYOUT, int PITCH>
MANSARD_DEVICE int entry_at(int row, int column) {
  return LAYOUT == Layout::col ? column * PITCH + row : row * PITCH + column;
}

// Image of GROUP matrices of ROWS x COLUMNS: its lines are rows, or columns for LAYOUT col.
template <class T, Layout LAYOUT, int ROWS, int COLUMNS, int GROUP, Feed FEED, bool ALIGNED, int PITCH, int MATRIX>
using ImageOf = Image<T, LAYOUT == Layout::col ? COLUMNS : ROWS, LAYOUT == Layout::col ? ROWS : COLUMNS, GROUP, FEED,
                      ALIGNED, PITCH, MATRIX>;

}  // namespace mansard
