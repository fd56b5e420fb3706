// All powers in one launch: resident blocks pass through the rows, each power LAG steps behind the one before it.
//
//   v_k = alpha A v_(k-1) + beta v_(k-1) + gamma v_(k-2),  k = 1 .. P
//
// Rows come in tiles of TILE chunks; tile t belongs to block t % gridDim.x and is its step t / gridDim.x. In turn s a
// block forms the tile of step s - (k - 1) LAG for k = 1 .. P. Tasks are distributed to the computing warps in this
// order, and everything a task waits for comes earlier in it, so that some warp can always go on:
//
//   the matrix   Warp 0 copies tiles to slots of shared memory by bulk copies. Groups of powers (RETAIN) share a copy:
//                it stays until all powers of the group have used it. A tile too large for a slot is read from global
//                memory.
//   the vectors  Every word of v_1 .. v_(P-1) is its own flag (rows.cuh). A sum that is a NaN is formed again, waiting
//                for each of its words. GATHER relaxed: loads past L1, formally race-free; stale: loads through L1,
//                which may hold old words.
//   pacing       To keep such waits rare, blocks publish their progress, and warp 1 watches the blocks of the last
//                WINDOW tiles up to `far` ahead, the highest tile that any tile reads. A task of power k begins when
//                these have been formed at power k - 1, or are about to be (EAGER steps). Correctness does not depend
//                on it.
//
// Barriers (barrier -> buffer -> writer): mbarrier full[slot] -> tile -> bulk copy of warp 0;  mbarrier empty[slot] ->
// tile, used by all powers of its group -> the next bulk copy. Memory map: retention.cuh.
//
// A wait that exceeds `limit` nanoseconds is given up by all blocks: they run to the end, and the host is told.
//
//   TILE, ABREAST      chunks per tile; chunks that a warp takes at once
//   UNROLL             entries of a row in flight
//   WARPS              computing warps
//   LAG                turns between a power and the next one
//   FIRSTS             bit k - 1: power k begins a group (from RETAIN)
//   SLOTS, SLOT_BYTES  tiles that shared memory holds, and the bytes of each
//   EVICT              L2 policy of copies: evict those of the last group first; whether to keep the others
#pragma once
#include "kernels/sparse/powers/retention.cuh"
#include "mansard/gpu/hints.cuh"

namespace mansard {

enum class Evict { none, last, keep };
enum class Gather { relaxed, stale };

template <class P, class Arguments>
struct Persistent {
  using T = typename P::T;
  using Keeping = Retention<P>;
  static constexpr int N = P::NVECS, TILE = P::TILE, ABREAST = P::ABREAST;
  static_assert(TILE % ABREAST == 0 && TILE < 15 && P::C == 32);
  const Arguments& arguments;
  const Arena<P> arena;
  const int blocks = gridDim.x, block = blockIdx.x, lane = threadIdx.x % 32;
  const int chunks = static_cast<int>((arguments.ROWS + 31) / 32);
  const int tiles = static_cast<int>(arguments.tiles);
  const int steps = block < tiles ? (tiles - block + blocks - 1) / blocks : 0;  // tiles of this block
  const int turns = steps + (P::P - 1) * P::LAG;
  const Vectors<P> vectors = {arguments.X, arguments.BEFORE, arguments.VECTORS, arguments.step, arguments.RESULT};

  MANSARD_DEVICE int start(int chunk) const { return arguments.STARTS[min(chunk, chunks)]; }

  // --- Warp 0: the matrix ---------------------------------------------------------------------------------------

