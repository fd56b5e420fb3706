// A = P L U of a batch: one thread block per matrix, which stays in shared memory; panels are factored in registers.
//
// Step of a panel of BLK columns that begins at k:
//   panel     P [A_kk; A_ik] = [L_kk; L_ik] U_kk  with partial pivoting
//   columns   exchange the rows of all other columns;  U_kj = L_kk^-1 A_kj          for j >= k + BLK
//   update    A_ij -= L_ik * U_kj                                                   for i, j >= k + BLK
// Right-hand sides are further columns j. Backward substitution (solve) or inversion of both triangles (inverse,
// triangles.cuh) follows.
//
// Team. TEAM warp: warp 0 factors a panel, row i of it in lane i % 32 (rows.cuh); the other warps update the columns
// behind it meanwhile. TEAM block, for tall matrices: all threads factor a panel, row i in thread i % THREADS
// (tall.cuh). The column phase has one column per thread. The update has 16 rows per warp at a time (update.cuh).
//
// Shared memory, in this order (BYTES):
//   region     size                                      written by
//   matrix     A::BYTES, in the layout of A              copies; then the factors (and the inverse) replace A
//   right      OF_B: RIGHT columns of N                  B; X replaces it
//   offers     OFFERS: two sets of WARPS rows            TEAM block: one row per warp and step, sets in turn
//   pivots     ceil(STEPS / BLK) * BLK ints              panel; counted from the first row of their panel
//   sources    BLK ints                                  panel: row that moves to row s of the panel's top
//   targets    BLK ints                                  panel: row where row s of the panel's top moves
//   order      N ints (inverse)                          column phase: row of A that is now row i of L U
//   places     N ints (inverse)                          store_inverse: the inverse permutation of order
//
// Phases of panel k, with barriers as barrier -> buffer -> writer:
//   1  update with the previous panel. TEAM warp: warp 0 the columns of panel k, the others the columns behind it.
//      TEAM block: all warps, then __syncthreads -> matrix -> warps that update the panel's columns
//   2  factor panel k in registers. TEAM warp: __syncwarp before the load and before the store -> matrix, columns of
//      the panel -> other lanes of warp 0. TEAM block: one __syncthreads per step -> offers[k % 2] -> the other warps
//      __syncthreads -> matrix, sources, targets, pivots -> warp 0 (panel); matrix, right -> the others (update)
//   3  exchange rows and solve for rows of U, a column per thread
//      __syncthreads -> matrix, right -> threads of other columns; sources, targets -> the next panel
//
// Limits (H200, float64): barriers and the latency of the panel. 64 rows: 31 % of the issue slots, 23 % of DRAM, a
// third of the time at barriers. 128 rows: 11 %, 9 %, half of it; from 117 rows on one block fits per multiprocessor.
//
//   BLK    columns of a panel
//   WARPS  warps per block
//   TEAM   who factors panels: warp 0 (warp) or all threads (block)
//   UNIT   what multiplies in updates: fma, or tensor cores (mma, float64)
#pragma once
#include "kernels/factor/lu/operands.cuh"
#include "kernels/factor/lu/rows.cuh"
#include "kernels/factor/lu/tall.cuh"
#include "kernels/factor/lu/triangles.cuh"

