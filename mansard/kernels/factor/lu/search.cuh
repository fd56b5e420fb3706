// The rows of a team of lanes, whole ones in each, and the search for the next pivot among them.
//
// Rows stay with their lanes; `place` says where they stand. The search compares bits that order magnitudes
// (pivots.cuh); where these do not decide, or the pivot is not an ordinary number, `choose` does, and `divide`. Where
// nobody sees the pivots, among equal entries that of the first row of A wins, and places of rows that wait are not
// kept.
#pragma once
#include "kernels/factor/lu/pivots.cuh"

namespace mansard {

enum class Via { lanes, shared };

// What a step leaves for the substitution.
template <class T>
struct alignas(sizeof(T) < 8 ? 8 : 16) Solved {
  T inverse;  // of the pivot
  int lane;   // that has its row

  // Both at once, if they are no more than 16 bytes.
  MANSARD_DEVICE Solved read() const {
    if constexpr (sizeof(T) == 16) return *this;
    else {
      const auto both = *reinterpret_cast<const Pack<T, 2>*>(this);
      return {both.e[0], low_bits(both.e[1])};
    }
  }
};

// What steps leave, an entry each.
template <class T>
struct Steps {
  int* exchanged;     // the row that came to the pivot's place
  T* inverted;        // pivots
  Solved<T>* solved;  // to solve, instead of these
};

template <class P, int LANES>
struct TeamRows {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int M = P::M, N = P::N, STEPS = M < N ? M : N;
  static constexpr int SLOTS = ceil_div(M, LANES), TEAMS = 32 / LANES;
  static constexpr bool SOLVE = P::WANT == Want::solve;
  static constexpr bool KEEP = P::WANT == Want::factor;  // multipliers
  static constexpr bool PRODUCT = P::WANT == Want::determinant || P::WANT == Want::logdet;
  static constexpr bool INVERTED = SOLVE || P::WANT == Want::inverse;  // nobody sees the pivots
  static constexpr int RIGHT = SOLVE ? P::NRHS : 0;
  // Neighbours in one lane. Where matrices are an odd number of entries apart, and two teams read at once, one finds
  // its rows in even banks then, the other in odd ones.
  static constexpr bool PAIRED =
      SLOTS == 2 && M * N % 2 == 1 && LANES * int(sizeof(T)) == 64 && sizeof(T) < 16 && P::WANT != Want::inverse;
  // a row on its way: teams read at once, from different banks
  static constexpr bool SHARED = P::VIA == Via::shared;
  static constexpr int SIZE = int(sizeof(T)), PACK = SIZE < 16 ? 16 / SIZE : 1;
  static constexpr int LINE = (ceil_div((N + RIGHT) * SIZE, 128) * 128 + 16) / SIZE;
  static constexpr int CARRIED = SHARED ? 2 * TEAMS * LINE : 0;
  T* carried = nullptr;  // the team's first line of that much memory, which has two per team, for steps in turn
  int rank;  // in the team
  T a[SLOTS][N], b[SLOTS][RIGHT > 0 ? RIGHT : 1];
  int place[SLOTS], info = 0;
  Determinant<T, P::WANT> determinant;

  // Only the first `rows` of M rows are there.
  MANSARD_DEVICE explicit TeamRows(int rank, int rows = M) : rank(rank) {
    const u32 lanes = LANES < 32 ? (1u << LANES % 32) - 1 : ~0u;
    team = lanes << (threadIdx.x % 32 - rank);
    if constexpr (LANES < 32) renew(team);  // to be kept, not found again in each step
    renew(this->rank);
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      place[q] = row_of(q);
      mask[q] = row_of(q) < rows ? WAITS : OVER;
    }
  }
  MANSARD_DEVICE int row_of(int q) const { return PAIRED ? rank * SLOTS + q : rank + q * LANES; }
  MANSARD_DEVICE bool has(int q) const { return M % LANES == 0 || (q + 1 < SLOTS && !PAIRED) || row_of(q) < M; }
  // The same, or if there is none one that a lane reads at the same time.
  MANSARD_DEVICE int some_row(int q) const {
    return has(q) ? row_of(q) : PAIRED ? q + (M - 1 - q) / SLOTS * SLOTS : M - 1;
  }

 protected:
  u32 team;  // its lanes
  // of a row whose turn is to come, and of another: where nobody sees the pivots, where it came to, which is smaller
  // than any entry counts
  static constexpr int WAITS = INVERTED ? -1 : 0x7fffffff, OVER = INVERTED ? 1 << 10 : 0;
  int mask[SLOTS];
  int order[SLOTS], most;  // of the column to come
  T inverse;               // of the lane's own largest entry there
  bool odd = false;        // a pivot was not ordinary

