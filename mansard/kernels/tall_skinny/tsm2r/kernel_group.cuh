// C = alpha A B + beta C for float32 and complex64 by warpgroups: TF32 products as in kernel_tensor.cuh at nearly twice
// the rate; B is split once for all rows of a panel (planes.cuh) instead of once per warp and tile.
//
// Chunks of A, their order and the final sums are those of kernel_tensor.cuh (feed_bulk.cuh, panels.cuh). The fragments
// of A that the lanes of four warps supply belong to one instruction; the tensor cores read B from shared memory. A
// step is prepared while the tensor cores work on the one before.
//
// Shared memory: the ring of chunks of A (Feeder::BYTES), two places for pieces of B and their barriers (planes.cuh),
// and a flag of 16 bytes. Barriers: feed_bulk.cuh for A, planes.cuh for B.
//
//   GROUPS, TILES  warpgroups along the rows of a panel, tiles of 64 rows of each
//   DEPTH          real columns of A per chunk, in PARTS with a piece of B each; chains of TF32 sums end with a part
//   JOINED         both halves of B in one instruction: two wide ones per step instead of three narrow ones, which
//                  leave the tensor cores idle; the product low times low is then included at no cost
//   STAGES, FEEDERS, ONCE  see feed_bulk.cuh
#pragma once
#include "kernels/tall_skinny/tsm2r/kernel_tensor.cuh"
#include "kernels/tall_skinny/tsm2r/planes.cuh"

namespace mansard {

// Params of the shared parts that are fixed in this kernel.
template <class P>
struct Grouped : P {
  static constexpr int WARPS_M = 4 * P::GROUPS, WARPS_N = 1, WARPS_K = 1, KSTEP = 8;
  static constexpr Unit UNIT = Unit::tf32x3;
  static constexpr Load LOAD = Load::bulk;
  static constexpr Spread SPREAD = P::LAYOUT_A == Layout::row ? Spread::rotate : Spread::none;  // see GroupFeed
};

// Column-major, a lane loads single words of the rows 2 g and 2 g + 1 of each tile. Columns begin in the same banks;
// the lanes of a quad therefore take their rows in different orders: two tiles have 32 rows, one for each lane.
template <class P, class Arguments>
struct GroupFeed : BulkFeed<P, Arguments> {
  using Base = BulkFeed<P, Arguments>;
  using S = TensorShape<P>;
  static constexpr int ROWS = 2 * P::TILES, IN_TURN = ROWS % 4 == 0 ? 4 : 2;
  int first, places[IN_TURN];

  MANSARD_DEVICE GroupFeed(const Arguments& given, const Panels<P, Arguments>& all, unsigned char* arena)
      : Base(given, all, arena), first(this->t % IN_TURN) {
    MANSARD_UNROLL
    for (int i = 0; i < IN_TURN; ++i) places[i] = 2 * this->g + place(i ^ first);
  }
  // Wait for a chunk, counted from the block's first.
  MANSARD_DEVICE void begin(int chunk) {
    this->stage = chunk % P::STAGES, this->parity = chunk / P::STAGES % 2;
    Base::begin({}, true);
  }
  MANSARD_DEVICE GroupFeed once_more() const {
    GroupFeed same = *this;
    same.g = opaque(this->g), same.t = opaque(this->t);
    return same;
  }
  static MANSARD_HOST_DEVICE int place(int row) { return row / 2 * 16 + row % 2; }

