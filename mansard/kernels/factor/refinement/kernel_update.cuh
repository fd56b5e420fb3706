// Corrections added to solutions: x += d 2^(e - e_A), where D = S^-1 fl(r / 2^e), S = A / 2^e_A; and R = B, from which
// A X is subtracted next.
//
// Team. A thread per entry of the batch. X of matrices that are not RUNNING stays as it is; R is written for all.
// The power of two is applied in two halves: each is a normal number.
// No shared memory, no exchanges. Limits: memory.
//
//   WARPS  of a block
#pragma once
#include "kernels/factor/refinement/numbers.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void refinement_update(const Arguments& a) {
  const i64 of_matrix = a.N * a.NRHS, entries = a.BATCH * of_matrix, threads = i64(gridDim.x) * (32 * P::WARPS);
  for (i64 e = i64(blockIdx.x) * (32 * P::WARPS) + threadIdx.x; e < entries; e += threads) {
    const i64 matrix = e / of_matrix, column = e % a.NRHS;
    a.R[e] = a.B[e];
    if (a.STATE[matrix] != RUNNING) continue;
    const double* const sizes = a.SIZES + sizes_of(matrix, a.NRHS);
    const int power = exponent_of(sizes[1 + a.NRHS + column]) - exponent_of(sizes[0]), half = power / 2;
    const auto scaled = by_real(by_real(widened(a.LOW[e]), power_of_two(half)), power_of_two(power - half));
    a.X[e] = difference(a.X[e], negated(scaled));
  }
}

}  // namespace mansard
