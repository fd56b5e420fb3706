// LU of a tall panel of BLK columns by all warps of a block; row i lies in the registers of thread i % THREADS.
//
// Step k: every warp writes its row with the largest entry of column k to shared memory (its offer); after a barrier
// all warps take the best offer as the pivot row p, and update a_ij -= a_ik / a_pk * a_pj. Columns move by one register
// per step, so that the pivot column is always in register 0. Barrier: one __syncthreads per step -> offers[k % 2] ->
// the other warps. Two sets suffice: set k % 2 is written again in step k + 2, after the barrier of step k + 1, which
// every warp passes only after it has read set k % 2.
#pragma once
#include "kernels/factor/lu/pivots.cuh"

namespace mansard {

// The lane with the largest size; among equal ones, the lane with the smallest place.
template <class R>
MANSARD_DEVICE int warp_owner(R size, int place) {
  const int order = order_of(size), most = warp_max(order);  // negative: the lane has no candidate
  u32 votes = __ballot_sync(~0u, order == most);
  if (__popc(votes) > 1) votes = __ballot_sync(~0u, exact_owner<32>(size, place, 0) == 0);
  return __ffs(static_cast<int>(votes)) - 1;
}

// Candidates of all warps in one step: the row, its magnitude, its place.
template <class T, int BLK, int WARPS>
struct Offers {
  using R = typename Scalar<T>::Real;
  T row[WARPS][BLK];
  R size[WARPS];
  int place[WARPS];
};

template <class T_, int SLOTS_, int BLK, int WARPS, bool PIVOT>
struct TallPanel {
  using T = T_;
  using R = typename Scalar<T>::Real;
  using Offered = Offers<T, BLK, WARPS>;
  static constexpr int SLOTS = SLOTS_, THREADS = WARPS * 32;
  T a[SLOTS][BLK];
  int place[SLOTS], info = 0;

  MANSARD_DEVICE explicit TallPanel(int rows) {
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      place[q] = row_of(q);
      waits[q] = row_of(q) < rows;
    }
  }
  static MANSARD_DEVICE int row_of(int q) { return threadIdx.x + q * THREADS; }

  // Eliminate `count` of BLK columns. `offers` points to two sets, used in turn; steps[k] = place of the pivot row.
  MANSARD_DEVICE void eliminate(int* steps, Offered* offers, int count) {
MANSARD_UNROLL_BY(1)
    for (int k = 0; k < BLK; ++k) {
      if (k < count) {
        Offered& offered = offers[k % 2];
        offer(offered, k);
        __syncthreads();  // offers[k % 2] is complete, written by all warps
        step(steps, offered, k);
      } else {
        rotate();
      }
    }
  }

 private:
  bool waits[SLOTS];  // the row exists and was no pivot row yet

  // Write the warp's best row, its magnitude and its place.
  MANSARD_DEVICE void offer(Offered& offered, int k) const {
    R size = R(-2);
    int where = 1 << 20, slot = 0;
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      const R its = PIVOT ? ranked(modulus_1(a[q][0]), place[q] == k) : place[q] == k ? R(1) : R(-1);
      if (waits[q] && (its > size || (its == size && place[q] < where))) size = its, where = place[q], slot = q;
    }
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane != warp_owner(size, where)) return;
    offered.size[warp] = size;
    offered.place[warp] = where;
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q)
      MANSARD_UNROLL
      for (int j = 0; j < BLK; ++j)
        if (slot == q) offered.row[warp][j] = a[q][j];
  }

  // Take the best offer as pivot row, exchange places, and update.
  MANSARD_DEVICE void step(int* steps, const Offered& offered, int k) {
    const int lane = threadIdx.x % 32, mine = min(lane, WARPS - 1);
    const int winner = warp_owner(lane < WARPS ? offered.size[mine] : R(-3), offered.place[mine]);
    const int was = offered.place[winner];
    const T* row = offered.row[winner];
    const T pivot = row[0];
    Inverse<T> by;
    by.template of<false>(pivot);
    if (is_zero(pivot) && info == 0) info = k + 1;
    if (threadIdx.x == 0) steps[k] = was;
    T done[SLOTS], minus[SLOTS];
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      const bool own = waits[q] && place[q] == was;
      if (own) waits[q] = false;
      else if (place[q] == k) place[q] = was;
      if (own) place[q] = k;
      done[q] = chosen(waits[q], by.times(a[q][0]), a[q][0]);
      minus[q] = chosen(waits[q], negated(done[q]), zero<T>());
    }
    MANSARD_UNROLL
    for (int j = 1; j < BLK; ++j) {
      const T u = chosen(j < BLK - k, row[j], zero<T>());  // finished columns stay as they are
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) {
        a[q][j - 1] = a[q][j];
        multiply_add<false>(a[q][j - 1], minus[q], u);
      }
    }
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) a[q][BLK - 1] = done[q];
  }

  // Move the columns by one register, for a step that is not done.
  MANSARD_DEVICE void rotate() {
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      const T first = a[q][0];
      MANSARD_UNROLL
      for (int j = 1; j < BLK; ++j) a[q][j - 1] = a[q][j];
      a[q][BLK - 1] = first;
    }
  }
};

}  // namespace mansard
