// Elimination in the registers of a team of lanes: each lane has whole rows, one in turn.
//
// Rows stay with their lanes; `place` says where they stand. In each step the team finds the row with the largest entry
// in its column, whose entries go to all lanes by shuffles. The next column is updated first and searched while the
// rest of the update is under way. The search compares bits that order magnitudes (pivots.cuh); where these do not
// decide, or the pivot is not an ordinary number, the step takes a slow path. Where nobody sees the pivots, among equal
// entries that of the first row of A wins, and places of rows that wait are not kept.
//
// With ROLLED four steps share their code: the columns of a chunk of four move on by one register in each of them, so
// the pivot's column is always in the first, and finished ones come back to their places in the end.
#pragma once
#include "families/lu/pivots.cuh"

namespace mansard {

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
  int rank;  // in the team
  T a[SLOTS][N], b[SLOTS][RIGHT > 0 ? RIGHT : 1];
  int place[SLOTS], info = 0;
  Determinant<T, P::WANT> determinant;

  // Only the first `rows` of M rows are there.
  MANSARD_DEVICE explicit Rows(int rank, int rows = M) : rank(rank) {
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
    MANSARD_UNROLL
    for (int k = N - 1; k >= 0; --k) {
      const int source = lanes[k];
      MANSARD_UNROLL
      for (int c = 0; c < RIGHT; ++c) {
        T x = b[0][c];
        MANSARD_UNROLL
        for (int q = 1; q < SLOTS; ++q) x = chosen(place[q] == k, b[q][c], x);
        x = odd ? divided_by_own(x, k) : product_of<false>(x, inverted[k]);
        x = lane_value<LANES>(x, source);
        give(k, c, x);
        MANSARD_UNROLL
        for (int q = 0; q < SLOTS; ++q) multiply_add<false>(b[q][c], negated(a[q][k]), x);
      }
    }
  }

 private:
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
      order[q] = order_of(modulus_1(column[q])) & mask[q];
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
    if constexpr (LANES < 32) votes = votes >> (threadIdx.x % 32 - rank) & ((1u << LANES) - 1);
    return __ffs(static_cast<int>(votes)) - 1;
  }

  // Who has the pivot, whatever the column holds: the first row of the largest |re| + |im|.
  MANSARD_DEVICE u32 choose(bool (&own)[SLOTS], int at, int k) {
    R size = R(-2);
    int where = 1 << 20, slot = 0;
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      const R its = ranked(modulus_1(a[q][at]), place[q] == k);
      const bool better = P::PIVOT ? its > size || (its == size && place[q] < where) : row_of(q) == k;
      if (mask[q] != 0 && better) size = its, where = place[q], slot = q;
    }
    const int mine = P::PIVOT ? exact_owner<LANES>(size, where, slot) : where < (1 << 20) ? slot : -1;
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) own[q] = mine == q;
    return __ballot_sync(~0u, mine >= 0);
  }

  // Step k, whose column is in register `at`: columns of a chunk have moved on by `turn` if they ROTATE.
  template <bool ROTATE>
  MANSARD_DEVICE void step(int* steps, T* inverted, const int at, const int turn, const int k) {
    bool own[SLOTS];
    T x[SLOTS], minus[SLOTS], done[SLOTS];
    const bool ordinary = Ordinary<T>::holds(most);
    u32 votes = 0;
    int owners = 0, source;
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      own[q] = !ordinary || order[q] == most;
      const u32 its = __ballot_sync(~0u, own[q]);
      votes |= its;
      owners += __popc(its);
    }
    if (owners == TEAMS) {
      source = first_of(votes);
      const T by = lane_value<LANES>(inverse, source);
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) x[q] = product_of<false>(a[q][at], by);
      if (INVERTED && rank == 0) inverted[k] = by;
    } else {
      source = first_of(choose(own, at, k));
      divide(own, x, inverted, source, at, k);
    }
    exchange(own, steps, source, at, k);
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      if (own[q]) mask[q] = 0;
      const bool live = mask[q] != 0;
      minus[q] = chosen(live, negated(x[q]), zero<T>());
      done[q] = chosen(KEEP && live, x[q], a[q][at]);
    }
    const auto update = [&](const int j) {
      T u = a[0][j];
      MANSARD_UNROLL
      for (int q = 1; q < SLOTS; ++q) u = chosen(own[q], a[q][j], u);
      u = lane_value<LANES>(u, source);
      const bool moves = ROTATE && j < at + CHUNK;
      if (moves) u = chosen(j - at < CHUNK - turn, u, zero<T>());  // the others are done
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) {
        T sum = a[q][j];
        multiply_add<false>(sum, minus[q], u);
        a[q][moves ? j - 1 : j] = sum;
      }
    };
    if (at + 1 < N) update(at + 1 < N ? at + 1 : at);
    if (ROTATE && at + CHUNK < N) update(at + CHUNK < N ? at + CHUNK : at);
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
    MANSARD_UNROLL
    for (int j = 0; j < N; ++j)
      if (j > at + 1 && !(ROTATE && j == at + CHUNK)) update(j);
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) a[q][ROTATE ? at + CHUNK - 1 : at] = done[q];
    if constexpr (SOLVE) {
      MANSARD_UNROLL
      for (int c = 0; c < RIGHT; ++c) {
        T y = b[0][c];
        MANSARD_UNROLL
        for (int q = 1; q < SLOTS; ++q) y = chosen(own[q], b[q][c], y);
        y = lane_value<LANES>(y, source);
        MANSARD_UNROLL
        for (int q = 0; q < SLOTS; ++q) multiply_add<false>(b[q][c], minus[q], y);
      }
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

  MANSARD_DEVICE void divide(const bool (&own)[SLOTS], T (&x)[SLOTS], T* inverted, int source, int at, int k) {
    T pivot = a[0][at];
    MANSARD_UNROLL
    for (int q = 1; q < SLOTS; ++q) pivot = chosen(own[q], a[q][at], pivot);
    pivot = lane_value<LANES>(pivot, source);
    Inverse<T> by;
    by.template of<false>(pivot);
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) x[q] = by.times(a[q][at]);
    if (is_zero(pivot) && info == 0) info = k + 1;
    odd = true;
    if constexpr (INVERTED) {
      by.template of<true>(pivot);
      if (rank == 0) inverted[k] = by.times(from_real<T>(R(1)));
    }
  }

  // The pivot's row comes to place k, and what was there goes where it was.
  MANSARD_DEVICE void exchange(const bool (&own)[SLOTS], int* steps, int source, int at, int k) {
    if constexpr (SOLVE) {
      if (rank == 0) steps[k] = source;
    } else if constexpr (P::PIVOT) {
      int was = place[0];
      MANSARD_UNROLL
      for (int q = 1; q < SLOTS; ++q) was = own[q] ? place[q] : was;
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
      if (PRODUCT && own[q]) determinant.take(a[q][at]);
      if (own[q]) place[q] = k;
    }
  }
};

}  // namespace mansard