  MANSARD_DEVICE static u64 policy(int group) {
    if (P::EVICT != Evict::none && group == Keeping::GROUPS - 1) return cache_policy(Keep::first);
    return cache_policy(P::EVICT == Evict::keep ? Keep::last : Keep::normal);
  }
  MANSARD_DEVICE void fetch(int slot, int from, int units, u64 how) const {
    if (units == 0 || units * 128 > P::SLOT_BYTES) {  // an empty tile, or one too large for the slot
      mbarrier_arrive(arena.full(slot));
      return;
    }
    mbarrier_arrive_expect(arena.full(slot), units * 128);
    const unsigned char* tile = arguments.MATRIX + static_cast<i64>(from) * 128;
    bulk_load_hinted(arena.slot(slot), tile, units * 128, arena.full(slot), how);
  }
  MANSARD_DEVICE void produce() const {
    int from[Keeping::GROUPS], units[Keeping::GROUPS];  // of 32 steps, one per lane, loaded ahead
    u64 how[Keeping::GROUPS];
    MANSARD_UNROLL
    for (int group = 0; group < Keeping::GROUPS; ++group) how[group] = policy(group);
MANSARD_UNROLL_BY(1)
    for (int turn = 0; turn < turns; ++turn) {
      MANSARD_UNROLL
      for (int group = 0; group < Keeping::GROUPS; ++group) {
        const int step = turn - (Keeping::first(group) - 1) * P::LAG;
        if (step < 0 || step >= steps) continue;
        if (step % 32 == 0) {
          const int chunk = ((step + lane) * blocks + block) * TILE;
          from[group] = start(chunk);
          units[group] = start(chunk + TILE) - from[group];
        }
        const int of_step = __shfl_sync(~0u, from[group], step % 32), size = __shfl_sync(~0u, units[group], step % 32);
        if (lane == 0) {
          const Place place = arena.place(Keeping::first(group));
          const int round = place.round(step), slot = place.slot(step, round);
          if (round > 0) mbarrier_wait(arena.empty(slot), (round - 1) & 1);
          fetch(slot, of_step, size, how[group]);
          post_release(arena.issued(group), step + 1);
        }
        __syncwarp();  // reconverge after lane 0
      }
    }
  }

  // --- Warp 1: progress of the other blocks ---------------------------------------------------------------------

  MANSARD_DEVICE void watch() const {  // each lane polls the block of one tile, until that block is done; no barriers
    constexpr int POWERS = P::P > 1 ? P::P - 1 : 1, ALL = 1 << 30;
    const int tile = block + static_cast<int>(arguments.far) - lane;  // at step 0; later steps add whole turns
    const int turn = tile >= 0 ? tile / blocks : -((blocks - 1 - tile) / blocks), other = tile - turn * blocks;
    const int last = (tiles - other + blocks - 1) / blocks;
    bool done = lane >= P::WINDOW;
MANSARD_UNROLL_BY(1)
    while (!done && !peek(arena.given_up())) {
      int formed[POWERS];
      MANSARD_UNROLL
      for (int k = 0; k < POWERS; ++k) formed[k] = static_cast<int>(load_relaxed(arguments.FLAGS + k * blocks + other));
      done = true;
      MANSARD_UNROLL
      for (int k = 0; k < POWERS; ++k) {
        const bool all = formed[k] >= last;
        post(arena.front(k + 1, lane), all ? ALL : formed[k] - turn);
        done &= all;
      }
      if (!done) pause();
    }
  }
  // Wait until everything that a step reads of power k seems to be formed.
  MANSARD_DEVICE void keep_pace(int step, int k, Patience<P, Arguments>& patience) const {
    if (lane < P::WINDOW)
      while (peek(arena.front(k, lane)) + P::EAGER <= step && patience.more()) {
      }
    __syncwarp();  // reconverge after the lanes' waits
  }

  // --- Computing warps ------------------------------------------------------------------------------------------

  // Metadata of a task's tile, loaded a task ahead: the lane's row lengths, and, one word per lane, starts and widths
  // of the tile's chunks.
  struct Facts {
    int word, length[TILE];
    MANSARD_DEVICE int offset(int h) const { return __shfl_sync(~0u, word, h); }
    MANSARD_DEVICE int width(int h) const { return __shfl_sync(~0u, word, 16 + h); }
  };
  MANSARD_DEVICE void learn(Facts& facts, int tile) const {
    const int chunk = tile * TILE;
    const int own = chunk + min(lane - 16, TILE - 1);  // a chunk that may not exist: no entries then
    const int* from = lane < 16 ? arguments.STARTS + min(chunk + min(lane, TILE), chunks) : arguments.WIDTHS + own;
    facts.word = 0;
    if (own < chunks) facts.word = *from;  // one load for both, and no branch
    MANSARD_UNROLL
    for (int h = 0; h < TILE; ++h) {
      const i64 row = static_cast<i64>(chunk + h) * 32 + lane;
      const int* length = P::RAGGED ? arguments.LENGTHS + row : arguments.WIDTHS + chunk + h;
      facts.length[h] = row < arguments.ROWS ? *length : 0;
    }
  }
  // A task: power k + 1 in a turn; its step may not exist (idle). Kept incrementally, since divisions would take as
  // long as several entries of a row.
  struct Task {
    int turn, k;
    MANSARD_DEVICE int step() const { return turn - k * P::LAG; }
    MANSARD_DEVICE void advance() {  // to the next task of the same warp
      turn += P::WARPS / P::P;
      k += P::WARPS % P::P;
      if (k >= P::P) k -= P::P, ++turn;
    }
  };
  MANSARD_DEVICE bool is_idle(const Task& task) const {
    return task.turn < turns && static_cast<u32>(task.step()) >= static_cast<u32>(steps);
  }