  MANSARD_DEVICE void load(int group, float (&a)[S::GROUP][P::TILES][2]) const {
    if constexpr (!S::COL) {
      Base::load(group, a);
    } else {
      const float* from = this->here();
      MANSARD_UNROLL
      for (int s = 0; s < S::GROUP; ++s) {
        MANSARD_UNROLL
        for (int i = 0; i < ROWS; ++i) {
          const float* row = from + places[i % IN_TURN];
          a[s][i / 2][i % 2] = row[(group * S::GROUP + s) * 4 * Base::PITCH + place(i / IN_TURN * IN_TURN)];
        }
        MANSARD_UNROLL
        for (int bit = 1; bit < IN_TURN; bit *= 2)
          MANSARD_UNROLL
          for (int i = 0; i < ROWS; ++i)
            if ((i & bit) == 0) swap_if(first & bit, a[s][i / 2][i % 2], a[s][(i | bit) / 2][(i | bit) % 2]);
      }
    }
  }
};

template <class P, class Arguments>
struct Warpgroup {
  using S = PlanesShape<P>;
  using Feeder = GroupFeed<P, Arguments>;
  static constexpr int LOADS = S::PIECE_STEPS / S::GROUP;  // loads per piece
  using Loaded = float[S::GROUP][P::TILES][2];
  using Chain = float[P::TILES][(P::JOINED ? 2 : 1) * S::TILES_N][4];  // JOINED: for both halves of B
  typename S::Sums sums;

  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int i = 0; i < S::VALUES; ++i) S::value(sums, i) = 0;
  }

  // Add part `part` of the chunk times the piece in `b`. `meanwhile` is called when all instructions are issued, `done`
  // when they have finished; entry(step, t, n) is an entry of B.
  template <class Meanwhile, class Done, class Entry>
  MANSARD_DEVICE void multiply(const Feeder& feed, int part, PlaneName b, Meanwhile meanwhile, Done done, Entry entry) {
    Chain chain;
    Loaded a;
    feed.load(part * LOADS, a);
    MANSARD_UNROLL
    for (int load = 0; load < LOADS; ++load) {
      MANSARD_UNROLL
      for (int s = 0; s < S::GROUP; s += 2) {
        const int step = load * S::GROUP + s;
        u32 high[P::TILES][4], low[P::TILES][4];
        MANSARD_UNROLL
        for (int i = 0; i < 4 * P::TILES; ++i)
          split_tf32(a[s + i % 4 / 2][i / 4][i % 2], high[i / 4][i % 4], low[i / 4][i % 4]);
        add(chain, high, low, plane_behind(b, step * S::PLANE), step > 0);
        if (s + 2 == S::GROUP && load + 1 < LOADS) feed.load(part * LOADS + load + 1, a);
        warpgroup_wait<1>();  // registers with halves of the step before may be overwritten
      }
    }
    meanwhile();
    warpgroup_wait<0>();
    done();
    if constexpr (P::JOINED)
      MANSARD_UNROLL
      for (int i = 0; i < S::VALUES; ++i)
        S::value(chain, i) += chain[i / 4 / S::TILES_N][S::TILES_N + i / 4 % S::TILES_N][i % 4];
    float all = 0.0f;
    MANSARD_UNROLL
    for (int i = 0; i < S::VALUES; ++i) all += S::value(chain, i);
    if (__any_sync(~0u, !(fabsf(all) <= 3.0e38f))) {
      redo<0>(feed, part, entry);
    } else {
      MANSARD_UNROLL
      for (int i = 0; i < S::VALUES; ++i) S::value(sums, i) += S::value(chain, i);
    }
  }
  // x y = low high + high low + high high, the smallest terms first.
  static MANSARD_DEVICE void add(Chain& to, const u32 (&high)[P::TILES][4], const u32 (&low)[P::TILES][4], PlaneName b,
                                 bool more) {
    warpgroup_arrive();
    MANSARD_UNROLL
    for (int i = 0; i < P::TILES; ++i) add_plane(to[i], low[i], b, more);
    if constexpr (!P::JOINED) {
      MANSARD_UNROLL
      for (int i = 0; i < P::TILES; ++i) add_plane(to[i], high[i], plane_behind(b, S::PLANE), true);
    }
    MANSARD_UNROLL
    for (int i = 0; i < P::TILES; ++i) add_plane(to[i], high[i], b, true);
    warpgroup_commit();
  }
  // Compute a part again in double precision, tile by tile to save registers, and add it to the float sums.
  template <int TILE, class Entry>
  MANSARD_DEVICE void redo(const Feeder& feed, int part, Entry entry) {
    if constexpr (TILE < P::TILES * S::TILES_N) {
      constexpr int I = TILE / S::TILES_N, N = TILE % S::TILES_N;
      const Feeder same = feed.once_more();
      double tile[4] = {};
MANSARD_UNROLL_BY(1)
      for (int step = 0; step < S::PIECE_STEPS; ++step) {
        const int of_chunk = part * S::PIECE_STEPS + step;
        mma_m16n8k4(tile, double(same.load_one(of_chunk, I, 0)), double(same.load_one(of_chunk, I, 1)),
                    double(entry(step, same.t, N * 8 + same.g)));
      }
      MANSARD_UNROLL
      for (int e = 0; e < 4; ++e) sums[I][N][e] += static_cast<float>(tile[e]);
      redo<TILE + 1>(feed, part, entry);
    }
  }
};

