// LU elimination in the registers of a team of lanes; each holds a tile of the matrix, cyclic in both directions.
//
// Step k, pivot row p:  l_i = a_ik / a_pk;  a_ij -= l_i * a_pj  for rows i that wait and columns j > k. Rows stay where
// they are. The pivot row is final: its owner writes it to a line of shared memory (with its entries of L, where factors
// are wanted), from which all lanes of the team read it, and its registers are dead. After N steps the lines hold the
// result. So no row is masked in updates: only the search asks which rows wait.
//
// Lane (part, rank) of warp w holds rows (q * TEAM_WARPS + w) * ROWS + rank, q < SLOTS, and of every LANES_N * CHUNK
// columns (a round) CHUNK neighbouring ones; the last round has chunks of LAST columns. Right-hand sides follow in every
// part. All steps of a round share their code: the columns of its chunks move by one register in every step, so that
// the pivot column is in the chunk's first register, and after CHUNK steps they are back. Column k + 1 is updated
// first, passed on to all parts by shuffles and searched during the rest of the update.
//
// Search: each warp compares orders of magnitudes (pivots.cuh); where these do not single out one ordinary entry, it
// compares exactly. With more than one warp every warp writes its best row (its offer) to the line of that row, and a
// head; the best offer is the pivot row. Lines of losers are written again, and are not read before.
//
// Barriers per step (barrier -> buffer -> writer): one __syncwarp, or with several warps __syncthreads -> line of the
// pivot row, heads[k % 2], exchanged[k] -> its owner, or every warp. Heads of set k % 2 are written again in step k + 2,
// behind the barrier of step k + 1, which a warp passes only after it has read them.
#pragma once
#include "kernels/factor/lu/pivots.cuh"

namespace mansard {

// Sizes of the tiles of an N x N matrix with RIGHT right-hand sides, and of the lines that hold its final rows.
template <class T, int N, int RIGHT, int LANES, int LANES_N>
struct CyclicSizes {
  static constexpr int TEAM = LANES < 32 ? LANES : 32, TEAM_WARPS = LANES < 32 ? 1 : LANES / 32;
  static constexpr int TEAMS = 32 / TEAM, ROWS = TEAM / LANES_N;  // teams of a warp; its lanes with different rows
  static constexpr int SLOTS = ceil_div(N, ROWS * TEAM_WARPS);
  static constexpr int CHUNK = 4, ROUND = CHUNK * LANES_N, FULL = N / ROUND * CHUNK;  // registers of whole rounds
  static constexpr int LAST = ceil_div(N % ROUND, LANES_N), WIDTH = FULL + LAST;
  static constexpr int PADDED = FULL * LANES_N + LAST * LANES_N;  // columns with those that nothing is in
  static constexpr int SIZE = int(sizeof(T)), PACK = SIZE < 16 ? 16 / SIZE : 1;
  // A line: columns, right-hand sides, the inverse of the pivot; an odd number of 16 bytes.
  static constexpr int LINE = (ceil_div((PADDED + RIGHT + 1) * SIZE, 16) | 1) * 16 / SIZE;
  static constexpr int HEAD = ceil_div(2 * SIZE + 8, 16) * 16;  // bytes of an offer's head
  static_assert(TEAM * TEAMS == 32 && TEAM_WARPS * TEAM == LANES && ROWS * LANES_N == TEAM, "powers of two");
};

// Shared memory of a team: lines; heads of offers (several warps); the row of A of step k (several warps), and the place
// of the pivot row before step k, LAPACK's pivot index.
template <class T>
struct CyclicPlace {
  T* lines;
  unsigned char* heads;
  int *rows, *exchanged;
};

template <class P>
struct Cyclic {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N, LANES_N = P::LANES_N, RIGHT = P::WANT == Want::solve ? P::NRHS : 0;
  using S = CyclicSizes<T, N, RIGHT, P::LANES, LANES_N>;
  static constexpr int SLOTS = S::SLOTS, WIDTH = S::WIDTH, ROWS = S::ROWS, TEAM = S::TEAM, WARPS = S::TEAM_WARPS;
  static constexpr int CHUNK = S::CHUNK, FULL = S::FULL, LAST = S::LAST, PACK = S::PACK, LINE = S::LINE;
  static constexpr bool KEEP = P::WANT == Want::factor;    // L is wanted
  static constexpr bool TRACK = P::WANT != Want::solve;    // places of rows are those of LAPACK
  static constexpr int PLACES = TRACK ? ceil_div(SLOTS, LANES_N) : 1;
  struct Head {
    T inverse;  // of the pivot
    R size;     // its magnitude; below -1 if the warp has no row left
    int row, place;
  };
  static_assert(sizeof(Head) <= S::HEAD);
  T a[SLOTS][WIDTH + RIGHT];  // right-hand sides behind the columns
  int info = 0;

