// The operands of A X = alpha B; kernels see A on the left, whichever side the call had it on.
#pragma once
#include "kernels/batched/gemm/image.cuh"

namespace mansard {

using LayoutX = Layout;
using FeedX = Feed;

template <class P, class Arguments>
struct System {
  using T = typename P::T;
  decltype(place_of(Arguments::A, Layout::row, 0, 0, 0)) A;
  decltype(place_of(Arguments::B, Layout::row, 0, 0, 0)) B;
  decltype(place_of(Arguments::X, Layout::row, 0, 0, 0)) X;
  Scales scales;
  bool vanishes;  // alpha is zero: X is zero, and neither A nor B is read

  MANSARD_DEVICE System(const Arguments& x)
      : A(place_of(x.A, P::LAYOUT_A, x.a_matrix, x.a_row, x.a_col)),
        B(place_of(x.B, P::LAYOUT_B, x.b_matrix, x.b_row, x.b_col)),
        X(place_of(x.X, P::LAYOUT_X, x.x_matrix, x.x_row, x.x_col)),
        scales{x.alpha_re, x.alpha_im, 0.0, 0.0}, vanishes(x.alpha_re == 0.0 && x.alpha_im == 0.0) {}

  MANSARD_DEVICE T right_hand_side(const T* entry) const { return vanishes ? zero<T>() : scales.product(*entry); }
};

// Offset of entry (row, column) in an image of this layout.
template <Layout LAYOUT, int PITCH>
MANSARD_DEVICE int entry_at(int row, int column) {
  return LAYOUT == Layout::col ? column * PITCH + row : row * PITCH + column;
}

}  // namespace mansard