namespace mansard {

enum class Team { warp, block };

template <class P>
struct LuBlockShape {
  using T = typename P::T;
  static constexpr int M = P::M, N = P::N, STEPS = M < N ? M : N, THREADS = P::WARPS * 32;
  static constexpr bool SOLVE = P::WANT == Want::solve, FACTOR = P::WANT == Want::factor;
  static constexpr bool INVERSE = P::WANT == Want::inverse;
  static constexpr int RIGHT = SOLVE ? P::NRHS : 0;
  using A = ImageOf<T, P::LAYOUT_A, M, N, 1, P::FEED_A, P::ALIGNED, P::PITCH_A, P::MATRIX_A>;
  using F = ImageOf<T, P::LAYOUT_F, FACTOR ? M : 1, FACTOR ? N : 1, 1, P::FEED_F, P::ALIGNED, P::PITCH_F, P::MATRIX_F>;
  static constexpr bool TURNED = P::LAYOUT_A == Layout::col;
  static constexpr int ROW = TURNED ? 1 : A::PITCH, COLUMN = TURNED ? A::PITCH : 1;
  using Rest = Update<T, M, N, ROW, COLUMN, P::BLK>;
  static constexpr bool ALL = P::TEAM == Team::block;
  using Tall = TallPanel<T, ceil_div(M, THREADS), P::BLK, P::WARPS, P::PIVOT>;
  static constexpr int OF_B = ceil_div(RIGHT * N * int(sizeof(T)), 16) * 16;
  static constexpr int OFFERS = ALL ? ceil_div(2 * int(sizeof(typename Tall::Offered)), 16) * 16 : 0;
  static constexpr int ORDER = ceil_div(STEPS, P::BLK) * P::BLK + 2 * P::BLK;  // ints from pivots to order
  static constexpr int BYTES = A::BYTES + OF_B + OFFERS + (ORDER + (INVERSE ? 2 * N : 0) + 4) * 4;
  static_assert(BYTES <= P::SHARED_BYTES, "shared memory");
};

// Params of a panel for rows.cuh: BLK columns, SLOTS rows per lane of a warp.
template <class P, int SLOTS>
struct LuPanel {
  using T = typename P::T;
  static constexpr int M = SLOTS * 32, N = P::BLK, NRHS = 0;
  static constexpr Want WANT = Want::factor;
  static constexpr bool PIVOT = P::PIVOT, ROLLED = true;
  static constexpr Via VIA = Via::lanes;
};

template <class P>
struct LuBlock {
  using S = LuBlockShape<P>;
  using T = typename P::T;
  static constexpr int BLK = P::BLK, READ = S::TURNED ? 1 : S::A::READ;
  T *matrix, *right;
  typename S::Tall::Offered* offers;
  int *pivots, *sources, *targets;
  int* order;
  int warp, lane;

  MANSARD_DEVICE T* at(int i, int j) const { return matrix + i * S::ROW + j * S::COLUMN; }
  static MANSARD_DEVICE int steps_of(int k) { return S::STEPS % BLK == 0 ? BLK : min(BLK, S::STEPS - k); }
  static MANSARD_DEVICE int width_of(int k) { return S::N % BLK == 0 ? BLK : min(BLK, S::N - k); }

  // Factor the matrix. Returns info to warp 0: 1 + the first step whose pivot is zero, or 0.
  MANSARD_DEVICE int factor() const {
    int info = 0;
MANSARD_UNROLL_BY(1)
    for (int k = 0; k < S::STEPS; k += BLK) {
      const typename S::Rest rest{matrix, k - BLK, lane};
      if constexpr (S::ALL) {
        if (k > 0) rest.template run<P::UNIT>(k, k, S::N, warp, P::WARPS);
        if (k > 0) update_right(k - BLK, threadIdx.x, S::THREADS);
        __syncthreads();  // matrix: the panel's columns, updated by all warps, are about to be loaded
        tall_panel(k, info);
      } else if (warp == 0) {
        if (k > 0) rest.template run<P::UNIT, 2>(k, k, min(k + BLK, S::N), 0, 1);
        __syncwarp();  // matrix: the panel's columns, updated by other lanes of this warp, are about to be loaded
        panel<ceil_div(S::M, 32)>(k, info);
      }
      if (!S::ALL && (P::WARPS == 1 || warp > 0) && k > 0) {
        constexpr int OTHERS = P::WARPS == 1 ? 1 : P::WARPS - 1;
        const int rank = P::WARPS == 1 ? 0 : warp - 1;
        rest.template run<P::UNIT>(k, k + BLK, S::N, rank, OTHERS);
        if constexpr (S::RIGHT > 0) update_right(k - BLK, rank * 32 + lane, OTHERS * 32);
      }
      __syncthreads();  // panel, sources, targets (warp 0) and updated columns (the others) are complete
      for_columns(k);
      __syncthreads();  // rows of U are complete; sources and targets are about to be overwritten by the next panel
    }
    return info;
  }

