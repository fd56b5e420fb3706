// A = Q R of a batch of tiny matrices: a team of LANES_M x LANES_N lanes of one warp factors one matrix in registers.
//
// Step k (Householder, LAPACK's conventions): (alpha, x) is column k from the diagonal on; beta = -sign(alpha) |(alpha,
// x)|; v = (1, scale x); H = I - tau v v^H. Columns j > k:  a_j -= v conj(tau) (v^H a_j). All dot products of a step,
// |x|^2 among them, come from one pass over the rows. WANT says which result is stored: R with vectors and tau (raw,
// panel: and T), R, Q and R (reduced, complete), or the least-squares solution (solve).
//
// Team. Lane (row, column) holds rows row + r * LANES_M of columns column + q * LANES_N (factor.cuh); right-hand sides
// are further columns. A warp has 32 / (LANES_M * LANES_N) matrices at a time. Sums along a column are shuffles.
//
// Shared memory of a warp (QrShape::BYTES, unit.cuh):
//   stages   STAGES * STAGE   image of A; then R and the vectors; then Q (reduced, complete). Used in turn
//   b        OF_B             right-hand sides; X replaces them (solve)
//   tau      OF_TAU           tau of all reflections
//   lines    0                (teams of several warps only: kernel_block.cuh)
//   T        OF_T             T and the products of vectors (panel)
//
// Phases of a turn, with barriers (__syncwarp) as barrier -> buffer -> writer:
//   1  copy A; STAGES - 1 copies of later groups stay in flight   -> stage -> asynchronous copies of other lanes
//   2  load registers                                             -> stage -> finished rows and columns of phase 3
//   3  K steps in registers; finished rows and columns go back    -> stage, tau -> other lanes
//      (matrices with squares out of range: again, by careful.cuh)
//   4  Q, T or X from the vectors; barriers in unit.cuh           -> stage, T, b -> other lanes
//   5  store                                                      -> stage, b -> copies of the next turn
//
// Limits: memory bandwidth to 16 rows of float64 (98 to 99 % of a copy, H200). Beyond, registers: complex128 of 32 rows
// takes 244, two warps per scheduler, 38 to 40 %.
//
//   LANES_M x LANES_N  lanes of a team, along the rows and the columns of a matrix
//   ROLL               slots of rows whose steps share code (factor.cuh); 0: all steps are unrolled
//   STAGES             groups in flight per warp; 1: warps come and go, and other warps hide the copies
//   WARPS              warps per block; they do not communicate
#pragma once
#include "kernels/factor/qr/unit.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void qr_lanes(const Arguments& arguments) {
  static_assert(!Team<P>::WIDE && QrShape<P>::UNITS == P::WARPS);
  qr_turns<P>(arguments);
}

}  // namespace mansard
