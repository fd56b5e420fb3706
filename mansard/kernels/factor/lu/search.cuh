// Rows of a matrix in the registers of a team of lanes, and the search for the next pivot among them.
//
// A lane holds SLOTS whole rows, row_of(q) in slot q. Rows stay in their lanes; `place[q]` is the index of row q after
// the exchanges of LAPACK. The search compares bits that order magnitudes (pivots.cuh). If these do not single out one
// row, or the pivot is not ordinary, `choose` compares exactly and `divide` divides exactly. Where pivots are not
// returned (INVERTED: solve, inverse), ties go to the first row of A, and places of rows that still wait are not
// tracked.
#pragma once
#include "kernels/factor/lu/pivots.cuh"

namespace mansard {

enum class Via { lanes, shared };

// Record of a step for the backward substitution.
template <class T>
struct alignas(sizeof(T) < 8 ? 8 : 16) Solved {
  T inverse;  // of the pivot
  int lane;   // owner of the pivot row

  // Load both members with one instruction, if they fit into 16 bytes.
  MANSARD_DEVICE Solved read() const {
    if constexpr (sizeof(T) == 16) return *this;
    else {
      const auto both = *reinterpret_cast<const Pack<T, 2>*>(this);
      return {both.e[0], low_bits(both.e[1])};
    }
  }
};

// Records of all steps in shared memory, entry k for step k.
template <class T>
struct Steps {
  int* exchanged;     // place of the pivot row before step k, LAPACK's pivot index; for inverses its row of A
  T* inverted;        // inverses of the pivots (inverse only)
  Solved<T>* solved;  // replaces both in a solve
};

template <class P, int LANES>
struct TeamRows {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int M = P::M, N = P::N, STEPS = M < N ? M : N;
  static constexpr int SLOTS = ceil_div(M, LANES), TEAMS = 32 / LANES;
  static constexpr bool SOLVE = P::WANT == Want::solve;
  static constexpr bool KEEP = P::WANT == Want::factor;  // multipliers (L) are stored in place of eliminated entries
  static constexpr bool PRODUCT = P::WANT == Want::determinant || P::WANT == Want::logdet;
  static constexpr bool INVERTED = SOLVE || P::WANT == Want::inverse;  // inverses of pivots are recorded, not places
  static constexpr int RIGHT = SOLVE ? P::NRHS : 0;
  // A lane holds two neighbouring rows instead of rows LANES apart. Used where matrices are an odd number of entries
  // apart and two teams load at once: one team then reads even banks, the other odd ones.
  static constexpr bool PAIRED =
      SLOTS == 2 && M * N % 2 == 1 && LANES * int(sizeof(T)) == 64 && sizeof(T) < 16 && P::WANT != Want::inverse;
  // Pivot rows in shared memory (VIA shared): two lines per team, padded by 16 bytes so that teams, which read at once,
  // use different banks.
  static constexpr bool SHARED = P::VIA == Via::shared;
  static constexpr int SIZE = int(sizeof(T)), PACK = SIZE < 16 ? 16 / SIZE : 1;
  static constexpr int LINE = (ceil_div((N + RIGHT) * SIZE, 128) * 128 + 16) / SIZE;
  static constexpr int CARRIED = SHARED ? 2 * TEAMS * LINE : 0;
  T* carried = nullptr;  // the team's line for even steps; the one for odd steps is TEAMS * LINE entries behind it
  int rank;  // of the lane in its team
  T a[SLOTS][N], b[SLOTS][RIGHT > 0 ? RIGHT : 1];
  int place[SLOTS], info = 0;
  Determinant<T, P::WANT> determinant;

