// Elimination in the registers of a team of lanes: each lane has whole rows, one in turn.
//
// Rows stay with their lanes; `place` says where they stand. In each step the team finds the row with the largest entry
// in its column, whose entries go to all lanes by shuffles. The next column is updated first and searched while the
// rest of the update is under way. The search compares bits that order magnitudes (pivots.cuh); where these do not
// decide, or the pivot is not an ordinary number, the step takes a slow path. Where nobody sees the pivots, among equal
// entries that of the first row of A wins, and places of rows that wait are not kept.
//
// VIA shared memory only the columns that are searched next go by shuffles: the lane with the pivot's row writes it
// there, which spares everybody a selection among slots, and 16 bytes come with one instruction.
//
// With ROLLED four steps share their code: the columns of a chunk of four move on by one register in each of them, so
// the pivot's column is always in the first, and finished ones come back to their places in the end.
#pragma once
#include "families/lu/pivots.cuh"

namespace mansard {

enum class Via { lanes, shared };

// What a step leaves for the substitution, read at once.
template <class T>
struct alignas(sizeof(T) < 8 ? 8 : 16) Solved {
  T inverse;  // of the pivot
  int lane;   // that has its row
};

// What steps leave, an entry each.
template <class T>
struct Steps {
  int* exchanged;     // the row that came to the pivot's place
  T* inverted;        // pivots
  Solved<T>* solved;  // to solve, instead of these
};

template <class P, int LANES>
struct Rows {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int M = P::M, N = P::N, STEPS = M < N ? M : N;
  static constexpr int SLOTS = ceil_div(M, LANES), TEAMS = 32 / LANES, CHUNK = 4;
  static constexpr bool SOLVE = P::WANT == Want::solve;
  static constexpr bool KEEP = P::WANT == Want::factor || P::WANT == Want::inverse;  // multipliers
  static constexpr bool PRODUCT = P::WANT == Want::determinant || P::WANT == Want::logdet;
  static constexpr bool INVERTED = SOLVE || P::WANT == Want::inverse;
  static constexpr int RIGHT = SOLVE ? P::NRHS : 0;
  static constexpr bool ALONE = TEAMS == 1 && SLOTS > 1;  // all lanes agree on the slot of the pivot's row
  static constexpr bool EARLY = INVERTED && !ALONE;       // the pivot's row sets out early: slower where factors are kept
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
  MANSARD_DEVICE explicit Rows(int rank, int rows = M) : rank(rank) {
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

  // `count`: only so many steps.
  MANSARD_DEVICE void eliminate(const Steps<T>& steps, int count = STEPS) {
    T column[SLOTS];
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) column[q] = a[q][0];
    search(column, 0);
    constexpr int CHUNKS = P::ROLLED ? STEPS / CHUNK : 0;
    if constexpr (P::ROLLED) {
      MANSARD_UNROLL
      for (int at = 0; at < CHUNKS * CHUNK; at += CHUNK)
MANSARD_UNROLL_BY(1)
        for (int turn = 0; turn < CHUNK; ++turn)
          if (at + turn < count) step<true>(steps, at, turn, at + turn);
          else rotate(at);
    }
    MANSARD_UNROLL
    for (int k = CHUNKS * CHUNK; k < STEPS; ++k)
      if (k < count) step<false>(steps, k, 0, k);
  }

  // Backward substitution; known rows go to give(row, right-hand side, x).
  template <class Give>
  MANSARD_DEVICE void substitute(const Solved<T>* solved, Give give) {
    if (__builtin_expect(__any_sync(~0u, odd), false)) substitute<true>(solved, give);
    else substitute<false>(solved, give);
  }