  MANSARD_DEVICE explicit Cyclic(const CyclicPlace<T>& shared) : shared(shared) {
    const int lane = threadIdx.x % 32;
    warp = WARPS == 1 ? 0 : threadIdx.x / 32;
    part = lane % TEAM / ROWS;
    rank = lane % ROWS;
    team = (TEAM < 32 ? (1u << TEAM % 32) - 1 : ~0u) << (lane / TEAM * TEAM);
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      mask[q] = has_row(q) ? WAITS : 0;
      left += (q * WARPS + warp) * ROWS < N ? min(ROWS, N - (q * WARPS + warp) * ROWS) : 0;
    }
    MANSARD_UNROLL
    for (int i = 0; i < PLACES; ++i) place[i] = row_of(i * LANES_N + part);
  }

  MANSARD_DEVICE int row_of(int q) const { return (q * WARPS + warp) * ROWS + rank; }
  MANSARD_DEVICE bool has_row(int q) const { return (q + 1) * WARPS * ROWS <= N || row_of(q) < N; }
  // Column in register j of this lane; its position in a line is the same.
  MANSARD_DEVICE int column_of(int j) const {
    return j < FULL ? (j / CHUNK * LANES_N + part) * CHUNK + j % CHUNK : FULL * LANES_N + part * LAST + j - FULL;
  }
  // The line that holds final row k.
  MANSARD_DEVICE T* final_row(int k) const { return shared.lines + (WARPS == 1 ? k : shared.rows[k]) * LINE; }

  MANSARD_DEVICE void eliminate() {
    start<0>();
    rounds<0>();
  }

  // Put the columns of chunks in their order: in final row k, those of its round have moved. `thread` is this thread's
  // number in the team. Called between barriers.
  MANSARD_DEVICE void straighten(const int thread) const {
    for (int e = thread; e < N * LANES_N; e += P::LANES) {
      const int k = e / LANES_N, its = e % LANES_N, first = k / S::ROUND * S::ROUND;
      T* line = final_row(k) + first;
      if (LAST == 0 || first < FULL * LANES_N) turn_back<CHUNK>(line + its * CHUNK, (k - first) % CHUNK);
      else turn_back<LAST == 0 ? 1 : LAST>(line + its * LAST, (k - first) % (LAST == 0 ? 1 : LAST));
    }
  }

 private:
  static constexpr int WAITS = 0x7fffffff;
  CyclicPlace<T> shared;
  int warp, part, rank, left = 0;  // left: rows of the warp that wait
  u32 team;                        // mask of the team's lanes
  int mask[SLOTS];                 // and-ed with the order of a magnitude: WAITS, or 0 once the row was a pivot row
  int place[PLACES];               // of the rows in slots i * LANES_N + part: their indices after LAPACK's exchanges
  T column[SLOTS];                 // entries of the next pivot column, in all parts
  int order[SLOTS], most;          // their orders, and the largest in the warp's part of the team
  T inverse;                       // of the lane's largest entry of that column
  int claimed;                     // slot of the pivot row, or of the warp's offer; -1 in lanes without it

