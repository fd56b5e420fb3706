// Counting sort of the products of a ragged batch by size class, on the device: two launches, nothing to clear first,
// the same order every time.
//
// Each block has a contiguous part of the batch. The first launch counts the part's products of every class. The second
// (PLACE) sums the counts of earlier blocks and classes and writes the records to their places. Sizes that do not fit
// are detected here.
//
// Shared memory: tallies[WARPS][CLASSES]; with PLACE also next[CLASSES] (place of this block's next product per class)
// and total[CLASSES]. Every __syncthreads names its buffer below.
//
//   THREADS  threads per block
//   PLACE    the second launch
//   FROM     bound of a class (items.cuh)
//   TRANS_A, TRANS_B  the arrays hold the transposed matrices
#pragma once
#include "kernels/batched/ragged_gemm/items.cuh"

namespace mansard {

// The record of product i from the tables of sizes.
template <class P, class Arguments>
MANSARD_DEVICE Item item_of(const Arguments& x, i64 i) {
  const i64 a = i * x.a_step, b = i * x.b_step;
  const i64 m = P::TRANS_A ? x.a_columns[a] : x.a_rows[a], k = P::TRANS_A ? x.a_rows[a] : x.a_columns[a];
  const i64 deep = P::TRANS_B ? x.b_columns[b] : x.b_rows[b], n = P::TRANS_B ? x.b_rows[b] : x.b_columns[b];
  const i64 rows = x.c_rows[i], columns = x.c_columns[i];
  const bool fits = k == deep && rows == m && columns == n && k >= 0;
  return {x.a_offsets[a], x.b_offsets[b], x.c_offsets[i], static_cast<int>(rows), static_cast<int>(columns),
          fits ? static_cast<int>(k) : -1, 0};
}

template <class P, class Arguments>
struct Sorting {
  static constexpr int WARPS = P::THREADS / 32;
  const Arguments& x;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 part = ceil_div(x.BATCH, gridDim.x);
  const i64 begin = min(part * blockIdx.x, x.BATCH), end = min(begin + part, x.BATCH);

  // Calls visit(item, its class, mask of lanes with the same class, number of products of class `lane` in this warp).
  template <class Visit>
  MANSARD_DEVICE void for_each(Visit visit) const {
    for (i64 first = begin; first < end; first += P::THREADS) {
      const i64 i = first + threadIdx.x;
      Item item = {};
      if (i < end) item = item_of<P>(x, i);
      const int own = class_of<P::FROM>(item.m, item.n, item.k);
      u32 alike = 0;
      int tally = 0;
      MANSARD_UNROLL
      for (int c = 0; c < CLASSES; ++c) {
        const u32 votes = __ballot_sync(~0u, own == c);
        if (own == c) alike = votes;
        if (lane == c) tally = __popc(votes);
      }
      visit(item, own, alike, tally);
    }
  }

  MANSARD_DEVICE void count(i64* counts) const {
    __shared__ int tallies[WARPS][CLASSES];
    int sum = 0;
    for_each([&](const Item&, int, u32, int tally) { sum += tally; });
    if (lane < CLASSES) tallies[warp][lane] = sum;
    __syncthreads();  // tallies are complete, written by all warps
    if (threadIdx.x < CLASSES) {
      i64 all = 0;
      for (int w = 0; w < WARPS; ++w) all += tallies[w][threadIdx.x];
      counts[blockIdx.x * CLASSES + threadIdx.x] = all;
    }
  }

  MANSARD_DEVICE void place(const i64* counts, i64* starts, Item* items) const {
    __shared__ int tallies[WARPS][CLASSES];
    __shared__ i64 next[CLASSES], total[CLASSES];  // per class
    if (threadIdx.x < CLASSES) {
      i64 before = 0, all = 0;
      for (u32 block = 0; block < gridDim.x; ++block) {
        if (block == blockIdx.x) before = all;
        all += counts[block * CLASSES + threadIdx.x];
      }
      next[threadIdx.x] = before, total[threadIdx.x] = all;
    }
    __syncthreads();  // next and total are complete, written by a thread per class
    if (threadIdx.x == 0) {
      i64 start = 0;
      for (int c = 0; c < CLASSES; ++c) {
        if (blockIdx.x == 0) starts[c] = start;
        next[c] += start, start += total[c];
      }
      if (blockIdx.x == 0) starts[CLASSES] = start;
    }
    for_each([&](const Item& item, int own, u32 alike, int tally) {
      __syncthreads();  // tallies are about to be overwritten, all threads have read the last round's; next is updated
      if (lane < CLASSES) tallies[warp][lane] = tally;
      __syncthreads();  // tallies of this round are complete, written by all warps
      if (own < CLASSES) {
        i64 at = next[own] + __popc(alike & ((1u << lane) - 1));
        for (int w = 0; w < warp; ++w) at += tallies[w][own];
        items[at] = item;
      }
      __syncthreads();  // next is about to be advanced; all threads have read it
      if (threadIdx.x < CLASSES)
        for (int w = 0; w < WARPS; ++w) next[threadIdx.x] += tallies[w][threadIdx.x];
    });
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void ragged_sort(const Arguments& x) {
  static_assert(P::THREADS % 32 == 0 && P::THREADS >= 32, "whole warps");
  const Sorting<P, Arguments> sorting{x};
  if constexpr (P::PLACE) sorting.place(x.counts, x.starts, x.items);
  else sorting.count(x.counts);
}

}  // namespace mansard