  MANSARD_DEVICE void search(const T (&column)[SLOTS], int k) {
    T largest = column[0];
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      order[q] = size_order(column[q]) & mask[q];
      if constexpr (!P::PIVOT) order[q] = row_of(q) == k ? order[q] : 0;
      if (q == 0) most = order[0];
      else {
        largest = chosen(order[q] > most, column[q], largest);
        most = max(most, order[q]);
      }
    }
    most = team_max<LANES>(most, team);
    inverse = ordinary_inverse(largest);
  }

  // The lane of the team that voted; shuffles within a team do not mind that it counts from the warp's first.
  MANSARD_DEVICE int owner_of(u32 votes) const { return 31 - __clz(static_cast<int>(votes & team)); }

  // Lanes that have the pivot's row, and in which slot.
  struct Votes {
    u32 lanes = 0, twice = 0;
    int slot = 0;
    bool ordinary;
    // Whether there is one in each team, with an ordinary pivot.
    MANSARD_DEVICE bool decide() const { return __popc(lanes) == TEAMS && twice == 0 && ordinary; }
  };
  MANSARD_DEVICE Votes vote() const {
    Votes votes;
    votes.ordinary = __all_sync(~0u, Ordinary<T>::holds(most));
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      const u32 its = __ballot_sync(~0u, order[q] == most);
      votes.twice |= votes.lanes & its;
      votes.lanes |= its;
      if (its != 0) votes.slot = q;
    }
    return votes;
  }

  // Who has the pivot, whatever the column holds: the first row of the largest |re| + |im|. Its order is `most`
  // afterwards, and no other.
  MANSARD_DEVICE u32 choose(int at, int k) {
    R size = R(-2);
    int where = 1 << 20, slot = 0;
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      const R its = ranked(modulus_1(a[q][at]), place[q] == k);
      const bool better = P::PIVOT ? its > size || (its == size && place[q] < where) : row_of(q) == k;
      if (mask[q] == WAITS && better) size = its, where = place[q], slot = q;
    }
    const int found = P::PIVOT ? exact_owner<LANES>(size, where, slot) : where < (1 << 20) ? slot : -1;
    most = 1;
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) order[q] = found == q;
    return __ballot_sync(~0u, found >= 0);
  }

  // Multiples of the pivot's row: where they are kept, with their own sign (a zero's as well), otherwise with the
  // opposite one, which costs nothing when they are made.
  MANSARD_DEVICE T signed_entry(int q, int at) const { return KEEP ? a[q][at] : negated(a[q][at]); }

  // The inverse of a pivot.
  MANSARD_DEVICE void keep(const Steps<T>& steps, T inverse, int k) const {
    if (INVERTED && rank == 0) (SOLVE ? steps.solved[k].inverse : steps.inverted[k]) = inverse;
  }

  MANSARD_DEVICE void divide(T (&multiple)[SLOTS], const Steps<T>& steps, int source, int at, int k) {
    T pivot = a[0][at];
    MANSARD_UNROLL
    for (int q = 1; q < SLOTS; ++q) pivot = chosen(order[q] == most, a[q][at], pivot);
    pivot = lane_value<LANES>(pivot, source);
    Inverse<T> by;
    by.template of<P::WANT == Want::inverse>(pivot);  // what has none had better not look as if it had
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) multiple[q] = by.times(signed_entry(q, at));
    if (is_zero(pivot) && info == 0) info = k + 1;
    odd = true;
    if constexpr (INVERTED) {
      by.template of<true>(pivot);
      keep(steps, by.times(from_real<T>(R(1))), k);
    }
  }

  // The pivot's row comes to place k, and what was there goes where it was.
  MANSARD_DEVICE void exchange(const bool (&mine)[SLOTS], const Steps<T>& steps, int source, int at, int k) {
    if constexpr (SOLVE) {  // rows are known by their lanes
      if (rank == 0) steps.solved[k].lane = source;
    } else if constexpr (INVERTED) {
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q)
        if (mine[q]) steps.exchanged[k] = row_of(q);
    } else if constexpr (P::PIVOT) {
      int was = place[0];
      MANSARD_UNROLL
      for (int q = 1; q < SLOTS; ++q) was = mine[q] ? place[q] : was;
      was = __shfl_sync(~0u, was, source, LANES);
      if (rank == 0) steps.exchanged[k] = was;
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q)
        if (place[q] == k) place[q] = was;
    } else if (rank == 0) {
      steps.exchanged[k] = k;
    }
    if constexpr (!INVERTED) {
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) {
        if (PRODUCT && mine[q]) determinant.take(a[q][at]);
        if (mine[q]) place[q] = k;
      }
    }
  }

  // Calls step(column, entry) for the pivot's row in `line`, right-hand sides after the columns.
  template <class Step>
  static MANSARD_DEVICE void each_of(const T* line, const int at, Step step) {
    MANSARD_UNROLL
    for (int begin = 0; begin < N + RIGHT; begin += PACK) {
      if (begin + PACK <= at + 1) continue;
      const auto some = *reinterpret_cast<const Pack<T, PACK>*>(line + begin);
      MANSARD_UNROLL
      for (int i = 0; i < PACK; ++i)
        if (begin + i > at && begin + i < N + RIGHT) step(begin + i, some.e[i]);
    }
  }

  // The pivot's row, from the column after `at` on, to `line`.
  MANSARD_DEVICE void carry(T* line, const bool (&mine)[SLOTS], const int at) const {
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q)
      if (mine[q])
        MANSARD_UNROLL
        for (int begin = 0; begin < N + RIGHT; begin += PACK) {
          if (begin + PACK <= at + 1) continue;
          Pack<T, PACK> some;
          MANSARD_UNROLL
          for (int i = 0; i < PACK; ++i) {
            const int j = begin + i;
            some.e[i] = j < N ? a[q][j < N ? j : 0] : j < N + RIGHT ? b[q][j < N + RIGHT ? j - N : 0] : zero<T>();
          }
          *reinterpret_cast<Pack<T, PACK>*>(line + begin) = some;
        }
  }
};

}  // namespace mansard