  MANSARD_DEVICE void compute(int warp) const {
    Patience<P, Arguments> patience = {arguments, arena.given_up()};
    Task task = {warp / P::P, warp % P::P};
    while (is_idle(task)) task.advance();
    Facts ahead;
    if (task.turn < turns) learn(ahead, task.step() * blocks + block);
MANSARD_UNROLL_BY(1)
    while (task.turn < turns) {
      const Facts facts = ahead;
      form(facts, task.step(), task.k + 1, patience, [&] {
        do task.advance();
        while (is_idle(task));
        if (task.turn < turns) learn(ahead, task.step() * blocks + block);
      });
    }
  }

  // Form the tile of `step` at power k. `meanwhile` is called once, while loads are in flight.
  template <class Meanwhile>
  MANSARD_DEVICE void form(const Facts& facts, int step, int k, Patience<P, Arguments>& patience,
                           Meanwhile meanwhile) const {
    const Place place = arena.place(k);
    const int tile = step * blocks + block, round = place.round(step), slot = place.slot(step, round);
    // the parity of a barrier is ambiguous for a warp that is a whole round ahead: first wait until the copy is issued
    while (peek_acquire(arena.issued(place.group)) <= step) pause();
    mbarrier_wait(arena.full(slot), round & 1);  // slot: the bulk copy has arrived
    __syncwarp();                                // reconverge after the wait
    if (P::WINDOW > 0 && k > 1) keep_pace(step, k - 1, patience);
    const int begin = facts.offset(0), units = facts.offset(TILE) - begin;
    if (P::DIRECT && units * 128 > P::SLOT_BYTES)
      rows(arguments.MATRIX + static_cast<i64>(begin) * 128, facts, tile, k, patience, meanwhile);
    else
      rows(arena.slot(slot), facts, tile, k, patience, meanwhile);
    // slot: all lanes have read it before lane 0 arrives. No fence, unlike mansard/gpu/ring.cuh: everything that was read
    // from the slot has already entered stored results
    __syncwarp();
    if (lane == 0) {
      mbarrier_arrive(arena.empty(slot));
      if (k < P::P) raise_relaxed(arguments.FLAGS + (k - 1) * blocks + block, step + 1);
    }
  }

  template <class Meanwhile>
  MANSARD_DEVICE void rows(const unsigned char* chunk, const Facts& facts, int tile, int k,
                           Patience<P, Arguments>& patience, Meanwhile meanwhile) const {
    MANSARD_UNROLL
    for (int h = 0; h < TILE; h += ABREAST) {
      const auto once = [&] {
        if (h == 0) meanwhile();
      };
      if (P::GATHER == Gather::stale) strip<Load::stale>(chunk, facts, h, tile, k, patience, once);
      else if (k == 1) strip<Load::constant>(chunk, facts, h, tile, k, patience, once);
      else strip<Load::relaxed>(chunk, facts, h, tile, k, patience, once);
    }
  }

