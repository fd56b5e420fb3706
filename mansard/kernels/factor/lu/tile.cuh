// A^-1 by Gauss-Jordan elimination (jordan.cuh) in the registers of a thread block; a lane holds a tile of the matrix.
//
// Step k:  m_i = -a_ik / a_pk;  a_ij += m_i * a_pj for i != p;  column k becomes m_i, and 1 in the pivot row p.
//
// Lane (part, rank) of warp w holds rows (q * WARPS + w) * ROWS + rank, q < SLOTS, of the columns j * LANES_N + part,
// j < WIDTH. The squarer a tile, the fewer entries of the pivot row and column it needs, which is what limits teams
// with whole rows. Columns move by one register in every LANES_N-th step, so that column k is in register 0 of the
// lanes of part k % LANES_N. In each step every warp writes its row with the largest entry to shared memory (its
// offer); after a barrier all warps take the best offer. Barrier: one __syncthreads per step -> offers[k % 2] -> the
// other warps. Set k % 2 is written again in step k + 2, after the barrier of step k + 1, which a warp passes only
// after it has read set k % 2.
#pragma once
#include "kernels/factor/lu/pivots.cuh"

namespace mansard {

// Sizes of the tiles of an N x N matrix, and of an offer: a head, then the row as LANES_N parts of WIDTH entries.
template <class T, int N, int WARPS, int LANES_N>
struct TileShape {
  static constexpr int ROWS = 32 / LANES_N;  // lanes with different rows
  static constexpr int SLOTS = ceil_div(N, WARPS * ROWS), WIDTH = ceil_div(N, LANES_N);
  static constexpr int SIZE = int(sizeof(T)), PACK = SIZE < 16 ? 16 / SIZE : 1;
  static constexpr int HEAD = ceil_div(SIZE + 12, 16) * 16;
  static constexpr int PART = (ceil_div(WIDTH * SIZE, 16) | 1) * 16;  // bytes; odd, so parts begin in different banks
  static constexpr int OFFER = HEAD + LANES_N * PART;
};

template <class T, int N, int WARPS, int LANES_N, bool PIVOT>
struct Tile {
  using S = TileShape<T, N, WARPS, LANES_N>;
  using R = typename Scalar<T>::Real;
  static constexpr int SLOTS = S::SLOTS, WIDTH = S::WIDTH, PACK = S::PACK;
  struct Head {
    T by;    // the inverse of the pivot
    R size;  // its magnitude; negative if the warp has no row left
    int row;
  };
  static_assert(sizeof(Head) <= S::HEAD);
  // Records in shared memory: rows[k] and inverted[k], the pivot row of step k and the inverse of its pivot; places[i],
  // the step in which row i was the pivot row.
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

  // Calls step(slot, register, row, column) for the lane's entries of the matrix.
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

  // All N steps. `offers` points to two sets of WARPS offers, used in turn.
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
  u32 waiting = 0;  // bit q: the row in slot q was no pivot row yet
  // results of the search in the next column
  int most, slot;  // order of the warp's largest entry; the lane's slot with its own largest entry
  R size;          // magnitude and inverse of the lane's largest entry
  T inverse;
  bool candidate;  // the lane's largest entry has the order `most`

  MANSARD_DEVICE int row_of(int q) const { return (q * WARPS + warp) * S::ROWS + rank; }

  // Search the column of step k, which is in register 0 of the lanes of part `turn`.
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
    size = PIVOT ? modulus_1(largest) : R(1);  // without pivoting only the warp that has row k makes an offer
    inverse = ordinary_inverse(largest);
  }

  // The lane that holds the column entry of the row which the warp offers. Among ordinary entries of equal order any
  // will do; others are compared exactly.
  MANSARD_DEVICE int owner(int turn) {
    if (__builtin_expect(PIVOT && most >= 0 && !Ordinary<T>::holds(most), false)) {
      size = R(-1);
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) {
        R its = modulus_1(a[q][0]);
        if (its != its) its = infinity(its);  // a NaN becomes the pivot, so that it spreads to the whole result
        if (part == turn && (waiting >> q & 1) != 0 && its > size) size = its, slot = q;
      }
      candidate = exact_owner<32>(size, lane, 0) == 0;
    }
    if (most < 0) size = R(-1);
    return __ffs(static_cast<int>(__ballot_sync(~0u, candidate))) - 1;
  }

  // Step k; its column is in register 0 of part `turn`, that of step k + 1 in part `next`. SHIFT: columns move.
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
    __syncthreads();  // offers[k % 2] are complete, written by all warps
    int winner = 0;
    Head head = *reinterpret_cast<const Head*>(offered);
    MANSARD_UNROLL
    for (int other = 1; other < WARPS; ++other) {
      const Head its = *reinterpret_cast<const Head*>(offered + other * S::OFFER);
      if (its.size > head.size) head = its, winner = other;
    }
    const unsigned char* line = offered + winner * S::OFFER + S::HEAD;
    divide(multiple, head, *reinterpret_cast<const T*>(line + turn * S::PART), steps, k);
    // Column k is replaced by a column of the unit matrix, 1 in the pivot row; the update adds m_i * 1 to the others.
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

  // Write the warp's offer: each lane of the row writes its part.
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

  // Turn the entries of column k into multipliers m_i; thread 0 records the step.
  MANSARD_DEVICE void divide(T (&multiple)[SLOTS], const Head& head, T pivot, const Steps& steps, int k) {
    T by = head.by;
    if (__builtin_expect(Ordinary<T>::holds(order_of(PIVOT ? head.size : modulus_1(pivot))), true)) {
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) multiple[q] = product_of<false>(negated(multiple[q]), by);
    } else {
      Inverse<T> exact;
      exact.template of<true>(pivot);  // infinite for zero: the inverse of a singular matrix is not finite
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

  // a_ij += m_i * a_pj. The column of step k + 1 is updated first and searched during the rest of the update.
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
