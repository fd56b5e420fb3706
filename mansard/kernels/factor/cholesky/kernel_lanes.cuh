// Cholesky factors, or solutions, of a stack of tiny matrices: LANES lanes of a warp per matrix, rows dealt among them.
// With LANES = 1 a thread has a triangle in its registers.
#pragma once
#include "kernels/factor/cholesky/group.cuh"
#include "kernels/factor/cholesky/rows.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void cholesky_lanes(const Arguments& arguments) {
  factor_group<P, Rows<typename P::T, P::N, P::LANES, P::NRHS>>(arguments);
}

}  // namespace mansard
