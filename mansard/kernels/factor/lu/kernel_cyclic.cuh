// A = P L U of a batch: a team of lanes factors one matrix in registers, each with a tile of it (cyclic.cuh).
//
// Step k:  find the row p that waits with the largest |a_pk|;  l_ik = a_ik / a_pk;  a_ij -= l_ik * a_pj for j > k.
// WANT says which result is stored: L, U and pivots (factor); X, with right-hand sides as further columns and backward
// substitution at the end (solve); the product of the pivots (determinant, logdet).
//
// Team. LANES <= 32: a warp takes GROUP = 32 / LANES consecutive matrices; warps do not communicate. LANES > 32: the
// block is the team.
//
// Shared memory of a warp (of the block, where that is the team), OF_TEAM bytes:
//   region     bytes                        written by                              reused
//   A image    A::BYTES                     copies of all threads                   by lines once A is in registers
//     lines    GROUP * N lines (cyclic.cuh) step k: owner of the pivot row, which
//                                           is final (several warps: of an offer);
//                                           of a solve, the lane of row k: x_k
//   heads      HEADS (several warps)        step k: every warp, sets in turn
//   rows       ROWS_OF ints (several warps) step k: thread 0
//   exchanged  GROUP * EXCHANGED ints       step k: owner, or thread 0
//
// Phases, with barriers as barrier -> buffer -> writer (__syncwarp, or __syncthreads where the block is the team):
//   1  copy A to the image                  -> image -> copies of other threads
//   2  load tiles into registers            -> image -> lines of phase 3
//   3  N steps, one barrier each (cyclic.cuh)
//      after the last step                  -> lines, rows, exchanged -> their writers
//   4  store lines as F, or substitute (one warp) and store X, or multiply the pivots
//
// Limits: the dependent instructions of a step (search, inverse, line, column k + 1), which more matrices per
// multiprocessor hide; registers, which limit those.
//
//   LANES    threads of a team
//   LANES_N  of these along the columns; wide tiles need fewer instructions for the search and the pivot column
//   WARPS    warps per block
#pragma once
#include "kernels/factor/lu/cyclic.cuh"
#include "kernels/factor/lu/operands.cuh"