  // Backward substitution, one right-hand side per warp; X replaces B in `right`.
  MANSARD_DEVICE void substitute() const {
    constexpr int SLOTS = ceil_div(S::N, 32);
MANSARD_UNROLL_BY(1)
    for (int c = warp; c < S::RIGHT; c += P::WARPS) {
      T b[SLOTS];
      Inverse<T> by[SLOTS];
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) {
        const int i = min(lane + 32 * q, S::N - 1);
        by[q].template of<true>(*at(i, i));
        b[q] = right[c * S::N + i];
      }
      MANSARD_UNROLL
      for (int slot = SLOTS - 1; slot >= 0; --slot)
MANSARD_UNROLL_BY(2)
        for (int k = min(32 * slot + 31, S::N - 1); k >= 32 * slot; --k) {
          const T x = lane_value<32>(by[slot].times(b[slot]), k % 32);
          if (lane == k % 32) right[c * S::N + k] = x;
          MANSARD_UNROLL
          for (int q = 0; q <= slot; ++q) multiply_subtract<false>(b[q], *at(min(lane + 32 * q, S::N - 1), k), x);
        }
    }
  }

 private:
  // Factor panel k by warp 0 with the smallest number of rows per lane that covers the remaining rows.
  template <int SLOTS>
  MANSARD_DEVICE void panel(int k, int& info) const {
    if constexpr (SLOTS > 1) {
      if (S::M - k <= 32 * (SLOTS - 1)) return panel<SLOTS - 1>(k, info);
    }
    const int count = S::M - k;
    Rows<LuPanel<P, SLOTS>, 32> rows(lane, count);
    load(rows, k, count);
    rows.eliminate(Steps<T>{pivots + k, nullptr, nullptr}, steps_of(k));
    if (info == 0 && rows.info > 0) info = k + rows.info;
    __syncwarp();  // matrix: rows of the panel are about to be overwritten by other rows; all lanes have loaded theirs
    store(rows, k, count);
  }

  // Factor panel k by all threads.
  MANSARD_DEVICE void tall_panel(int k, int& info) const {
    typename S::Tall rows(S::M - k);
    load(rows, k, S::M - k);
    rows.eliminate(pivots + k, offers, steps_of(k));  // its barriers separate the loads above from the stores below
    if (info == 0 && rows.info > 0) info = k + rows.info;
    store(rows, k, S::M - k);
  }

  // Load the rows of panel k into registers. Lanes without a row load the last row; columns beyond the matrix are
  // filled from the panel's first columns.
  template <class Some>
  MANSARD_DEVICE void load(Some& rows, int k, int count) const {
    const int width = width_of(k);
    MANSARD_UNROLL
    for (int q = 0; q < Some::SLOTS; ++q)
      MANSARD_UNROLL
      for (int j = 0; j < BLK; j += READ) {
        const T* from = at(k + min(rows.row_of(q), count - 1), k + (j < width ? j : 0));
        const auto pack = *reinterpret_cast<const Pack<T, READ>*>(from);
        MANSARD_UNROLL
        for (int i = 0; i < READ; ++i) rows.a[q][j + i] = pack.e[i];
      }
  }

  // Store the rows of panel k in their places after the exchanges, and note the exchanges in sources and targets.
  template <class Some>
  MANSARD_DEVICE void store(const Some& rows, int k, int count) const {
    const int width = width_of(k);
    MANSARD_UNROLL
    for (int q = 0; q < Some::SLOTS; ++q) {
      const int row = rows.row_of(q), place = rows.place[q];
      if (row >= count) continue;
      MANSARD_UNROLL
      for (int j = 0; j < BLK; j += READ) {
        Pack<T, READ> pack;
        MANSARD_UNROLL
        for (int i = 0; i < READ; ++i) pack.e[i] = rows.a[q][j + i];
        if (j < width) *reinterpret_cast<Pack<T, READ>*>(at(k + place, k + j)) = pack;
      }
      if (place < BLK) sources[place] = row;
      if (row < BLK) targets[row] = place;
    }
  }

