// Cholesky factors, or solutions, of a stack of small matrices: LANES_M x LANES_N lanes of a warp per matrix, rows and
// runs of RUN adjacent columns dealt among them.
#pragma once
#include "kernels/factor/cholesky/group.cuh"
#include "kernels/factor/cholesky/tile.cuh"
#include "kernels/factor/cholesky/wedge.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void cholesky_tile(const Arguments& arguments) {
  using Worker = Tile<typename P::T, P::N, P::LANES_M, P::LANES_N, P::RUN, P::NRHS, P::RAGGED>;
  if constexpr (P::RAGGED) factor_ragged<P, Worker>(arguments);
  else if constexpr (P::DIRECT) factor_direct<P, Worker>(arguments);
  else if constexpr (P::PIECE > 0) factor_wedges<P, Worker>(arguments);
  else factor_group<P, Worker>(arguments);
}

}  // namespace mansard