namespace mansard {

template <class P>
struct LuCyclicShape {
  using T = typename P::T;
  using Some = Cyclic<P>;
  using Sizes = typename Some::S;
  static constexpr int N = P::N, GROUP = Sizes::TEAMS;
  static constexpr bool SINGLE = Sizes::TEAM_WARPS == 1;  // a team is (part of) a warp
  static constexpr int THREADS = SINGLE ? 32 : P::LANES;
  static_assert(SINGLE || P::WARPS * 32 == P::LANES, "one team per block");
  using A = ImageOf<T, P::LAYOUT_A, N, N, GROUP, P::FEED_A, P::ALIGNED, P::PITCH_A, P::MATRIX_A>;
  static constexpr int OF_LINES = N * Sizes::LINE;  // elements
  static constexpr int LINES = GROUP * OF_LINES * int(sizeof(T)), IMAGE = A::BYTES > LINES ? A::BYTES : LINES;
  static constexpr int HEADS = SINGLE ? 0 : 2 * Sizes::TEAM_WARPS * Sizes::HEAD, ROWS_OF = SINGLE ? 0 : N;
  static constexpr int EXCHANGED = Some::TRACK ? N : 0;
  static constexpr int OF_TEAM = ceil_div(IMAGE + HEADS + (ROWS_OF + GROUP * EXCHANGED) * 4, 16) * 16;
  static_assert((SINGLE ? P::WARPS : 1) * OF_TEAM <= P::SHARED_BYTES, "shared memory");
};

template <class P>
MANSARD_DEVICE void team_barrier() {
  if constexpr (LuCyclicShape<P>::SINGLE) __syncwarp();
  else __syncthreads();
}

// Store the lines of a team as F, in the order of F's memory.
template <class P, class Pointer>
MANSARD_DEVICE void store_lines(const typename P::T* lines, const int* rows, const Place<Pointer>& place, i64 number,
                                int thread) {
  using S = LuCyclicShape<P>;
  using T = typename P::T;
  constexpr int N = S::N, VECTOR = 16 / int(sizeof(T)), LINE = S::Sizes::LINE;
  constexpr bool TURNED = P::LAYOUT_F == Layout::col;
  constexpr bool WHOLE = P::LAYOUT_F == Layout::row && N % VECTOR == 0 && P::FEED_F != Feed::elements &&
                         (P::FEED_F != Feed::flat || P::ALIGNED);  // 16 bytes at a time
  constexpr int AT_ONCE = WHOLE ? VECTOR : 1;
  auto* to = matrix_at(place.base, place.matrix, number);
MANSARD_UNROLL_BY(4)
  for (int e = thread * AT_ONCE; e < N * N; e += S::THREADS * AT_ONCE) {
    const int line = e / N, inside = e % N, row = TURNED ? inside : line;
    const T* from = lines + (S::SINGLE ? row : rows[row]) * LINE + (TURNED ? line : inside);
    if constexpr (WHOLE)
      store_pack(to + line * place.line + inside, *reinterpret_cast<const Pack<T, VECTOR>*>(from));
    else
      to[line * place.line + inside * place.step] = *from;
  }
}

// Backward substitution by the first warp of a team: lane i of the team has rows i, i + TEAM, ... of U.
template <class P, class Arguments>
MANSARD_DEVICE void substitute_lines(const Cyclic<P>& tile, const Arguments& arguments, i64 number, bool stores) {
  using S = LuCyclicShape<P>;
  using T = typename P::T;
  constexpr int N = S::N, TEAM = S::Sizes::TEAM, SLOTS = ceil_div(N, TEAM), RIGHT = P::NRHS, AT = S::Sizes::PADDED;
  const int rank = threadIdx.x % TEAM;
  T* row[SLOTS];
  T y[SLOTS][RIGHT];
  Inverse<T> by[SLOTS];
  MANSARD_UNROLL
  for (int q = 0; q < SLOTS; ++q) {
    const int k = min(rank + q * TEAM, N - 1);
    row[q] = tile.final_row(k);
    by[q].template of<true>(row[q][k]);
    MANSARD_UNROLL
    for (int c = 0; c < RIGHT; ++c) y[q][c] = row[q][AT + c];
  }
  MANSARD_UNROLL
  for (int slot = SLOTS - 1; slot >= 0; --slot)
MANSARD_UNROLL_BY(4)
    for (int k = min(TEAM * (slot + 1), N) - 1; k >= TEAM * slot; --k) {
      MANSARD_UNROLL
      for (int c = 0; c < RIGHT; ++c) {
        const T own = by[slot].times(y[slot][c]), x = lane_value<TEAM>(own, k % TEAM);
        if (rank == k % TEAM) row[slot][AT + c] = own;
        MANSARD_UNROLL
        for (int q = 0; q <= slot; ++q) multiply_subtract<false>(y[q][c], row[q][k], x);
      }
    }
  T* to = matrix_at(arguments.X, arguments.x_matrix, number);
  MANSARD_UNROLL
  for (int q = 0; q < SLOTS; ++q) {
    const int k = rank + q * TEAM;
    MANSARD_UNROLL
    for (int c = 0; c < RIGHT; ++c)
      if (stores && k < N) to[k * arguments.x_row + c * arguments.x_col] = row[q][AT + c];
  }
}

// The product of the pivots, by the first warp of a team.
template <class P, class Arguments>
MANSARD_DEVICE void multiply_pivots(const Cyclic<P>& tile, const int* exchanged, const Arguments& arguments, i64 number,
                                    bool stores) {
  using S = LuCyclicShape<P>;
  constexpr int TEAM = S::Sizes::TEAM;
  const int lane = threadIdx.x % 32, rank = lane % TEAM;
  Determinant<typename P::T, P::WANT> determinant;
  bool odd = false;
  for (int k = rank; k < S::N; k += TEAM) {
    determinant.take(tile.final_row(k)[k]);
    odd ^= exchanged[k] != k;
  }
  determinant.template gather<TEAM>();
  const u32 team = (TEAM < 32 ? (1u << TEAM % 32) - 1 : ~0u) << (lane - rank);
  odd = __popc(__ballot_sync(~0u, odd) & team) % 2 == 1;
  if (stores && rank == 0) {
    matrix_at(arguments.F, arguments.f_matrix, number)[0] = odd ? negated(determinant.value) : determinant.value;
    if constexpr (P::WANT == Want::logdet)
      reinterpret_cast<typename Scalar<typename P::T>::Real*>(arguments.X)[number] = determinant.logarithm;
  }
}

// Phase 2: tiles from the image of A, right-hand sides from memory; the rest is zero.
template <class P, class Arguments>
MANSARD_DEVICE void load_tile(Cyclic<P>& tile, const typename P::T* a, const Arguments& arguments, i64 number) {
  using S = LuCyclicShape<P>;
  using T = typename P::T;
  MANSARD_UNROLL
  for (int q = 0; q < tile.SLOTS; ++q) {
    const int row = tile.row_of(q);
    const bool has = tile.has_row(q);
    MANSARD_UNROLL
    for (int j = 0; j < tile.WIDTH; ++j) {
      const int column = tile.column_of(j);
      const bool inside = has && (j < tile.FULL || column < S::N);
      tile.a[q][j] = inside ? a[entry_at<P::LAYOUT_A, S::A::PITCH>(row, column)] : zero<T>();
    }
    if constexpr (Cyclic<P>::RIGHT > 0) {
      const T* from = matrix_at(arguments.B, arguments.b_matrix, number);
      MANSARD_UNROLL
      for (int c = 0; c < tile.RIGHT; ++c)
        tile.a[q][tile.WIDTH + c] = has ? from[row * arguments.b_row + c * arguments.b_col] : zero<T>();
    }
  }
}

template <class P, class Arguments>
MANSARD_DEVICE void lu_cyclic(const Arguments& arguments) {
  using S = LuCyclicShape<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const Operands<P, Arguments> operands(arguments);
  const int warp = threadIdx.x / 32, team = S::SINGLE ? threadIdx.x % 32 / P::LANES : 0;
  const int thread = threadIdx.x % S::THREADS, rank = threadIdx.x % P::LANES;
  const i64 first = S::SINGLE ? (static_cast<i64>(blockIdx.x) * P::WARPS + warp) * S::GROUP : blockIdx.x;
  if (first >= arguments.BATCH) return;
  const int count = arguments.BATCH - first < S::GROUP ? static_cast<int>(arguments.BATCH - first) : S::GROUP;
  unsigned char* mine = arena + (S::SINGLE ? warp * S::OF_TEAM : 0);
  T* image = reinterpret_cast<T*>(mine);
  S::A::template fill<S::THREADS>(image, operands.A, first, count, arguments.BATCH, thread);
  cp_async_commit();
  int* rows = reinterpret_cast<int*>(mine + S::IMAGE + S::HEADS);
  const CyclicPlace<T> shared{image + team * S::OF_LINES, mine + S::IMAGE, rows,
                              rows + S::ROWS_OF + team * S::EXCHANGED};
  const i64 number = first + min(team, count - 1);
  Cyclic<P> tile(shared);
  cp_async_wait<0>();
  team_barrier<P>();  // image: the copies of all threads have arrived
  load_tile<P>(tile, S::A::origin(image, operands.A, first) + team * S::A::MATRIX, arguments, number);
  team_barrier<P>();  // image is about to be overwritten by lines; all threads have read it
  tile.eliminate();
  team_barrier<P>();  // lines, rows and exchanged are complete, written by owners of pivot rows and thread 0
  tile.straighten(rank);
  team_barrier<P>();  // lines are in order, by all threads of the team
  const bool speaks = team < count;
  if (speaks && rank == 0) arguments.INFO[number] = tile.info;
  if constexpr (P::WANT == Want::factor) {
MANSARD_UNROLL_BY(1)
    for (int i = 0; i < count; ++i) store_lines<P>(image + i * S::OF_LINES, rows, operands.F, first + i, thread);
    int* pivots = arguments.PIVOTS + first * S::N;
    for (int i = thread; i < count * S::N; i += S::THREADS) pivots[i] = rows[S::ROWS_OF + i];
  } else if (S::SINGLE || warp == 0) {
    if constexpr (P::WANT == Want::solve) substitute_lines<P>(tile, arguments, number, speaks);
    else multiply_pivots<P>(tile, shared.exchanged, arguments, number, speaks);
  }
}

}  // namespace mansard