 private:
  template <bool ODD, class Give>
  MANSARD_DEVICE void substitute(const Solved<T>* solved, Give give) {
    Pack<T, 2> next = *reinterpret_cast<const Pack<T, 2>*>(solved + N - 1);
    MANSARD_UNROLL
    for (int k = N - 1; k >= 0; --k) {
      const Pack<T, 2> step = next;
      const int lane = low_bits(step.e[1]);
      if (k > 0) next = *reinterpret_cast<const Pack<T, 2>*>(solved + k - 1);  // before results are written
      MANSARD_UNROLL
      for (int c = 0; c < RIGHT; ++c) {
        T x = b[0][c];
        MANSARD_UNROLL
        for (int q = 1; q < SLOTS; ++q) x = chosen(mask[q] == k, b[q][c], x);
        x = ODD && odd ? divided_by_own(x, k) : product_of<false>(x, step.e[0]);
        x = lane_value<LANES>(x, lane);
        give(k, c, x);
        MANSARD_UNROLL
        for (int q = 0; q < SLOTS; ++q) multiply_subtract<false>(b[q][c], a[q][k], x);
      }
    }
  }

  u32 team;  // its lanes
  // of a row whose turn is to come, and of another: to solve, where it came to, which is smaller than any entry counts
  static constexpr int WAITS = SOLVE ? -1 : 0x7fffffff, OVER = SOLVE ? 1 << 10 : 0;
  int mask[SLOTS];
  int order[SLOTS], most;  // of the column to come
  T inverse;               // of the lane's own largest entry there
  bool odd = false;        // a pivot was not ordinary

  MANSARD_DEVICE T divided_by_own(T x, int k) const {
    T by = a[0][k];
    MANSARD_UNROLL
    for (int q = 1; q < SLOTS; ++q) by = chosen(mask[q] == k, a[q][k], by);
    Inverse<T> inverse;
    inverse.template of<true>(by);
    return inverse.times(x);
  }

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

