// A step planned from a sketch Y of the block, for blocks whose Gram matrix is too ill conditioned for its factor.
//
// Y D^-1 P = Q R by modified Gram-Schmidt with column pivoting, D the norms of the block's columns, P the order of the
// pivots. The step multiplies the block by S = D^-1 P R^-1; R P^T D is the factor. The block then has the condition by
// which sketches distort, a small one whatever it was before. R is as accurate as a Householder QR's, and pivoting keeps
// |S| |S^-1| small. R^-1 comes from the same column operations, applied to the identity below Y.
//
// A team of TEAM lanes has a column of Y and of the identity below it, rows distributed cyclically, all in registers.
// Per pivot: teams offer their norms, the largest is chosen; its team publishes the column; the others subtract it.
//
// Runs behind kernel_block.cuh in the same stream and does nothing where that has planned the step (gate is not zero).
// Declines, as that does, where columns may be dependent or entries are not finite.
//
// Shared memory: two sets of offers (one per warp), two lines (ROWS + N numbers), norms of columns. Barriers are named at
// each place.
//
//   ROWS   rows of Y
//   BLOCK  threads: TEAM for each column, in whole warps
#pragma once
#include "kernels/tall_skinny/small_step/scalars.cuh"

namespace mansard {

template <class P, class Arguments>
struct Pivots {
  using T = typename P::T;
  using Wide = typename Scalar<T>::template With<double>;
  static constexpr int N = P::N, TEAM = 8, WARPS = P::BLOCK / 32;
  static constexpr int OWN = P::ROWS / TEAM, BELOW = ceil_div(N, TEAM);  // entries per lane: of Y, of the identity
  static constexpr int ROOM = (OWN + BELOW) * TEAM;                      // of a line
  static_assert(P::ROWS % TEAM == 0 && P::BLOCK >= TEAM * N && N <= 128, "a team for every column");
  static_assert(2 * ROOM * int(sizeof(Wide)) + N * 8 + 2 * WARPS * 4 <= P::SHARED_BYTES, "room");
  const Arguments& arguments;
  Wide* lines;
  double* norms;
  int* offers;
  int column, part;
  bool waiting;  // the team's column is not a pivot yet
  Wide entries[OWN + BELOW];

  MANSARD_DEVICE Pivots(const Arguments& given, unsigned char* arena)
      : arguments(given), lines(reinterpret_cast<Wide*>(arena)), norms(reinterpret_cast<double*>(lines + 2 * ROOM)),
        offers(reinterpret_cast<int*>(norms + N)), column(threadIdx.x / TEAM), part(threadIdx.x % TEAM),
        waiting(column < N) {}

  MANSARD_DEVICE Wide* factor() const { return reinterpret_cast<Wide*>(arguments.state + 1 + N); }

