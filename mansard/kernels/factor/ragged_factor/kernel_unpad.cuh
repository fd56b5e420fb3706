// Values of padded matrices, and vectors in columns, without those of the padding: from the stack of a class to their
// places in the batch.
//
// Matrix k of the stack is [A 0; 0 0], of BOUND rows, and A has `order` of them. Values that are the padding's:
//
//   LAST     the last ones                       (singular values: zeros come last)
//   NEAREST  as many as are nearest to zero      (eigenvalues: of ascending ones a window that begins where the value
//                                                 it leaves is no longer farther from zero than the one it takes)
//   VECTORS  columns with weight in its rows     (eigenvectors: an entry there is 0, or of modulus 1)
//
// INFO counts rows of A: a stack's matrix that is not finite says BOUND + 1, its result order + 1.
//
// Team. A block per matrix; lanes have neighbouring columns, 32 at a time, and warps have rows in turn. Every warp finds
// the columns of the padding for itself: nothing is shared, and there are no barriers.
// Limits: memory bandwidth; for small matrices the load of the item, then its rows.
//
//   WARPS  per block
#pragma once
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

enum Padding { LAST = 0, NEAREST = 1, VECTORS = 2 };

// As `_items` in operations/factor/two_sided/unpadded.py writes it.
struct UnpadItem {
  i64 values, matrix;  // where the values and the vectors begin
  int order, number;   // rows of A; its place in the batch
};

// Values in front of those that are nearest to zero. All lanes of the warp.
template <class R>
MANSARD_DEVICE int before_nearest(const R* values, int order, int bound) {
  int count = 0;
  MANSARD_UNROLL_BY(1)
  for (int first = 0; first < order; first += 32) {
    const int j = first + static_cast<int>(threadIdx.x % 32);
    count += __popc(__ballot_sync(0xffffffffu, j < order && values[j] + values[j + bound - order] < 0));
  }
  return count;
}

template <class P, class Arguments>
MANSARD_DEVICE void ragged_factor_unpad(const Arguments& a) {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, bound = static_cast<int>(a.BOUND);
  const bool by_vectors = a.PADDING == VECTORS;
  const i64 matrix = blockIdx.x;
  if (matrix >= a.BATCH) return;
  const UnpadItem item = reinterpret_cast<const UnpadItem*>(a.ITEMS)[matrix];
  const R* const values = a.W + matrix * bound;
  const T* const vectors = by_vectors ? a.Z + matrix * bound * bound : nullptr;
  const int begin = a.PADDING == NEAREST ? before_nearest(values, item.order, bound) : item.order;
  int left = 0;  // columns of the padding to the left
  MANSARD_UNROLL_BY(1)
  for (int first = 0; first < bound; first += 32) {
    const int j = first + lane;
    bool is_padding = j >= bound || (!by_vectors && j >= begin && j < begin + bound - item.order);
    if (by_vectors && j < bound) {
      MANSARD_UNROLL_BY(4)
      for (int i = item.order; i < bound; ++i) is_padding |= modulus_square(vectors[i64(i) * bound + j]) > R(0.25);
    }
    const u32 padding = __ballot_sync(0xffffffffu, is_padding);
    const int place = j - left - __popc(padding & ((1u << lane) - 1u));
    left += __popc(padding);
    if (is_padding || place >= item.order) continue;  // of matrices that are not finite no column is the padding's
    if (warp == 0) a.VALUES[item.values + place] = values[j];
    if (by_vectors) {
      T* const to = a.F + item.matrix + place;
      MANSARD_UNROLL_BY(4)
      for (int i = warp; i < item.order; i += P::WARPS) to[i64(i) * item.order] = vectors[i64(i) * bound + j];
    }
  }
  const int info = a.INFO[matrix];
  if (threadIdx.x == 0) a.INFOS[item.number] = info > item.order ? info - (bound - item.order) : info;
}

}  // namespace mansard
