// The inverse of a matrix in the registers of a block of threads, by the method of jordan.cuh.
//
// A lane has a tile: some of the rows, of some of the columns, one in turn. The squarer it is, the less of the pivot's
// row and column has to be carried to it, which is what limits teams with whole rows. LANES_N lanes of a warp share
// their rows; column k is in the first register of part k % LANES_N, since columns move on by one register in every
// LANES_N-th step. In each step every warp offers its row with the largest entry in shared memory, and after a barrier
// all take the best of these.
#pragma once
#include "kernels/factor/lu/pivots.cuh"

namespace mansard {

// Sizes of the tiles of an N x N matrix, and what warps offer: a row, part by part, and before it what is known of it.
template <class T, int N, int WARPS, int LANES_N>
struct TileShape {
  static constexpr int ROWS = 32 / LANES_N;  // lanes with different rows
  static constexpr int SLOTS = ceil_div(N, WARPS * ROWS), WIDTH = ceil_div(N, LANES_N);
  static constexpr int SIZE = int(sizeof(T)), PACK = SIZE < 16 ? 16 / SIZE : 1;
  static constexpr int HEAD = ceil_div(SIZE + 12, 16) * 16;
  static constexpr int PART = (ceil_div(WIDTH * SIZE, 16) | 1) * 16;  // bytes: parts begin in different banks
  static constexpr int OFFER = HEAD + LANES_N * PART;
};

template <class T, int N, int WARPS, int LANES_N, bool PIVOT>
struct Tile {
  using S = TileShape<T, N, WARPS, LANES_N>;
  using R = typename Scalar<T>::Real;
  static constexpr int SLOTS = S::SLOTS, WIDTH = S::WIDTH, PACK = S::PACK;
  struct Head {
    T by;  // the inverse of the pivot
    R size;
    int row;
  };
  static_assert(sizeof(Head) <= S::HEAD);
  // What steps leave in shared memory, an entry each: their rows and inverted pivots; of each row, its step.
  struct Steps {
    int *rows, *places;
    T* inverted;
  };
  T a[SLOTS][WIDTH];
  int info = 0;

  MANSARD_DEVICE Tile() : warp(threadIdx.x / 32), lane(threadIdx.x % 32), part(lane / S::ROWS), rank(lane % S::ROWS) {
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q)
      if (row_of(q) < N) waiting |= 1u << q;
  }

