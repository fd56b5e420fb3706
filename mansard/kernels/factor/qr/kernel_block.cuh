// A = Q R of a batch of matrices: one thread block per matrix, which it holds in registers.
//
// Step k:  reflection H = I - tau v v^H from column k, then a_j -= v conj(tau) (v^H a_j) for j > k, as in
// kernel_lanes.cuh.
//
// Team. LANES_M x LANES_N threads; thread (row, column) holds rows row + r * LANES_M of columns column + q * LANES_N.
// The LANES_M threads of a column are lanes of one warp, so that sums along a column are shuffles.
//
// Shared memory (QrShape::BYTES, unit.cuh):
//   stages   STAGES * STAGE   image of A; then R and the vectors; then Q (reduced, complete). Used in turn
//   b        OF_B             right-hand sides; X replaces them (solve)
//   tau      OF_TAU           tau of all reflections
//   lines    OF_LINES         column k and its sum of squares in line k % 2, written by the warp that holds column k
//   T        OF_T             T and the products of vectors (panel)
//
// Phases and barriers as in kernel_lanes.cuh, with __syncthreads instead of __syncwarp, and one more per step:
//   __syncthreads -> line k % 2 -> the warp that holds column k
//
// Limits: one barrier and one chain of reductions per step; 23 and 17 % of a copy at 64 and 96 rows of float64 (H200),
// where kernel_tensor.cuh has 27 and 20 %.
//
//   LANES_M x LANES_N  threads along the rows, lanes of one warp, and along the columns of a matrix
//   ROLL               slots of rows whose steps share code (factor.cuh)
//   STAGES             matrices in flight per block
#pragma once
#include "kernels/factor/qr/unit.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void qr_block(const Arguments& arguments) {
  static_assert(Team<P>::WIDE && QrShape<P>::UNITS == 1);
  qr_turns<P>(arguments);
}

}  // namespace mansard