  template <int C>
  static MANSARD_DEVICE void turn_back(T* chunk, const int moved) {
    T old[C];
    MANSARD_UNROLL
    for (int i = 0; i < C; ++i) old[i] = chunk[i];
    MANSARD_UNROLL
    for (int i = 0; i < C; ++i) chunk[i + moved < C ? i + moved : i + moved - C] = old[i];
  }

  // Pass the column in register AT of part `turn` on to all parts, and search it; it is column k.
  template <int AT>
  MANSARD_DEVICE void search(int turn, int k) {
    T largest = zero<T>();
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      column[q] = LANES_N == 1 ? a[q][AT] : lane_value<TEAM>(a[q][AT], turn * ROWS + rank);
      order[q] = size_order(column[q]) & mask[q];
      if constexpr (!P::PIVOT) order[q] = row_of(q) == k ? order[q] : 0;
      largest = chosen(q == 0 || order[q] > most, column[q], largest);
      most = q == 0 ? order[q] : max(most, order[q]);
    }
    most = TEAM == 32 ? warp_max(most) : team_max<ROWS>(most, team);
    inverse = ordinary_inverse(largest);
  }
  template <int AT>
  MANSARD_DEVICE void start() {
    search<AT>(0, AT * LANES_N);
  }

  template <int AT>
  MANSARD_DEVICE void rounds() {
    constexpr int C = AT < FULL ? CHUNK : LAST, FIRST = AT * LANES_N;
MANSARD_UNROLL_BY(1)
    for (int turn = 0; turn < LANES_N; ++turn) {
      const int steps = AT < FULL ? C : min(C, N - FIRST - turn * C);
MANSARD_UNROLL_BY(1)
      for (int moved = 0; moved < steps; ++moved) step<AT, C>(turn, moved, FIRST + turn * C + moved);
    }
    if constexpr (AT + C < WIDTH) {
      start<AT + C>();
      rounds<AT + C>();
    }
  }

  // Step k; its column is in register AT of part `turn`, and the chunk's columns have moved by `moved` registers.
  template <int AT, int C>
  MANSARD_DEVICE void step(const int turn, const int moved, const int k) {
    T by;
    bool quick;
    const T* line = WARPS == 1 ? agree<AT>(k, by, quick) : compete<AT>(k, by, quick);
    T multiple[SLOTS];
    if (__builtin_expect(quick, true)) {
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) multiple[q] = product_of<false>(column[q], by);
    } else {
      const T pivot = line[AT * LANES_N + turn * C];
      Inverse<T> exact;
      exact.template of<false>(pivot);
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) multiple[q] = exact.times(column[q]);
      if (is_zero(pivot) && info == 0) info = k + 1;
    }
    update<AT, C>(line, multiple, turn, moved, k);
  }

  // Find the rows that this warp claims: one per team, by its order; otherwise by exact comparisons (false).
  MANSARD_DEVICE bool claim(const int k) {
    bool any = false, odd = !Ordinary<T>::holds(most);
    claimed = -1;
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      const bool its = order[q] == most;
      if (its) claimed = q;
      odd |= any && its;
      any |= its;
    }
    const bool single = __popc(__ballot_sync(~0u, any)) == 32 / ROWS;
    const bool quick = single && !__any_sync(~0u, odd);
    if (__builtin_expect(!quick, false)) choose(k);
    return quick;
  }

  // Exact search: the largest |re| + |im|, and of equal ones the first place (a NaN counts only there).
  MANSARD_DEVICE void choose(const int k) {
    R size = R(-2);
    int where = 1 << 20, slot = 0;
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) {
      const int its = place_of(q);
      const R value = ranked(modulus_1(column[q]), its == k);
      const bool better = P::PIVOT ? value > size || (value == size && its < where) : row_of(q) == k;
      if (mask[q] != 0 && better) size = value, where = its, slot = q;
    }
    claimed = P::PIVOT ? exact_owner<ROWS>(size, where, slot) : slot;
    if (size < R(-1)) claimed = -1;
    T largest = column[0];
    MANSARD_UNROLL
    for (int q = 1; q < SLOTS; ++q) largest = chosen(claimed == q, column[q], largest);
    inverse = ordinary_inverse(largest);
  }
  MANSARD_DEVICE int place_of(int q) const {
    return TRACK ? __shfl_sync(~0u, place[TRACK ? q / LANES_N : 0], q % LANES_N * ROWS + rank, TEAM) : row_of(q);
  }

  // Calls step(q) for every slot; a loop over slots, of which one is claimed, would become an index into registers.
  template <int Q, class Step>
  static MANSARD_DEVICE void each_slot(Step step) {
    step(Q);
    if constexpr (Q + 1 < SLOTS) each_slot<Q + 1>(step);
  }

  // One warp: the owner writes the pivot row to line k.
  template <int AT>
  MANSARD_DEVICE const T* agree(const int k, T& by, bool& quick) {
    quick = claim(k);
    T* line = shared.lines + k * LINE;
    each_slot<0>([&](const int q) {
      if (claimed != q) return;
      publish<AT>(q, line);
      if (TRACK && part == q % LANES_N) shared.exchanged[k] = place[TRACK ? q / LANES_N : 0];
      mask[q] = 0;
    });
    __syncwarp();  // line k and exchanged[k] are complete, written by the owner of the pivot row
    by = line[S::PADDED + RIGHT];
    if constexpr (TRACK) exchange(shared.exchanged[k], k, true);
    return line;
  }

  // Several warps: each offers its best row; the best of these is the pivot row.
  template <int AT>
  MANSARD_DEVICE const T* compete(const int k, T& by, bool& quick) {
    unsigned char* heads = shared.heads + k % 2 * (WARPS * S::HEAD);
    Head* head = reinterpret_cast<Head*>(heads + warp * S::HEAD);
    bool offers = false;
    if (left > 0) {
      const bool ordinary = claim(k);
      each_slot<0>([&](const int q) {
        if (claimed != q) return;
        publish<AT>(q, shared.lines + row_of(q) * LINE);
        if (part != (TRACK ? q % LANES_N : 0)) return;
        const int at = TRACK ? place[TRACK ? q / LANES_N : 0] : row_of(q);
        const R size = modulus_1(column[q]);
        *head = Head{inverse, ordinary ? size : ranked(size, at == k), row_of(q), at};
      });
      offers = __any_sync(~0u, claimed >= 0);
    }
    if (!offers && threadIdx.x % 32 == 0) head->size = R(-2);
    __syncthreads();  // heads[k % 2] and lines of offers are complete, written by all warps
    Head best = *reinterpret_cast<const Head*>(heads);
    int winner = 0;
    MANSARD_UNROLL
    for (int other = 1; other < WARPS; ++other) {
      const Head its = *reinterpret_cast<const Head*>(heads + other * S::HEAD);
      if (its.size > best.size || (TRACK && its.size == best.size && its.place < best.place)) best = its, winner = other;
    }
    by = best.inverse;
    quick = Ordinary<T>::holds(order_of(best.size));
    const bool won = winner == warp;
    left -= won;
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q)
      if (won && claimed == q) mask[q] = 0;
    if (threadIdx.x == 0) {
      shared.rows[k] = best.row;
      if constexpr (TRACK) shared.exchanged[k] = best.place;
    }
    if constexpr (TRACK) exchange(best.place, k, won);
    return shared.lines + best.row * LINE;
  }

  // The pivot row, which was at place `was`, gets place k; the row there gets its place.
  MANSARD_DEVICE void exchange(const int was, const int k, const bool won) {
    MANSARD_UNROLL
    for (int i = 0; i < PLACES; ++i)
      if (place[i] == k) place[i] = was;
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q)
      if (won && claimed == q && part == q % LANES_N) place[q / LANES_N] = k;
  }

  // Write the lane's part of its row in slot q to a line: columns that are not eliminated, and (KEEP) its entries of L.
  // Those of the round's chunks stand in the order of registers (straighten).
  template <int AT>
  MANSARD_DEVICE void publish(const int q, T* line) const {
    MANSARD_UNROLL
    for (int j = KEEP ? 0 : AT; j < WIDTH; ++j) {
      T* to = line + column_of(j);
      if (packed(j)) {
        if (j % PACK != 0) continue;
        Pack<T, PACK> some;
        MANSARD_UNROLL
        for (int i = 0; i < PACK; ++i) some.e[i] = a[q][j + i < WIDTH ? j + i : j];
        *reinterpret_cast<Pack<T, PACK>*>(to) = some;
      } else {
        *to = a[q][j];
      }
    }
    if (part == 0) {
      MANSARD_UNROLL
      for (int c = 0; c < RIGHT; ++c) line[S::PADDED + c] = a[q][WIDTH + c];
      line[S::PADDED + RIGHT] = inverse;
    }
  }
  // Whether register j is one of PACK that lie on 16 bytes of a line.
  static constexpr bool packed(int j) { return j < FULL || LAST % PACK == 0; }
  template <int COUNT>
  static MANSARD_DEVICE void load(T* to, const T* from) {
    const auto some = *reinterpret_cast<const Pack<T, COUNT>*>(from);
    MANSARD_UNROLL
    for (int i = 0; i < COUNT; ++i) to[i] = some.e[i];
  }

  // a_ij -= l_i * a_pj. The column of step k + 1 is updated first and searched during the rest of the update.
  template <int AT, int C>
  MANSARD_DEVICE void update(const T* line, const T (&multiple)[SLOTS], const int turn, const int moved, const int k) {
    constexpr int END = AT < FULL ? (AT + C) * LANES_N : N;  // the last column of the round, and one
    T chunk[C];
    MANSARD_UNROLL
    for (int i = 0; i < C; i += C % PACK == 0 ? PACK : 1) load<C % PACK == 0 ? PACK : 1>(chunk + i, line + column_of(AT + i));
    // Of these registers of a chunk the first `live` hold columns that are not eliminated. Others hold L, or anything.
    const int live = part < turn ? 0 : part == turn ? C - moved : C;
    T first[SLOTS];  // the chunk's first register, which becomes its last
    MANSARD_UNROLL
    for (int q = 0; q < SLOTS; ++q) first[q] = a[q][AT];
    const auto move = [&](const int i) {
      T u = chunk[i];
      if constexpr (KEEP) u = chosen(i < live, u, zero<T>());
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) {
        T& x = i == 0 ? first[q] : a[q][AT + (i > 0 ? i - 1 : 0)];
        if (i > 0) x = a[q][AT + i];
        multiply_subtract<false>(x, multiple[q], u);
        if (KEEP && i == 0) x = chosen(part == turn, multiple[q], x);
      }
    };
    const auto wrap = [&] {
      if constexpr (LANES_N > 1) move(0);
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) a[q][AT + C - 1] = LANES_N > 1 ? first[q] : multiple[q];
    };
    if constexpr (C > 1) move(1);
    else wrap();
    if (k + 1 < END) search<AT>(moved + 1 < C ? turn : turn + 1, k + 1);
    MANSARD_UNROLL
    for (int i = 2; i < C; ++i) move(i);
    if constexpr (C > 1) wrap();
    const auto add = [&](const int j, const T u) {
      MANSARD_UNROLL
      for (int q = 0; q < SLOTS; ++q) multiply_subtract<false>(a[q][j], multiple[q], u);
    };
    MANSARD_UNROLL
    for (int j = AT + C; j < WIDTH; ++j) {
      const T* from = line + column_of(j);
      if (packed(j)) {
        if (j % PACK != 0) continue;
        const auto some = *reinterpret_cast<const Pack<T, PACK>*>(from);
        MANSARD_UNROLL
        for (int i = 0; i < PACK; ++i) add(j + i < WIDTH ? j + i : j, some.e[i]);
      } else {
        add(j, *from);
      }
    }
    MANSARD_UNROLL
    for (int c = 0; c < RIGHT; ++c) add(WIDTH + c, line[S::PADDED + c]);
  }
};

}  // namespace mansard