// Loop of the consumer warps over `count` chunks from `now` on.
template <class P, class Arguments>
MANSARD_DEVICE void multiply_chunks(const Arguments& arguments, const Panels<P, Arguments>& panels,
                                    GroupFeed<P, Arguments>& feed, Planes<P, Arguments>& planes, u32* flag, Cursor now,
                                    int count) {
  Warpgroup<P, Arguments> team;
  int from = now.chunk;
  planes.fetch(now.chunk * P::PARTS);
  planes.put(0);
  planes.hand_over(0);
  team.clear();
MANSARD_UNROLL_BY(1)
  for (int done = 0; done < count; ++done) {
    const bool last = done + 1 == count, ends = now.chunk + 1 == panels.chunks;
MANSARD_UNROLL_BY(1)
    for (int part = 0; part < P::PARTS; ++part) {
      const int piece = now.chunk * P::PARTS + part, number = done * P::PARTS + part;
      const bool more = !last || part + 1 < P::PARTS;
      if (more) planes.fetch(ends && part + 1 == P::PARTS ? 0 : piece + 1);
      if (part == 0) feed.begin(done);
      team.multiply(
          feed, part, planes.wait(number),
          [&]() {
            if (more) planes.put(number + 1);
          },
          [&]() { planes.hand_over(number + 1); },
          [&](int step, int t, int n) { return planes.entry(piece, step, t, n); });
    }
    feed.end();
    if (last || ends) {
      finish<P>(arguments, panels, feed.once_more(), flag, now.panel, from, now.chunk + 1, team.sums);
      team.clear();
      from = 0;
    }
    now = panels.behind(now);
  }
}

template <class Params, class Arguments>
MANSARD_DEVICE void tsm2r_group(const Arguments& arguments) {
  using P = Grouped<Params>;
  using S = PlanesShape<P>;
  using Feeder = GroupFeed<P, Arguments>;
  static_assert(Feeder::BYTES + S::BYTES + 16 <= P::SHARED_BYTES, "shared memory");
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const Panels<P, Arguments> panels(arguments);
  const i64 begin = panels.first_of(blockIdx.x);
  const int count = static_cast<int>(panels.first_of(blockIdx.x + 1) - begin);
  Feeder feed(arguments, panels, arena);
  Planes<P, Arguments> planes(arguments, arena + Feeder::BYTES);
  u32* flag = reinterpret_cast<u32*>(arena + Feeder::BYTES + S::BYTES);
  if (threadIdx.x == 0) planes.initialise();
  feed.initialise();
  if (count == 0) return;
  if (threadIdx.x >= S::CONSUMERS) feed.produce(panels.at(begin), count);
  else multiply_chunks<P>(arguments, panels, feed, planes, flag, panels.at(begin), count);
}

}  // namespace mansard
