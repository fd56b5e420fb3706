// LU elimination in the registers of a team of lanes; each lane holds whole rows (search.cuh).
//
// Step k, in this order: the team votes who owns the pivot row and broadcasts the pivot's inverse; multipliers
// l_ik = a_ik / a_pk; update of column k + 1, a_i(k+1) -= l_ik * a_p(k+1), and its search; update of the other columns
// and right-hand sides. Whatever does not depend on the pivot being ordinary starts before that is known.
//
// VIA lanes: entries of the pivot row reach the team by shuffles. VIA shared: only the columns that are searched next
// do; the owner writes the whole row to a line of shared memory, from which 16 bytes come with one instruction, and no
// lane has to select among its slots. Barrier: one __syncwarp per step -> line k % 2 -> the owner of the pivot row.
//
// ROLLED: the CHUNK = 4 steps of a chunk share their code. The columns of a chunk move by one register in every step,
// so that the pivot column is always in the first; after four steps they are back in their places.
#pragma once
#include "kernels/factor/lu/search.cuh"

namespace mansard {

template <class P, int LANES>
struct Rows : TeamRows<P, LANES> {
  using Base = TeamRows<P, LANES>;
  using typename Base::T;
  using Base::a, Base::b, Base::carried, Base::inverse, Base::mask, Base::most, Base::odd, Base::order;
  using Base::carry, Base::choose, Base::divide, Base::each_of, Base::exchange, Base::keep, Base::owner_of;
  using Base::search, Base::signed_entry, Base::vote;
  using Base::M, Base::N, Base::STEPS, Base::SLOTS, Base::TEAMS, Base::RIGHT, Base::SOLVE, Base::KEEP;
  using Base::SHARED, Base::LINE;
  static constexpr int CHUNK = 4;
  static constexpr bool ALONE = TEAMS == 1 && SLOTS > 1;  // the slot of the pivot row is the same for the whole warp
  // Broadcast the first entries of the pivot row before it is known that the pivot is ordinary. Slower for factors.
  static constexpr bool EARLY = Base::INVERTED && !ALONE;

  using Base::Base;

  // Eliminate; `count` steps of at most STEPS.
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

  // Backward substitution; calls give(k, right-hand side, x_k) in all lanes of the team.
  template <class Give>
  MANSARD_DEVICE void substitute(const Solved<T>* solved, Give give) {
    if (__builtin_expect(__any_sync(~0u, odd), false)) substitute<true>(solved, give);
    else substitute<false>(solved, give);
  }

 private:
  template <bool ODD, class Give>
  MANSARD_DEVICE void substitute(const Solved<T>* solved, Give give) {
    Solved<T> next = solved[N - 1].read();
    MANSARD_UNROLL
    for (int k = N - 1; k >= 0; --k) {
      const Solved<T> step = next;
      if (k > 0) next = solved[k - 1].read();  // one step ahead; `give` may overwrite solved[k], not solved[k - 1]
      MANSARD_UNROLL
      for (int c = 0; c < RIGHT; ++c) {
        T x = b[0][c];
        MANSARD_UNROLL
        for (int q = 1; q < SLOTS; ++q) x = chosen(mask[q] == k, b[q][c], x);
        x = ODD && odd ? divided_by_own(x, k) : product_of<false>(x, step.inverse);
        x = lane_value<LANES>(x, step.lane);
        give(k, c, x);
        MANSARD_UNROLL
        for (int q = 0; q < SLOTS; ++q) multiply_subtract<false>(b[q][c], a[q][k], x);
      }
    }
  }

  // x divided by pivot k, in the lane that owns its row; exact, for pivots that are not ordinary.
  MANSARD_DEVICE T divided_by_own(T x, int k) const {
    T by = a[0][k];
    MANSARD_UNROLL
    for (int q = 1; q < SLOTS; ++q) by = chosen(mask[q] == k, a[q][k], by);
    Inverse<T> inverse;
    inverse.template of<true>(by);
    return inverse.times(x);
  }

  // Step k; its column is in register `at`. ROTATE: the columns of the chunk have moved by `turn` registers.
  template <bool ROTATE>
  MANSARD_DEVICE void step(const Steps<T>& steps, const int at, const int turn, const int k) {
    int source, slot;
    // multipliers; final entries of column k; entries of the pivot row in the columns that are updated first
    T multiple[SLOTS], done[SLOTS], first, second;
    decide<ROTATE>(steps, at, k, source, slot, multiple, first, second);
    bool mine[SLOTS];  // whether slot q is the pivot row; comparing again is quicker than keeping the vote's answer
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) mine[q] = order[q] == most;
    exchange(mine, steps, source, at, k);
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      if (mine[q]) mask[q] = SOLVE ? k : Base::OVER;
      const bool live = mask[q] == Base::WAITS;
      done[q] = chosen(KEEP && live, multiple[q], a[q][at]);
      multiple[q] = chosen(live, multiple[q], zero<T>());
    }
    T* line = carried + (SHARED ? k % 2 * TEAMS * LINE : 0);
    if constexpr (SHARED) carry(line, mine, at);
    T row[ALONE ? N : 1];  // the pivot row
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
      if (moves) u = chosen(j - at < CHUNK - turn, u, zero<T>());  // the chunk's finished columns stay as they are
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
    look_ahead<ROTATE>(at, turn, k);
    if constexpr (SHARED) {
      __syncwarp();  // line k % 2 is complete, written by the owner of the pivot row
      each_of(line, at, [&](const int j, T u) {
        if (j >= N) update_right(j - N, multiple, u);
        else if (!ahead(j)) update(j, u);
      });
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

  // Find the owner of the pivot row (`source`, `slot`), the multipliers, and the pivot row's first entries.
  template <bool ROTATE>
  MANSARD_DEVICE void decide(const Steps<T>& steps, const int at, const int k, int& source, int& slot,
                             T (&multiple)[SLOTS], T& first, T& second) {
    const auto votes = vote();
    slot = votes.slot;
    // these broadcasts start before it is known that the pivot is ordinary
    source = owner_of(votes.lanes);
    const T by = lane_value<LANES>(inverse, source);
    first = second = by;
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
    if (__builtin_expect(votes.decide(), true)) {
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
  }

  // Search column k + 1.
  template <bool ROTATE>
  MANSARD_DEVICE void look_ahead(const int at, const int turn, const int k) {
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
  }

  MANSARD_DEVICE void update_right(const int c, const T (&multiple)[SLOTS], T y) {
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) add_multiple(b[q][c], multiple[q], y);
  }
  // sum -= l * u, where `multiple` is l or -l (signed_entry).
  static MANSARD_DEVICE void add_multiple(T& sum, T multiple, T u) {
    if constexpr (KEEP) multiply_subtract<false>(sum, multiple, u);
    else multiply_add<false>(sum, multiple, u);
  }

  // Move the columns of a chunk by one register, for a step that is not done.
  MANSARD_DEVICE void rotate(const int at) {
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      const T first = a[q][at];
      MANSARD_UNROLL
      for (int j = at + 1; j < at + CHUNK; ++j) a[q][j - 1] = a[q][j];
      a[q][at + CHUNK - 1] = first;
    }
  }
};

}  // namespace mansard
