// QR factorisations of a stack of tiny matrices: a few lanes of a warp per matrix, several matrices per warp.
//
//   LANES_M x LANES_N  lanes of a team, along the rows and the columns of a matrix
//   ROLL               slots of rows whose steps share code (factor.cuh); 0: none do
//   STAGES             groups under way per warp: 1 leaves overlap to the other warps, and warps come and go
//   WARPS              warps per block, which do not meet
#pragma once
#include "kernels/factor/qr/unit.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void qr_lanes(const Arguments& arguments) {
  static_assert(!Team<P>::WIDE && QrShape<P>::UNITS == P::WARPS);
  qr_turns<P>(arguments);
}

}  // namespace mansard
