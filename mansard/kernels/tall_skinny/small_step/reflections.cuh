// Householder QR of M in shared memory, with the reflections also applied to E.
#pragma once
#include "kernels/tall_skinny/small_step/matrices.cuh"

namespace mansard {

// A team of TEAM lanes has a column of M or E, with rows distributed cyclically. Columns stay in registers if all fit
// (KEPT); otherwise they are loaded for every reflection. Finished rows are dropped TEAM at a time: row k, where
// reflection k begins, is always in slot 0 of lane k % TEAM.
// Barrier: one __syncthreads per reflection -> line `next` -> the team of column k + 1;  M and E -> other teams.
template <class P>
struct Reflections {
  using Small = Matrices<P>;
  using Wide = typename Small::Wide;
  static constexpr int N = P::N;
  static constexpr bool KEPT = 8 * N <= P::BLOCK && N * int(sizeof(Wide)) <= 64 * 8;
  static constexpr int TEAM = KEPT ? 4 : Small::TEAM, SLOTS = ceil_div(N, TEAM), TEAMS = P::BLOCK / TEAM;
  Small& small;
  Wide column[SLOTS], vector[SLOTS];

  static MANSARD_DEVICE int part() { return threadIdx.x % TEAM; }
  MANSARD_DEVICE Wide* place(int c) const { return c < N ? small.M + small.at(0, c) : small.E + small.at(0, c - N); }

  // M = Z R becomes R and E becomes Z^H E, both up to phases of rows, which the diagonal of R shows. Entries below the
  // diagonal are undefined.
  MANSARD_DEVICE void run() {
    Wide *now = small.line, *next = now + Small::ROOM;
    fetch(threadIdx.x / TEAM, 0);
    if (threadIdx.x / TEAM == 0) publish(now, -1);
    __syncthreads();  // line `now` holds column 0, written by the first team
MANSARD_UNROLL_BY(1)
    for (int k = 0; k < N; ++k) {
      MANSARD_UNROLL
      for (int r = 0; r < SLOTS; ++r) vector[r] = now[r * TEAM + part()];
      reflect(k, now[k % TEAM], next);
      Wide* const other = now;
      now = next, next = other;
      __syncthreads();  // line `now` holds column k + 1, written by its team; the other line has been read by all
    }
  }

  // Apply I - 2 v v^H / |v|^2, where v is `vector` with phase(head) * |vector| added to its head. Dot products do not
  // wait for that: its contribution is added afterwards.
  MANSARD_DEVICE void reflect(int k, Wide head, Wide* next) {
    double sums[2] = {};
    MANSARD_UNROLL
    for (int r = 0; r < SLOTS; ++r) sums[r % 2] += square(vector[r]);
    Wide dot = part_of_dot();
    const double sum = lane_sum<TEAM>(sums[0] + sums[1]);
    if (KEPT) dot = lane_sum<TEAM>(dot);
    const Wide entry = lane_of<TEAM>(column[0], k % TEAM);  // the entry of row k
    const double root = inverse_root(sum > 0.0 ? sum : 1.0);
    const double twice = root * root * inverse(fma(size(head), root, 1.0));  // 2 / |v|^2
    const Wide more = times_real(phase_of(head), sum * root);
    if (part() == k % TEAM) add_to(vector[0], more);
MANSARD_UNROLL_BY(1)
    for (int first = KEPT ? 0 : (k + 1) / TEAMS * TEAMS; first < 2 * N; first += TEAMS) {
      const int c = first + threadIdx.x / TEAM;
      if (!KEPT) {
        fetch(c > k ? c : 2 * N, k);
        dot = lane_sum<TEAM>(part_of_dot());
      } else {
        multiply_add<true>(dot, more, entry);
      }
      const Wide by = times_real(times_real(dot, twice), -1.0);
      MANSARD_UNROLL
      for (int r = 0; r < SLOTS; ++r) multiply_add<false>(column[r], vector[r], by);
      if (c == k + 1 && c < N) publish(next, k);
      if (KEPT) retire(c, k);
      else if (c > k && c < 2 * N) store(c, k);
    }
    if (threadIdx.x == 0) small.M[small.at(k, k)] = times_real(more, -1.0);
  }
  MANSARD_DEVICE Wide part_of_dot() const {
    Wide dots[2] = {};
    MANSARD_UNROLL
    for (int r = 0; r < SLOTS; ++r) multiply_add<true>(dots[r % 2], vector[r], column[r]);
    add_to(dots[0], dots[1]);
    return dots[0];
  }

  MANSARD_DEVICE void fetch(int c, int k) {
    const Wide* from = place(c) + k / TEAM * TEAM;
    const int end = c < 2 * N ? N - k / TEAM * TEAM : 0;
    MANSARD_UNROLL
    for (int r = 0; r < SLOTS; ++r) column[r] = r * TEAM + part() < end ? from[r * TEAM + part()] : zero<Wide>();
  }
  MANSARD_DEVICE void store(int c, int k) const {
    Wide* to = place(c) + k / TEAM * TEAM;
    const int end = N - k / TEAM * TEAM;
    MANSARD_UNROLL
    for (int r = 0; r < SLOTS; ++r)
      if (r * TEAM + part() < end) to[r * TEAM + part()] = column[r];
  }
  // Write the vector of reflection k + 1 to a line, with zeros before its head; its slots may begin TEAM rows later.
  MANSARD_DEVICE void publish(Wide* to, int k) const {
    const int head = (k + 1) % TEAM, later = k >= 0 && head == 0;
    to += part();
    if (later) to[(SLOTS - 1) * TEAM] = zero<Wide>();
    else to[0] = part() < head ? zero<Wide>() : column[0];
    to -= later * TEAM;
    MANSARD_UNROLL
    for (int r = 1; r < SLOTS; ++r) to[r * TEAM] = column[r];
  }
  // When all rows of slot 0 are finished, store them and move the other slots up. The diagonal is already written.
  MANSARD_DEVICE void retire(int c, int k) {
    if (k % TEAM != TEAM - 1 && k != N - 1) return;
    const int i = k / TEAM * TEAM + part();
    if (i < N && c < 2 * N && i < c) place(c)[i] = column[0];
    MANSARD_UNROLL
    for (int r = 0; r + 1 < SLOTS; ++r) column[r] = column[r + 1];
    column[SLOTS - 1] = zero<Wide>();
  }
};

}  // namespace mansard
