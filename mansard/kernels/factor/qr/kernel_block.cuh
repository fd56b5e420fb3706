// QR factorisations of a stack of matrices: a block of threads per matrix, which it holds in registers.
//
//   LANES_M x LANES_N  threads along the rows, lanes of one warp, and along the columns of a matrix
//   ROLL               slots of rows whose steps share code (factor.cuh)
//   STAGES             matrices under way per block
#pragma once
#include "kernels/factor/qr/unit.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void qr_block(const Arguments& arguments) {
  static_assert(Team<P>::WIDE && QrShape<P>::UNITS == 1);
  qr_turns<P>(arguments);
}

}  // namespace mansard
