// Copies between ragged batches and stacks on GPUs: gather matrices into a padded stack, scatter their parts of results.
//
// An item writes a run of entries [first, end) of a dense block with rows of `wide` entries:
//
//   to[e] = from[r * from_row + c * from_column]  for r < rows, c < columns,  with r = e / wide, c = e % wide
//   to[e] = 1  for r >= rows, c >= columns, r - c = ones
//   to[e] = 0  elsewhere
//
// Gather: the block is the padded matrix, so that the result is [A 0; 0 I] or, with `ones` that no entry has, [A 0; 0 0].
// Scatter: the block is the matrix itself, and all of it is copied. Sizes are data: one kernel per dtype does both, for all sizes.
//
// Team. A warp per item; neighbouring lanes write neighbouring entries. No shared memory, no barriers.
// Limits: memory bandwidth; for matrices below some hundred entries the load of the item (48 bytes), then its entries.
//
//   WARPS  items per block
#pragma once
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

// As `pieces` in operations/ragged_copy.py writes it.
struct CopyItem {
  i64 from, to;  // first entry of the matrix and of the block
  int from_row, from_column, rows, columns, wide, ones, first, end;
};

template <class P, class Arguments>
MANSARD_DEVICE void ragged_factor_copy(const Arguments& a) {
  using T = typename P::T;
  const i64 number = i64(blockIdx.x) * P::WARPS + threadIdx.x / 32;
  if (number >= a.BATCH) return;
  const CopyItem item = reinterpret_cast<const CopyItem*>(a.ITEMS)[number];
  const T* const from = a.A + item.from;
  T* const to = a.F + item.to;
MANSARD_UNROLL_BY(4)
  for (int e = item.first + static_cast<int>(threadIdx.x % 32); e < item.end; e += 32) {
    const int row = e / item.wide, column = e - row * item.wide;
    T value = zero<T>();
    if (row < item.rows && column < item.columns)
      value = from[i64(row) * item.from_row + i64(column) * item.from_column];
    else if (row >= item.rows && column >= item.columns && row - column == item.ones)
      value = from_real<T>(1);
    to[e] = value;
  }
}

}  // namespace mansard