  // Calls step(slot, register, row, column) for the entries of the lane.
  template <class Step>
  MANSARD_DEVICE void each(Step step) const {
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q)
      MANSARD_UNROLL
      for (int j = 0; j < WIDTH; ++j) {
        const int column = j * LANES_N + part;
        const bool has = (N % (WARPS * S::ROWS) == 0 || row_of(q) < N) && (N % LANES_N == 0 || column < N);
        if (has) step(q, j, row_of(q), column);
      }
  }

  // `offers` are two sets of WARPS, of steps in turn.
  MANSARD_DEVICE void invert(unsigned char* offers, const Steps& steps) {
    search(0, 0);
    int k = 0;
MANSARD_UNROLL_BY(1)
    for (int round = 0; round < WIDTH; ++round) {
      const int last = min(LANES_N, N - round * LANES_N) - 1;
MANSARD_UNROLL_BY(1)
      for (int turn = 0; turn < last; ++turn, ++k) step<false>(offers, steps, k, turn, turn + 1);
      step<true>(offers, steps, k, last, 0);
      ++k;
    }
  }

 private:
  int warp, lane, part, rank;
  u32 waiting = 0;  // slots whose turn is to come
  // of the column to come: the order of the warp's largest entry; the lane's own, and whether it is as large
  int most, slot;
  R size;
  T inverse;
  bool candidate;

  MANSARD_DEVICE int row_of(int q) const { return (q * WARPS + warp) * S::ROWS + rank; }

  // Search the column of step k, which is in the first register of part `turn`.
  MANSARD_DEVICE void search(int turn, int k) {
    int order = -1;
    T largest = a[0][0];
    slot = 0;
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      int its = waiting >> q & 1 ? size_order(a[q][0]) : -1;
      if constexpr (!PIVOT) its = row_of(q) == k ? 0 : -1;
      if (its > order) order = its, slot = q, largest = a[q][0];
    }
    if (part != turn) order = -1;
    most = warp_max(order);
    candidate = order == most;
    size = PIVOT ? modulus_1(largest) : R(1);  // of one warp at a time
    inverse = ordinary_inverse(largest);
  }

  // The lane that offers the warp's row. Where the order of sizes does not tell them apart any will do, but for those
  // that are not ordinary.
  MANSARD_DEVICE int owner(int turn) {
    if (__builtin_expect(PIVOT && most >= 0 && !Ordinary<T>::holds(most), false)) {
      size = R(-1);
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) {
        R its = modulus_1(a[q][0]);
        if (its != its) its = infinity(its);  // it had better spread at once
        if (part == turn && (waiting >> q & 1) != 0 && its > size) size = its, slot = q;
      }
      candidate = exact_owner<32>(size, lane, 0) == 0;
    }
    if (most < 0) size = R(-1);
    return __ffs(static_cast<int>(__ballot_sync(~0u, candidate))) - 1;
  }

  template <bool SHIFT>
  MANSARD_DEVICE void step(unsigned char* offers, const Steps& steps, int k, int turn, int next) {
    unsigned char* offered = offers + k % 2 * (WARPS * S::OFFER);
    T multiple[SLOTS];
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q)
      multiple[q] = LANES_N == 1 ? a[q][0] : lane_value<32>(a[q][0], turn * S::ROWS + rank);
    const int from = owner(turn), its_slot = __shfl_sync(~0u, slot, from);
    const bool mine = rank == from % S::ROWS;
    offer(offered + warp * S::OFFER, from, its_slot, mine);
    __syncthreads();
    int winner = 0;
    Head head = *reinterpret_cast<const Head*>(offered);
    MANSARD_UNROLL
    for (int other = 1; other < WARPS; ++other) {
      const Head its = *reinterpret_cast<const Head*>(offered + other * S::OFFER);
      if (its.size > head.size) head = its, winner = other;
    }
    const unsigned char* line = offered + winner * S::OFFER + S::HEAD;
    divide(multiple, head, *reinterpret_cast<const T*>(line + turn * S::PART), steps, k);
    // The column that the step is for has what becomes of the unit matrix: one in the pivot's row, multiples of that in
    // others.
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) a[q][0] = chosen(part == turn, zero<T>(), a[q][0]);
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q)
      if (its_slot == q && winner == warp && mine) {
        multiple[q] = zero<T>();
        a[q][0] = chosen(part == turn, from_real<T>(1), a[q][0]);
        waiting &= ~(1u << q);
      }
    update<SHIFT>(reinterpret_cast<const T*>(line + part * S::PART), multiple, turn, next, k);
  }

  // The warp's row, by the lanes that have it.
  MANSARD_DEVICE void offer(unsigned char* to, int from, int its_slot, bool mine) const {
    if (!mine) return;
    if (lane == from) *reinterpret_cast<Head*>(to) = Head{inverse, size, (its_slot * WARPS + warp) * S::ROWS + rank};
    T* line = reinterpret_cast<T*>(to + S::HEAD + part * S::PART);
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q)
      if (its_slot == q)
        MANSARD_UNROLL
        for (int begin = 0; begin < WIDTH; begin += PACK) {
          Pack<T, PACK> some;
          MANSARD_UNROLL
          for (int i = 0; i < PACK; ++i) some.e[i] = a[q][begin + i < WIDTH ? begin + i : 0];
          *reinterpret_cast<Pack<T, PACK>*>(line + begin) = some;
        }
  }

  // Entries of the column become multiples of the pivot's row.
  MANSARD_DEVICE void divide(T (&multiple)[SLOTS], const Head& head, T pivot, const Steps& steps, int k) {
    T by = head.by;
    if (__builtin_expect(Ordinary<T>::holds(order_of(PIVOT ? head.size : modulus_1(pivot))), true)) {
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) multiple[q] = product_of<false>(negated(multiple[q]), by);
    } else {
      Inverse<T> exact;
      exact.template of<true>(pivot);  // of zero infinite: what has no inverse had better not look as if it had
      by = exact.times(from_real<T>(1));
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) multiple[q] = exact.times(negated(multiple[q]));
      if (is_zero(pivot) && info == 0) info = k + 1;
    }
    if (threadIdx.x == 0) {
      steps.rows[k] = head.row;
      steps.places[head.row] = k;
      steps.inverted[k] = by;
    }
  }

  // Multiples are added; the next column comes first, and is searched with the rest of the update.
  template <bool SHIFT>
  MANSARD_DEVICE void update(const T* line, const T (&multiple)[SLOTS], int turn, int next, int k) {
    const auto pack_of = [&](const int begin) { return *reinterpret_cast<const Pack<T, PACK>*>(line + begin); };
    T first[SLOTS];
    const auto add = [&](const int j, T u) {
      if (j == 0) u = chosen(part == turn, from_real<T>(1), u);
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) {
        T& to = !SHIFT ? a[q][j] : j == 0 ? first[q] : a[q][j > 0 ? j - 1 : 0];
        to = a[q][j];
        multiply_add<false>(to, multiple[q], u);
      }
    };
    auto some = pack_of(0);
    add(0, some.e[0]);
    if constexpr (SHIFT && WIDTH > 1) {
      if constexpr (PACK == 1) some = pack_of(1);
      add(1, some.e[PACK > 1 ? 1 : 0]);
    }
    if constexpr (SHIFT && WIDTH == 1) {
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) a[q][0] = first[q];
    }
    search(next, k + 1);
    MANSARD_UNROLL
    for (int begin = 0; begin < WIDTH; begin += PACK) {
      const auto more = pack_of(begin);
      MANSARD_UNROLL
      for (int i = 0; i < PACK; ++i)
        if (begin + i > (SHIFT ? 1 : 0) && begin + i < WIDTH) add(begin + i, more.e[i]);
    }
    if constexpr (SHIFT && WIDTH > 1) {
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) a[q][WIDTH - 1] = first[q];
    }
  }
};

}  // namespace mansard
