// The streams of BabelStream (Panzlaff, table 4.1 and figure 4.1): C = A (copy), C = A / 2 (mul), C = A + B (add),
// C = A + B / 2 (triad), and the sum of A_i B_i (dot).
//
// Team: a thread per element, as in BabelStream; of dot the threads of the grid take the elements in turn, and C has a sum
// per block. Shared memory: BLOCK numbers of dot, halved step by step. Barriers (__syncthreads -> buffer -> writer):
// sums -> all threads, before every halving.
//   STREAM  0: copy, 1: mul, 2: add, 3: triad
// Limit: the memory bandwidth, 16 or 24 bytes an element; beyond some thousand threads nothing else.
#pragma once
#include "mansard/gpu/platform.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void stream(const Arguments& given) {
  using T = typename P::T;
  const i64 i = static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x;
  if (i >= given.N) return;
  const T scale = P::STREAM % 2 ? T(0.5) : T(1);  // of the last operand
  given.C[i] = P::STREAM < 2 ? scale * given.A[i] : given.A[i] + scale * given.B[i];
}

template <class P, class Arguments>
MANSARD_DEVICE void dot(const Arguments& given) {
  using T = typename P::T;
  MANSARD_SHARED_ARENA(T, sums);
  T sum = T(0);
  for (i64 i = static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x; i < given.N;
       i += static_cast<i64>(gridDim.x) * P::BLOCK)
    sum += given.A[i] * given.B[i];
  sums[threadIdx.x] = sum;
  for (int half = P::BLOCK / 2; half > 0; half /= 2) {
    __syncthreads();  // sums: written by all, or halved once more
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) given.C[blockIdx.x] = sums[0];
}

}  // namespace mansard