  // Load the norms of the columns. False if one is zero, too small for its square, or not finite.
  MANSARD_DEVICE bool measure() {
    const int own = min(int(threadIdx.x), N - 1);
    const double norm = sqrt(real_part(widened(arguments.G[own * N + own])));
    if (threadIdx.x < N) norms[own] = norm;
    return __syncthreads_and(is_finite(norm) && norm >= arguments.least);  // norms are complete, by a thread per column
  }
  MANSARD_DEVICE void load() {
    const double by = waiting ? inverse(norms[column]) : 0.0;
    MANSARD_UNROLL
    for (int r = 0; r < OWN; ++r)
      entries[r] = waiting ? times_real(widened(arguments.Y[(r * TEAM + part) * N + column]), by) : zero<Wide>();
    MANSARD_UNROLL
    for (int r = 0; r < BELOW; ++r) set_real(entries[OWN + r], r * TEAM + part == column ? 1.0 : 0.0);
  }
  MANSARD_DEVICE double squared_norm() const {
    double sums[2] = {};
    MANSARD_UNROLL
    for (int r = 0; r < OWN; ++r) sums[r % 2] += square(entries[r]);
    return lane_sum<TEAM>(sums[0] + sums[1]);
  }
  // The column that still has the largest part of its own, by the upper bits of its square; ties go to the first.
  MANSARD_DEVICE int chosen(double squared, int* offer) const {
    const int mine = waiting ? (upper_half(squared) & ~127) | (127 - column) : -1;
    const int best = warp_max(mine);
    if (threadIdx.x % 32 == 0) offer[threadIdx.x / 32] = best;
    __syncthreads();  // offers (set k % 2) are complete, written by lane 0 of every warp
    int most = -1;
MANSARD_UNROLL_BY(4)
    for (int warp = 0; warp < WARPS; ++warp) most = max(most, offer[warp]);
    return 127 - (most & 127);
  }
  // Subtract the pivot's column from those that wait; entry (k, column) of the factor. All lanes take part in the sums.
  MANSARD_DEVICE void subtract(const Wide* line, double squared, int k) {
    Wide dots[2] = {};
    MANSARD_UNROLL
    for (int r = 0; r < OWN; ++r) multiply_add<true>(dots[r % 2], line[r * TEAM + part], entries[r]);
    add_to(dots[0], dots[1]);
    const Wide dot = lane_sum<TEAM>(dots[0]);
    const Wide by = waiting ? times_real(dot, -inverse(squared)) : zero<Wide>();
    MANSARD_UNROLL
    for (int r = 0; r < OWN + BELOW; ++r) multiply_add<false>(entries[r], line[r * TEAM + part], by);
    if (waiting && part == 0) factor()[k * N + column] = times_real(dot, inverse_root(squared) * norms[column]);
  }
  // The pivot's column of S and of the factor.
  MANSARD_DEVICE void finish(double squared, int k) const {
    const double by = inverse_root(squared);
    MANSARD_UNROLL
    for (int r = 0; r < BELOW; ++r) {
      const int i = r * TEAM + part;
      if (i < N) narrow(arguments.S[i * N + k], times_real(entries[OWN + r], by * inverse(norms[i])));
    }
    if (part == 0) set_real(factor()[k * N + column], squared * by * norms[column]);
  }

  MANSARD_DEVICE bool plan() {
    if (!measure()) return false;
    load();
    const double least = arguments.weak * arguments.roundoff;
    bool good = true;
MANSARD_UNROLL_BY(1)
    for (int k = 0; k < N; ++k) {
      double squared = squared_norm();
      const int pivot = chosen(squared, offers + k % 2 * WARPS);
      Wide* line = lines + k % 2 * ROOM;
      if (column == pivot) {
        MANSARD_UNROLL
        for (int r = 0; r < OWN + BELOW; ++r) line[r * TEAM + part] = entries[r];
        finish(squared, k);
      } else if (column < N && !waiting && part == 0) {
        factor()[k * N + column] = zero<Wide>();  // a pivot before this one
      }
      __syncthreads();  // line k % 2 is complete, written by the pivot's team; the other line has been read by all
      if (column == pivot) waiting = false;
      squared = 0.0;
MANSARD_UNROLL_BY(4)
      for (int r = 0; r < OWN; ++r) squared += square(line[r * TEAM + part]);
      squared = lane_sum<TEAM>(squared);
      good = good && squared > least * least && is_finite(squared);
      subtract(line, squared, k);
    }
    return __syncthreads_and(good);
  }

  MANSARD_DEVICE void run() {
    u32* gate = reinterpret_cast<u32*>(arguments.state);
    const bool planned = *gate != 0;
    if (__syncthreads_or(planned)) return;  // also: all threads have read the gate before one of them opens it
    const bool good = plan();
    for (int entry = threadIdx.x; entry < N * N && !good; entry += P::BLOCK) {
      Wide one;
      set_real(one, entry / N == entry % N ? 1.0 : 0.0);
      narrow(arguments.S[entry], one);
    }
    if (!good) return;
    if (threadIdx.x < N) arguments.state[1 + threadIdx.x] = norms[threadIdx.x];
    if (threadIdx.x == 0) *gate = 1, *arguments.status = P::SKETCHED;
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void small_step_pivots(const Arguments& arguments) {
  MANSARD_SHARED_ARENA(unsigned char, arena);
  Pivots<P, Arguments>(arguments, arena).run();
}

}  // namespace mansard