  // Exchange the rows of panel k in all other columns, and solve for the rows of U in the columns behind it.
  MANSARD_DEVICE void for_columns(int k) const {
    const int width = width_of(k), steps = steps_of(k);
    if (S::INVERSE && P::PIVOT && warp == P::WARPS - 1) exchange_order(k, steps);
MANSARD_UNROLL_BY(1)
    for (int i = threadIdx.x; i < S::N - width + S::RIGHT; i += S::THREADS) {
      const int j = i < k ? i : i + width;
      const bool of_matrix = j < S::N;
      T* column = of_matrix ? at(k, j) : right + (j - S::N) * S::N + k;
      const int step = of_matrix ? S::ROW : 1;
      T top[BLK];
      MANSARD_UNROLL
      for (int s = 0; s < BLK; ++s)
        if (s < steps) top[s] = column[(P::PIVOT ? sources[s] : s) * step];
      if constexpr (P::PIVOT) {
        T left[BLK];
        MANSARD_UNROLL
        for (int s = 0; s < BLK; ++s)
          if (s < steps) left[s] = column[s * step];
        MANSARD_UNROLL
        for (int s = 0; s < BLK; ++s)
          if (s < steps && targets[s] >= steps) column[targets[s] * step] = left[s];
      }
      if (j > k) {  // top = L_kk^-1 top, column by column of L: the updates of one column are independent
        MANSARD_UNROLL
        for (int r = 0; r < BLK; r += READ)
          MANSARD_UNROLL
          for (int s = r + 1; s < BLK; ++s)
            if (s < steps) {
              const auto pack = *reinterpret_cast<const Pack<T, READ>*>(at(k + s, k + r));
              MANSARD_UNROLL
              for (int i = 0; i < READ; ++i)
                if (r + i < s) multiply_subtract<false>(top[s], pack.e[i], top[r + i]);
            }
      }
      MANSARD_UNROLL
      for (int s = 0; s < BLK; ++s)
        if (s < steps) column[s * step] = top[s];
    }
  }

  // Apply the exchanges of panel k to `order`, by one warp.
  MANSARD_DEVICE void exchange_order(int k, int steps) const {
    const int s = min(lane, steps - 1), top = order[k + sources[s]], left = order[k + s];
    __syncwarp();  // order is about to be overwritten; all lanes of the warp have read it
    if (targets[s] >= steps) order[k + targets[s]] = left;
    order[k + s] = top;
  }

  // b_i -= l_ik * b_k for the rows below panel k, by `threads` threads of which this one is number `rank`.
  MANSARD_DEVICE void update_right(int k, int rank, int threads) const {
    const int below = S::N - k - BLK;
    for (int i = rank; i < below * S::RIGHT; i += threads) {
      T* column = right + i / below * S::N;
      const int row = k + BLK + i % below;
      T sum = column[row];
      MANSARD_UNROLL
      for (int s = 0; s < BLK; ++s) multiply_subtract<false>(sum, *at(row, k + s), column[k + s]);
      column[row] = sum;
    }
  }
};

// Store the factors entry by entry, in the order of F's memory, where F and A differ in layout or alignment.
template <class P, class Place>
MANSARD_DEVICE void store_entries(const LuBlock<P>& block, const Place& place, i64 number) {
  using S = LuBlockShape<P>;
  constexpr int LENGTH = P::LAYOUT_F == Layout::col ? S::M : S::N;
  auto* to = matrix_at(place.base, place.matrix, number);
MANSARD_UNROLL_BY(4)
  for (int e = threadIdx.x; e < S::M * S::N; e += S::THREADS) {
    const int line = e / LENGTH, inside = e % LENGTH;
    const bool turned = P::LAYOUT_F == Layout::col;
    to[line * place.line + inside * place.step] = *block.at(turned ? inside : line, turned ? line : inside);
  }
}

// Invert the factors and store A^-1 = U^-1 L^-1 P: column j of U^-1 L^-1 becomes column order[j] of A^-1.
template <class P, class Arguments>
MANSARD_DEVICE void store_inverse(const LuBlock<P>& block, const Arguments& arguments, i64 number) {
  using S = LuBlockShape<P>;
  const Triangles<typename P::T, S::N, S::ROW, S::COLUMN, P::WARPS, P::UNIT> triangles{block.matrix, block.warp,
                                                                                        block.lane};
  int* places = block.order + S::N;
  for (int j = threadIdx.x; j < S::N; j += S::THREADS) places[block.order[j]] = j;
  triangles.invert();
  __syncthreads();  // matrix and places are complete, written by all warps
  auto* to = matrix_at(arguments.F, arguments.f_matrix, number);
  constexpr bool TURNED = P::LAYOUT_F == Layout::col;  // adjacent lanes then store adjacent rows, otherwise columns
MANSARD_UNROLL_BY(1)
  for (int inner = block.lane; inner < S::N; inner += 32) {
    const int place = places[inner];
    auto* line = to + inner * (TURNED ? arguments.f_row : arguments.f_col);
    const i64 step = TURNED ? arguments.f_col : arguments.f_row;
MANSARD_UNROLL_BY(4)
    for (int outer = block.warp; outer < S::N; outer += P::WARPS)
      line[outer * step] = TURNED ? *block.at(inner, places[outer]) : *block.at(outer, place);
  }
}

