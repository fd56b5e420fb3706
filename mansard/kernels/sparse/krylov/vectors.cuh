// Passes over vectors of real numbers, 16 bytes at a time, and sums over a grid in an order that never changes.
#pragma once
#include "mansard/gpu/reduce.cuh"

namespace mansard {

// 16 bytes of a vector, one load or store.
template <class T>
struct alignas(16) Pack {
  static constexpr int SIZE = 16 / static_cast<int>(sizeof(T));
  T at[SIZE];
};

// Addresses of the READS vectors of a pass, and of the WRITES vectors that it changes; the latter may be among the former.
template <class T, int READS, int WRITES>
struct Operands {
  const T* in[READS];
  T* out[WRITES > 0 ? WRITES : 1];
};

// COUNT packs, `step` packs apart: all are loaded before the first is computed with.
// compute(words of `in`, words for `out`)
template <int COUNT, class T, int READS, int WRITES, class Compute>
MANSARD_DEVICE void do_packs(const Operands<T, READS, WRITES>& of, i64 first, i64 step, Compute compute) {
  Pack<T> values[COUNT][READS], results[COUNT][WRITES > 0 ? WRITES : 1];
  MANSARD_UNROLL
  for (int d = 0; d < COUNT; ++d)
    MANSARD_UNROLL
    for (int r = 0; r < READS; ++r) values[d][r] = reinterpret_cast<const Pack<T>*>(of.in[r])[first + d * step];
  MANSARD_UNROLL
  for (int d = 0; d < COUNT; ++d) {
    MANSARD_UNROLL
    for (int word = 0; word < Pack<T>::SIZE; ++word) {
      T given[READS], made[WRITES > 0 ? WRITES : 1];
      MANSARD_UNROLL
      for (int r = 0; r < READS; ++r) given[r] = values[d][r].at[word];
      compute(given, made);
      MANSARD_UNROLL
      for (int w = 0; w < WRITES; ++w) results[d][w].at[word] = made[w];
    }
    MANSARD_UNROLL
    for (int w = 0; w < WRITES; ++w) reinterpret_cast<Pack<T>*>(of.out[w])[first + d * step] = results[d][w];
  }
}

// The whole pass. Threads take packs a grid apart; words behind the last whole pack belong to the thread that would
// have the next pack.
template <class P, class T, int READS, int WRITES, class Compute>
MANSARD_DEVICE void for_words(i64 words, const Operands<T, READS, WRITES>& of, Compute compute) {
  const i64 packs = words / Pack<T>::SIZE, step = static_cast<i64>(gridDim.x) * P::BLOCK;
  i64 i = static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x;
MANSARD_UNROLL_BY(1)
  for (; i + (P::DEPTH - 1) * step < packs; i += P::DEPTH * step) do_packs<P::DEPTH>(of, i, step, compute);
MANSARD_UNROLL_BY(1)
  for (; i < packs; i += step) do_packs<1>(of, i, step, compute);
  if (i == packs)
    for (i64 word = packs * Pack<T>::SIZE; word < words; ++word) {
      T given[READS], made[WRITES > 0 ? WRITES : 1];
      for (int r = 0; r < READS; ++r) given[r] = of.in[r][word];
      compute(given, made);
      for (int w = 0; w < WRITES; ++w) of.out[w][word] = made[w];
    }
}

MANSARD_DEVICE double root(double x) { return sqrt(x); }

// Sums over the block in thread 0: over lanes by a tree, then over warps by a tree. `scratch` has SUMS doubles per warp.
template <int THREADS, int SUMS>
MANSARD_DEVICE void block_sums(double (&sums)[SUMS], double* scratch) {
  constexpr int WARPS = THREADS / 32;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  MANSARD_UNROLL
  for (int s = 0; s < SUMS; ++s)
    MANSARD_UNROLL
    for (int step = 16; step > 0; step /= 2) sums[s] += __shfl_xor_sync(~0u, sums[s], step);
  if (lane == 0)
    for (int s = 0; s < SUMS; ++s) scratch[s * WARPS + warp] = sums[s];
  __syncthreads();  // scratch has the sums of all warps
  if (warp == 0)
    MANSARD_UNROLL
    for (int s = 0; s < SUMS; ++s) {
      sums[s] = lane < WARPS ? scratch[s * WARPS + lane] : 0.0;
      MANSARD_UNROLL
      for (int step = 16; step > 0; step /= 2) sums[s] += __shfl_xor_sync(~0u, sums[s], step);
    }
  __syncthreads();  // scratch may be overwritten; warp 0 has read it
}

// Sums over the grid: blocks publish theirs, the last one to arrive adds them, every thread its share in block order and
// then the threads by trees. True in thread 0 of that block, which has the sums.
template <class P, int SUMS>
MANSARD_DEVICE bool grid_sums(double (&sums)[SUMS], void* partials, u32* counters) {
  __shared__ double scratch[SUMS * P::BLOCK / 32];
  __shared__ u32 flag;
  const int blocks = static_cast<int>(gridDim.x);
  block_sums<P::BLOCK>(sums, scratch);
  if (blocks == 1) return threadIdx.x == 0;
  double* const all = static_cast<double*>(partials);
  if (threadIdx.x == 0)
    for (int s = 0; s < SUMS; ++s) store_l2(all + blockIdx.x * SUMS + s, sums[s]);
  if (!last_block_to_arrive(counters, blocks, &flag)) return false;
  for (int s = 0; s < SUMS; ++s) sums[s] = 0.0;
  for (int block = threadIdx.x; block < blocks; block += P::BLOCK)
    for (int s = 0; s < SUMS; ++s) sums[s] += load_l2(all + block * SUMS + s);
  block_sums<P::BLOCK>(sums, scratch);
  return threadIdx.x == 0;
}

}  // namespace mansard