  // Step k, whose column is in register `at`: columns of a chunk have moved on by `turn` if they ROTATE.
  template <bool ROTATE>
  MANSARD_DEVICE void step(const Steps<T>& steps, const int at, const int turn, const int k) {
    T multiple[SLOTS], done[SLOTS];
    const bool ordinary = __all_sync(~0u, Ordinary<T>::holds(most));
    u32 votes = 0, twice = 0;
    int source = 0, slot = 0;
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      const u32 its = __ballot_sync(~0u, order[q] == most);
      twice |= votes & its;
      votes |= its;
      if (its != 0) slot = q;
    }
    // what a step begins with is on its way before it is known that the step is an ordinary one
    source = owner_of(votes);
    const T by = lane_value<LANES>(inverse, source);
    T first = by, second = by;  // columns of the pivot's row that are searched next
    const auto fetch = [&] {
      const auto entry = [&](const int j) {
        T u = a[0][j];
        MANSARD_UNROLL
        for (int q = 1; q < SLOTS; ++q) u = chosen(order[q] == most, a[q][j], u);
        return lane_value<LANES>(u, source);
      };
      if (EARLY && at + 1 < N) first = entry(at + 1 < N ? at + 1 : 0);
      if (EARLY && ROTATE && at + CHUNK < N) second = entry(at + CHUNK < N ? at + CHUNK : 0);
    };
    fetch();
    if (__builtin_expect(__popc(votes) == TEAMS && twice == 0 && ordinary, true)) {
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) multiple[q] = product_of<false>(signed_entry(q, at), by);
      keep(steps, by, k);
    } else {
      source = owner_of(choose(at, k));
      MANSARD_UNROLL
      for (int q = 0; ALONE && q < SLOTS; ++q)
        if (__ballot_sync(~0u, order[q] == most) != 0) slot = q;
      divide(multiple, steps, source, at, k);
      fetch();
    }
    bool mine[SLOTS];  // asked again, which is quicker than to carry the answers past the branch
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) mine[q] = order[q] == most;
    exchange(mine, steps, source, at, k);
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      if (mine[q]) mask[q] = SOLVE ? k : OVER;
      const bool live = mask[q] == WAITS;
      done[q] = chosen(KEEP && live, multiple[q], a[q][at]);
      multiple[q] = chosen(live, multiple[q], zero<T>());
    }
    T* line = carried + (SHARED ? k % 2 * TEAMS * LINE : 0);
    if constexpr (SHARED) carry(line, mine, at);
    T row[ALONE ? N : 1];  // the pivot's
    MANSARD_UNROLL
    for (int q = 0; ALONE && q < SLOTS; ++q)
      if (slot == q)
        MANSARD_UNROLL
        for (int j = at + 1; j < N; ++j) row[j] = lane_value<LANES>(a[q][j], source);
    const auto sent = [&](const int j) {
      if constexpr (ALONE) return row[j];
      T u = a[0][j];
      MANSARD_UNROLL
      for (int q = 1; q < SLOTS; ++q) u = chosen(mine[q], a[q][j], u);
      return lane_value<LANES>(u, source);
    };
    const auto update = [&](const int j, T u) {
      const bool moves = ROTATE && j < at + CHUNK;
      if (moves) u = chosen(j - at < CHUNK - turn, u, zero<T>());  // the others are done
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) {
        T sum = a[q][j];
        add_multiple(sum, multiple[q], u);
        a[q][moves ? j - 1 : j] = sum;
      }
    };
    const auto ahead = [&](const int j) { return j == at + 1 || (ROTATE && j == at + CHUNK); };
    MANSARD_UNROLL
    for (int j = 0; j < N; ++j)
      if (ahead(j)) update(j, !EARLY ? sent(j) : j == at + 1 ? first : second);
    T column[SLOTS];
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      if constexpr (ROTATE) {
        column[q] = a[q][at];
        if (at + CHUNK < N) column[q] = chosen(turn + 1 < CHUNK, column[q], a[q][at + CHUNK < N ? at + CHUNK : at]);
      } else {
        column[q] = a[q][at + 1 < N ? at + 1 : at];
      }
    }
    search(column, k + 1);
    if constexpr (SHARED) {
      __syncwarp();
      MANSARD_UNROLL
      for (int begin = 0; begin < N + RIGHT; begin += PACK) {
        if (begin + PACK <= at + 1) continue;
        const auto some = *reinterpret_cast<const Pack<T, PACK>*>(line + begin);
        MANSARD_UNROLL
        for (int i = 0; i < PACK; ++i) {
          if (begin + i > at && begin + i < N && !ahead(begin + i)) update(begin + i, some.e[i]);
          if (begin + i >= N && begin + i < N + RIGHT) update_right(begin + i - N, multiple, some.e[i]);
        }
      }
    } else {
      MANSARD_UNROLL
      for (int j = 0; j < N; ++j)
        if (j > at && !ahead(j)) update(j, sent(j));
      MANSARD_UNROLL
      for (int c = 0; c < RIGHT; ++c) {
        T y = b[0][c];
        MANSARD_UNROLL
        for (int q = 1; q < SLOTS; ++q) y = chosen(mine[q], b[q][c], y);
        update_right(c, multiple, lane_value<LANES>(y, source));
      }
    }
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) a[q][ROTATE ? at + CHUNK - 1 : at] = done[q];
  }

  // Multiples of the pivot's row: where they are kept, with their own sign (a zero's as well), otherwise with the
  // opposite one, which costs nothing when they are made.
  MANSARD_DEVICE T signed_entry(int q, int at) const { return KEEP ? a[q][at] : negated(a[q][at]); }
  static MANSARD_DEVICE void add_multiple(T& sum, T multiple, T u) {
    if constexpr (KEEP) multiply_subtract<false>(sum, multiple, u);
    else multiply_add<false>(sum, multiple, u);
  }

  MANSARD_DEVICE void update_right(const int c, const T (&multiple)[SLOTS], T y) {
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) add_multiple(b[q][c], multiple[q], y);
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

  MANSARD_DEVICE void rotate(const int at) {
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      const T first = a[q][at];
      MANSARD_UNROLL
      for (int j = at + 1; j < at + CHUNK; ++j) a[q][j - 1] = a[q][j];
      a[q][at + CHUNK - 1] = first;
    }
  }

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
    by.template of<false>(pivot);
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
      return;
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
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      if (PRODUCT && mine[q]) determinant.take(a[q][at]);
      if (mine[q]) place[q] = k;
    }
  }
};

}  // namespace mansard