template <class P, class Arguments>
MANSARD_DEVICE void lu_block(const Arguments& arguments) {
  using S = LuBlockShape<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const Operands<P, Arguments> operands(arguments);
  const i64 number = blockIdx.x;
  if (number >= arguments.BATCH) return;
  const int thread = threadIdx.x;
  T* place_a = reinterpret_cast<T*>(arena);
  T* right = reinterpret_cast<T*>(arena + S::A::BYTES);
  auto* offers = reinterpret_cast<typename S::Tall::Offered*>(arena + S::A::BYTES + S::OF_B);
  int* pivots = reinterpret_cast<int*>(arena + S::A::BYTES + S::OF_B + S::OFFERS);
  int* sources = pivots + ceil_div(S::STEPS, P::BLK) * P::BLK;
  S::A::template fill<S::THREADS>(place_a, operands.A, number, 1, arguments.BATCH, thread);
  cp_async_commit();
  if constexpr (S::SOLVE) {
    const T* from = matrix_at(arguments.B, arguments.b_matrix, number);
    for (int e = thread; e < S::N * S::RIGHT; e += S::THREADS)
      right[e] = from[e % S::N * arguments.b_row + e / S::N * arguments.b_col];
  }
  const LuBlock<P> block{S::A::origin(place_a, operands.A, number), right, offers, pivots, sources, sources + P::BLK,
                         pivots + S::ORDER, thread / 32, thread % 32};
  if constexpr (S::INVERSE)
    for (int i = thread; i < S::N; i += S::THREADS) block.order[i] = i;
  cp_async_wait<0>();
  __syncthreads();  // matrix, right and order: copies and stores of all threads have arrived
  const int info = block.factor();
  if (thread == 0) arguments.INFO[number] = info;
  if constexpr (S::FACTOR) {
    constexpr bool ALIKE = P::LAYOUT_A == P::LAYOUT_F && P::FEED_A == P::FEED_F && P::PITCH_A == P::PITCH_F &&
                           (!S::A::SHIFTED || P::ALIGNED);
    if constexpr (ALIKE) S::F::template store<S::THREADS, false>(place_a, operands.F, number, 1, Scales{}, thread);
    else store_entries(block, operands.F, number);
    int* to = arguments.PIVOTS + number * S::STEPS;
    for (int i = thread; i < S::STEPS; i += S::THREADS) to[i] = pivots[i] + i / P::BLK * P::BLK;
  }
  if constexpr (S::SOLVE) {
    block.substitute();
    __syncthreads();  // right holds X, written by the warps of its columns
    T* to = matrix_at(arguments.X, arguments.x_matrix, number);
    for (int e = thread; e < S::N * S::RIGHT; e += S::THREADS)
      to[e % S::N * arguments.x_row + e / S::N * arguments.x_col] = right[e];
  }
  if constexpr (S::INVERSE) store_inverse(block, arguments, number);
  if constexpr (P::WANT == Want::determinant || P::WANT == Want::logdet) {
    if (thread < 32) {
      Determinant<T, P::WANT> determinant;
      bool odd = false;
      for (int k = thread; k < S::STEPS; k += 32) {
        determinant.take(*block.at(k, k));
        odd ^= pivots[k] != k % P::BLK;
      }
      determinant.template gather<32>();
      odd = __popc(__ballot_sync(~0u, odd)) % 2 == 1;
      if (thread == 0) {
        arguments.F[number * arguments.f_matrix] = odd ? negated(determinant.value) : determinant.value;
        if constexpr (P::WANT == Want::logdet)
          reinterpret_cast<typename Scalar<T>::Real*>(arguments.X)[number] = determinant.logarithm;
      }
    }
  }
}

}  // namespace mansard