  // Form ABREAST chunks of the tile from chunk h on.
  template <Load HOW, class Meanwhile>
  MANSARD_DEVICE void strip(const unsigned char* chunk, const Facts& facts, int h, int tile, int k,
                            Patience<P, Arguments>& patience, Meanwhile meanwhile) const {
    Line<P> lines[ABREAST];
    int length[ABREAST], least = 1 << 30, most = 0;  // row lengths; bounds of stored entries
    bool whole = true;
    T sum[ABREAST][N] = {}, x[ABREAST][N] = {}, z[ABREAST][N] = {};
    const T *source = vectors.source(k - 1), *before = vectors.source(k - 2);
    const T* coefficients = arena.coefficients(k);
    const i64 row = (static_cast<i64>(tile) * TILE + h) * 32 + lane;
    const int begin = facts.offset(0);
    MANSARD_UNROLL
    for (int i = 0; i < ABREAST; ++i) {
      const int width = facts.width(h + i);
      lines[i].point(chunk + (facts.offset(h + i) - begin) * 128, width, lane);
      length[i] = facts.length[h + i];
      whole &= length[i] == width;
      least = min(least, width);
      most = max(most, width);
      const i64 own = (row + 32 * i) * N;
      if (row + 32 * i < arguments.ROWS) {
        MANSARD_UNROLL
        for (int v = 0; v < N; ++v) {
          if constexpr (P::SHIFTED) x[i][v] = load_element<HOW>(source + own + v);
          if constexpr (P::THREE_TERM)
            if (before != nullptr) z[i][v] = load_element<HOW>(before + own + v);
        }
      }
    }
    // chunks of UNROLL entries per row, as of a stencil, take one pass; at the faces of the grid some rows end earlier
    if (least != P::UNROLL || most != P::UNROLL) {
      meanwhile();
      Rows<P>::template multiply<HOW, P::UNROLL>(lines, length, least, most, source, sum);
    } else if (__all_sync(~0u, whole)) {
      Rows<P>::template pass<HOW, P::UNROLL, Ends::nowhere, true>(lines, length, 0, source, sum, meanwhile);
    } else {
      Rows<P>::template pass<HOW, P::UNROLL, Ends::padded, true>(lines, length, 0, source, sum, meanwhile);
    }
    MANSARD_UNROLL
    for (int i = 0; i < ABREAST; ++i) {
      if (row + 32 * i >= arguments.ROWS) continue;
      Rows<P>::recur(sum[i], coefficients, x[i], z[i]);
      bool odd = false;
      MANSARD_UNROLL
      for (int v = 0; v < N; ++v) odd |= has_nan(sum[i][v]);
      if (HOW != Load::constant && odd && k > 1) settle(lines[i], length[i], row + 32 * i, k, sum[i], patience);
      leave(row + 32 * i, k, sum[i], patience);
    }
  }

  // The sum is a NaN, perhaps since a word was not written yet: form it again, checking all words, until none is
  // missing.
  MANSARD_DEVICE void settle(const Line<P>& line, int length, i64 row, int k, T (&sum)[N],
                             Patience<P, Arguments>& patience) const {
    const T *source = vectors.source(k - 1), *before = vectors.source(k - 2);
    bool missing;
    do {
      T x[N] = {}, z[N] = {};
      missing = false;
      for (int v = 0; v < N; ++v) {
        sum[v] = zero<T>();
        if constexpr (P::SHIFTED) x[v] = load_checked(source + row * N + v, missing);
        if constexpr (P::THREE_TERM)
          z[v] = k == 2 ? load_element<Load::constant>(before + row * N + v)
                        : load_checked(before + row * N + v, missing);
      }
      Rows<P>::multiply_checked(line, length, source, sum, missing);
      Rows<P>::recur(sum, arena.coefficients(k), x, z);
    } while (missing && patience.more());
  }

  MANSARD_DEVICE void leave(i64 row, int k, const T (&sum)[N], Patience<P, Arguments>& patience) const {
    if (P::OUTPUT != Output::combination || k < P::P) {
      T* target = vectors.target(k) + row * N;
      MANSARD_UNROLL
      for (int v = 0; v < N; ++v) store_published(target + v, sum[v]);
    } else {
      combine(row, sum, patience);
    }
  }
  MANSARD_DEVICE void combine(i64 row, const T (&sum)[N], Patience<P, Arguments>& patience) const {
    MANSARD_UNROLL
    for (int v = 0; v < N; ++v) {
      T power[P::P + 1];
      power[0] = load_element<Load::constant>(vectors.x + row * N + v);
      power[P::P] = sum[v];
      MANSARD_UNROLL
      for (int i = 1; i < P::P; ++i) power[i] = load_element<Load::relaxed>(vectors.source(i) + row * N + v);
      MANSARD_UNROLL
      for (int i = 1; i < P::P; ++i)
        if (has_nan(power[i])) power[i] = load_settled(vectors.source(i) + row * N + v, patience);
MANSARD_UNROLL_BY(1)
      for (int set = 0; set < P::SETS; ++set) {
        const T* weights = arguments.COEFFICIENTS + 3 * P::P + set * (P::P + 1);
        T total = zero<T>();
        MANSARD_UNROLL
        for (int i = 0; i <= P::P; ++i) add_scaled(total, weights[i], power[i]);
        vectors.result[(set * arguments.ROWS + row) * N + v] = total;
      }
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void powers_persistent(const Arguments& arguments) {
  MANSARD_SHARED_ARENA(unsigned char, memory);
  const Persistent<P, Arguments> all = {arguments, {memory}};
  all.arena.initialise(arguments.COEFFICIENTS);
  const int warp = threadIdx.x / 32;
  if (warp == 0) all.produce();
  else if (warp >= 2) all.compute(warp - 2);
  else if (P::WINDOW > 0 && P::P > 1) all.watch();
}

}  // namespace mansard
