// The operands of C = alpha A B + beta C as the kernels see them. C is row-major or has arbitrary strides; for a
// column-major C the generated instantiation exchanges A and B and forms the transposed product.
#pragma once
#include "kernels/batched/gemm/image.cuh"

namespace mansard {

template <class P, class Arguments>
struct Operands {
  decltype(place_of(Arguments::A, Layout::row, 0, 0, 0)) A;
  decltype(place_of(Arguments::B, Layout::row, 0, 0, 0)) B;
  decltype(place_of(Arguments::C, Layout::row, 0, 0, 0)) C;
  Scales scales;

  MANSARD_DEVICE Operands(const Arguments& x)
      : A(place_of(x.A, P::LAYOUT_A, x.a_matrix, x.a_row, x.a_col)),
        B(place_of(x.B, P::LAYOUT_B, x.b_matrix, x.b_row, x.b_col)),
        C(place_of(x.C, Layout::row, x.c_matrix, x.c_row, x.c_col)),
        scales{x.alpha_re, x.alpha_im, x.beta_re, x.beta_im} {}
};

}  // namespace mansard