  // `rows`: rows that exist, of the M that the registers can hold.
  MANSARD_DEVICE explicit TeamRows(int rank, int rows = M) : rank(rank) {
    const u32 lanes = LANES < 32 ? (1u << LANES % 32) - 1 : ~0u;
    team = lanes << (threadIdx.x % 32 - rank);
    if constexpr (LANES < 32) renew(team);  // keeps the compiler from computing the mask anew in every step
    renew(this->rank);
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      place[q] = row_of(q);
      mask[q] = row_of(q) < rows ? WAITS : OVER;
    }
  }
  MANSARD_DEVICE int row_of(int q) const { return PAIRED ? rank * SLOTS + q : rank + q * LANES; }
  MANSARD_DEVICE bool has(int q) const { return M % LANES == 0 || (q + 1 < SLOTS && !PAIRED) || row_of(q) < M; }
  // row_of(q), or for a slot without a row one that another lane loads at the same time (a broadcast).
  MANSARD_DEVICE int some_row(int q) const {
    return has(q) ? row_of(q) : PAIRED ? q + (M - 1 - q) / SLOTS * SLOTS : M - 1;
  }

 protected:
  u32 team;  // mask of the team's lanes
  // mask[q] is and-ed with the order of a magnitude. WAITS lets it pass: the row was no pivot row yet. Other rows have
  // a small mask: OVER, or (INVERTED) the step k in which the row was the pivot row. What these let pass is smaller
  // than the order of any ordinary number.
  static constexpr int WAITS = INVERTED ? -1 : 0x7fffffff, OVER = INVERTED ? 1 << 10 : 0;
  int mask[SLOTS];
  int order[SLOTS], most;  // orders of the entries of the next column, and the team's largest
  T inverse;               // of the lane's own largest entry of that column
  bool odd = false;        // whether a pivot was not ordinary

  // Search `column`, which is column k: the team's largest order, and the inverse of the lane's largest entry, which is
  // formed before it is known whose entry wins.

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

  // The lane of this team that voted, counted in the warp; shuffles of width LANES take it modulo LANES.
  MANSARD_DEVICE int owner_of(u32 votes) const { return 31 - __clz(static_cast<int>(votes & team)); }

  // Lanes that claim the pivot row (`twice`: in two slots), and the last slot that was claimed.
  struct Votes {
    u32 lanes = 0, twice = 0;
    int slot = 0;
    bool ordinary;
    // Whether exactly one lane and slot of every team claims the pivot row, and all pivots are ordinary.
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

  // Exact search in register column `at` for step k: the largest |re| + |im|, and of equal ones the smallest place.
  // Afterwards order[q] == most holds for the winner only. Returns the vote of its lane.
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

  // Entry that becomes a multiplier. Multipliers that are stored (KEEP) have their own sign, that of a zero included;
  // others are formed with the opposite sign, which is free here and saves a negation later.
  MANSARD_DEVICE T signed_entry(int q, int at) const { return KEEP ? a[q][at] : negated(a[q][at]); }

  // Record the inverse of pivot k.
  MANSARD_DEVICE void keep(const Steps<T>& steps, T inverse, int k) const {
    if (INVERTED && rank == 0) (SOLVE ? steps.solved[k].inverse : steps.inverted[k]) = inverse;
  }

  // Exact division: the multipliers of step k from a pivot that may be anything. Notes a zero pivot in `info`.
  MANSARD_DEVICE void divide(T (&multiple)[SLOTS], const Steps<T>& steps, int source, int at, int k) {
    T pivot = a[0][at];
    MANSARD_UNROLL
    for (int q = 1; q < SLOTS; ++q) pivot = chosen(order[q] == most, a[q][at], pivot);
    pivot = lane_value<LANES>(pivot, source);
    Inverse<T> by;
    by.template of<P::WANT == Want::inverse>(pivot);  // infinite for zero: then no entry of the inverse is finite
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) multiple[q] = by.times(signed_entry(q, at));
    if (is_zero(pivot) && info == 0) info = k + 1;
    odd = true;
    if constexpr (INVERTED) {
      by.template of<true>(pivot);
      keep(steps, by.times(from_real<T>(R(1))), k);
    }
  }

  // Exchange places: the pivot row gets place k, the row there gets the pivot row's place. Records the step.
  MANSARD_DEVICE void exchange(const bool (&mine)[SLOTS], const Steps<T>& steps, int source, int at, int k) {
    if constexpr (SOLVE) {  // the substitution needs only the owner's lane
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

  // Calls step(column, entry) for the entries of the pivot row in `line` behind column `at`; right-hand sides are
  // columns N, N + 1, ...
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

  // The owner of the pivot row writes its entries behind column `at` to `line`.
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
