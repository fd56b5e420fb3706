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
  MANSARD_DEVICE explicit Rows(int rank, int rows = M) : rank(rank), first_lane(threadIdx.x % 32 - rank) {
    renew(first_lane);  // to be kept, not found again in each step
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      place[q] = row_of(q);
      mask[q] = row_of(q) < rows ? 0x7fffffff : 0;
    }
  }
  MANSARD_DEVICE int row_of(int q) const { return rank + q * LANES; }
  MANSARD_DEVICE bool has(int q) const { return M % LANES == 0 || q + 1 < SLOTS || row_of(q) < M; }

  // Writes one number per step: the row that is exchanged, or (to solve) the lane that has the pivot's row; and
  // inverted pivots, where they are of use. `count`: only so many steps.
  MANSARD_DEVICE void eliminate(int* steps, T* inverted, int count = STEPS) {
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
          if (at + turn < count) step<true>(steps, inverted, at, turn, at + turn);
          else rotate(at);
    }
    MANSARD_UNROLL
    for (int k = CHUNKS * CHUNK; k < STEPS; ++k)
      if (k < count) step<false>(steps, inverted, k, 0, k);
  }

  // Backward substitution; known rows go to give(row, right-hand side, x).
  template <class Give>
  MANSARD_DEVICE void substitute(const int* lanes, const T* inverted, Give give) {
    if (__builtin_expect(__any_sync(~0u, odd), false)) substitute<true>(lanes, inverted, give);
    else substitute<false>(lanes, inverted, give);
  }

 private:
  template <bool ODD, class Give>
  MANSARD_DEVICE void substitute(const int* lanes, const T* inverted, Give give) {
    MANSARD_UNROLL
    for (int k = N - 1; k >= 0; --k) {
      const int source = lanes[k];
      MANSARD_UNROLL
      for (int c = 0; c < RIGHT; ++c) {
        T x = b[0][c];
        MANSARD_UNROLL
        for (int q = 1; q < SLOTS; ++q) x = chosen(place[q] == k, b[q][c], x);
        x = ODD && odd ? divided_by_own(x, k) : product_of<false>(x, inverted[k]);
        x = lane_value<LANES>(x, source);
        give(k, c, x);
        MANSARD_UNROLL
        for (int q = 0; q < SLOTS; ++q) multiply_add<false>(b[q][c], negated(a[q][k]), x);
      }
    }
  }

  int first_lane;          // of the team
  int mask[SLOTS];         // 0 where a row's turn is over
  int order[SLOTS], most;  // of the column to come
  T inverse;               // of the lane's own largest entry there
  bool odd = false;        // a pivot was not ordinary

  MANSARD_DEVICE T divided_by_own(T x, int k) const {
    T by = a[0][k];
    MANSARD_UNROLL
    for (int q = 1; q < SLOTS; ++q) by = chosen(place[q] == k, a[q][k], by);
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
    most = team_max<LANES>(most);
    inverse = ordinary_inverse(largest);
  }

  MANSARD_DEVICE int first_of(u32 votes) const {
    if constexpr (LANES < 32) votes = votes >> first_lane & ((1u << LANES) - 1);
    return __ffs(static_cast<int>(votes)) - 1;
  }

  // Who has the pivot, whatever the column holds: the first row of the largest |re| + |im|. `mine`: in which slot this
  // lane has it, or -1.
  MANSARD_DEVICE u32 choose(int& mine, int at, int k) {
    R size = R(-2);
    int where = 1 << 20, slot = 0;
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      const R its = ranked(modulus_1(a[q][at]), place[q] == k);
      const bool better = P::PIVOT ? its > size || (its == size && place[q] < where) : row_of(q) == k;
      if (mask[q] != 0 && better) size = its, where = place[q], slot = q;
    }
    mine = P::PIVOT ? exact_owner<LANES>(size, where, slot) : where < (1 << 20) ? slot : -1;
    return __ballot_sync(~0u, mine >= 0);
  }

  // Step k, whose column is in register `at`: columns of a chunk have moved on by `turn` if they ROTATE.
  template <bool ROTATE>
  MANSARD_DEVICE void step(int* steps, T* inverted, const int at, const int turn, const int k) {
    T minus[SLOTS], done[SLOTS];
    const bool ordinary = Ordinary<T>::holds(most);
    u32 votes = 0;
    int owners = 0, source, slot = 0, mine = -1;
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      const bool own = !ordinary || order[q] == most;
      const u32 its = __ballot_sync(~0u, own);
      votes |= its;
      owners += __popc(its);
      if (own) mine = q;
      if (its != 0) slot = q;
    }
    if (__builtin_expect(owners == TEAMS, true)) {
      source = first_of(votes);
      const T by = lane_value<LANES>(inverse, source);
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) minus[q] = product_of<false>(signed_entry(q, at), by);
      if (INVERTED && rank == 0) inverted[k] = by;
    } else {
      source = first_of(choose(mine, at, k));
      MANSARD_UNROLL
      for (int q = 0; ALONE && q < SLOTS; ++q)
        if (__ballot_sync(~0u, mine == q) != 0) slot = q;
      divide(mine, minus, inverted, source, at, k);
    }
    exchange(mine, steps, source, at, k);
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      if (mine == q) mask[q] = 0;
      const bool live = mask[q] != 0;
      done[q] = chosen(KEEP && live, minus[q], a[q][at]);
      minus[q] = chosen(live, KEEP ? opposite(minus[q]) : minus[q], zero<T>());
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
      for (int q = 1; q < SLOTS; ++q) u = chosen(mine == q, a[q][j], u);
      return lane_value<LANES>(u, source);
    };
    const auto update = [&](const int j, T u) {
      const bool moves = ROTATE && j < at + CHUNK;
      if (moves) u = chosen(j - at < CHUNK - turn, u, zero<T>());  // the others are done
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) {
        T sum = a[q][j];
        multiply_add<false>(sum, minus[q], u);
        a[q][moves ? j - 1 : j] = sum;
      }
    };
    const auto ahead = [&](const int j) { return j == at + 1 || (ROTATE && j == at + CHUNK); };
    MANSARD_UNROLL
    for (int j = 0; j < N; ++j)
      if (ahead(j)) update(j, sent(j));
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
          if (begin + i >= N && begin + i < N + RIGHT) update_right(begin + i - N, minus, some.e[i]);
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
        for (int q = 1; q < SLOTS; ++q) y = chosen(mine == q, b[q][c], y);
        update_right(c, minus, lane_value<LANES>(y, source));
      }
    }
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) a[q][ROTATE ? at + CHUNK - 1 : at] = done[q];
  }

  MANSARD_DEVICE void update_right(const int c, const T (&minus)[SLOTS], T y) {
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) multiply_add<false>(b[q][c], minus[q], y);
  }

  // What multipliers are made of: where they are kept, with their own sign (a zero's as well), otherwise the opposite.
  MANSARD_DEVICE T signed_entry(int q, int at) const { return KEEP ? a[q][at] : negated(a[q][at]); }

  // The pivot's row, from the column after `at` on, to `line`.
  MANSARD_DEVICE void carry(T* line, int mine, const int at) const {
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q)
      if (mine == q)
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

  MANSARD_DEVICE void divide(int mine, T (&minus)[SLOTS], T* inverted, int source, int at, int k) {
    T pivot = a[0][at];
    MANSARD_UNROLL
    for (int q = 1; q < SLOTS; ++q) pivot = chosen(mine == q, a[q][at], pivot);
    pivot = lane_value<LANES>(pivot, source);
    Inverse<T> by;
    by.template of<false>(pivot);
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) minus[q] = by.times(signed_entry(q, at));
    if (is_zero(pivot) && info == 0) info = k + 1;
    odd = true;
    if constexpr (INVERTED) {
      by.template of<true>(pivot);
      if (rank == 0) inverted[k] = by.times(from_real<T>(R(1)));
    }
  }

  // The pivot's row comes to place k, and what was there goes where it was.
  MANSARD_DEVICE void exchange(int mine, int* steps, int source, int at, int k) {
    if constexpr (SOLVE) {
      if (rank == 0) steps[k] = source;
    } else if constexpr (P::PIVOT) {
      int was = place[0];
      MANSARD_UNROLL
      for (int q = 1; q < SLOTS; ++q) was = mine == q ? place[q] : was;
      was = __shfl_sync(~0u, was, source, LANES);
      if (rank == 0) steps[k] = was;
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q)
        if (place[q] == k) place[q] = was;
    } else if (rank == 0) {
      steps[k] = k;
    }
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      if (PRODUCT && mine == q) determinant.take(a[q][at]);
      if (mine == q) place[q] = k;
    }
  }
};

}  // namespace mansard
