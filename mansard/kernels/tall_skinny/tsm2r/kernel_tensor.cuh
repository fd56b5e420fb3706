// C = alpha A B + beta C on tensor cores for a large A (M x K) and a skinny B: A is read once, at the speed of memory,
// with the matching chunk of B.
//
// A persistent grid takes the chunks of all panels of rows (panels.cuh). A comes through shared memory by bulk copies
// (feed_bulk.cuh) or straight into registers (feed_registers.cuh). The chunk of B is stored as fragments by the
// consumer warps (small.cuh). Sums stay in registers from a panel's first chunk to its last.
//
// Shared memory: the feeder's ring (Feeder::BYTES), two chunks of B (SmallShape::BYTES), a flag of 16 bytes.
// Barrier (meet, named barrier 1 of the consumer warps), once per chunk -> chunk of B for the next turn -> all
// consumers; chunk of B of this turn, read by all -> the one after the next. For A see feed_bulk.cuh.
//
//   WARPS_M, TILES  warps along the rows of a panel, tiles of 16 rows of each
//   WARPS_N         such rows of warps, along the columns of C; WARPS_K of all these share the columns of a chunk
//   DEPTH           real columns of A per chunk
//   LOAD            bulk: chunks of A come through shared memory; registers: one chunk ahead
//   STAGES          chunks in shared memory; FEEDERS, ONCE, SPREAD: see feed_bulk.cuh
//   KSTEP           columns per FP64 tensor-core instruction: 4 or 8
//   UNIT            float64: float32 data is widened and summed without error. tf32x3: each float32 number is two TF32
//                   numbers and a product three instructions, at several times the rate
#pragma once
#include "kernels/tall_skinny/tsm2r/feed_bulk.cuh"
#include "kernels/tall_skinny/tsm2r/feed_registers.cuh"
#include "kernels/tall_skinny/tsm2r/small.cuh"

namespace mansard {

template <bool BULK, class P, class Arguments>
struct FeedOf {
  using Type = BulkFeed<P, Arguments>;
};
template <class P, class Arguments>
struct FeedOf<false, P, Arguments> {
  using Type = RegisterFeed<P, Arguments>;
};

// A warp's sums, and how a chunk is added to them.
template <class P, class Feeder>
struct Multiplier {
  using S = TensorShape<P>;
  using Word = typename S::Word;
  using Number = typename S::Number;
  using Fragment = Words<Number, S::PACK>;
  static constexpr int GROUPS = S::WARP_STEPS / S::GROUP;
  typename S::Sums sums;

  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int i = 0; i < S::VALUES; ++i) S::value(sums, i) = Number(0);
  }

  // `small`: the lane's first numbers of the chunk of B.
  MANSARD_DEVICE void multiply(const Feeder& feed, const Number* small) {
    if constexpr (P::UNIT == Unit::tf32x3) multiply_tf32(feed, small);
    else multiply_float64(feed, small);
  }
  static MANSARD_DEVICE void load_small(const Number* small, int pack, Fragment (&b)[S::TILES_N]) {
    MANSARD_UNROLL
    for (int n = 0; n < S::TILES_N; ++n)
      b[n] = *reinterpret_cast<const Fragment*>(small + (pack * S::ALL_N + n) * (32 * S::PACK));
  }

  MANSARD_DEVICE void multiply_float64(const Feeder& feed, const Number* small) {
MANSARD_UNROLL_BY(Feeder::AT_ONCE)
    for (int group = 0; group < GROUPS; ++group) {
      Word a[S::GROUP][P::TILES][2];
      feed.load(group, a);
      MANSARD_UNROLL
      for (int s = 0; s < S::GROUP; s += 2) {
        Fragment b[S::TILES_N];
        load_small(small, (group * S::GROUP + s) / 2, b);
        MANSARD_UNROLL
        for (int i = 0; i < P::TILES; ++i) add_steps(sums[i], a[s][i], a[s + 1][i], b);
      }
    }
  }
  // Add two steps of a tile.
  static MANSARD_DEVICE void add_steps(double (&to)[S::TILES_N][4], const Word (&one)[2], const Word (&two)[2],
                                       const Fragment (&b)[S::TILES_N]) {
    const double left[4] = {static_cast<double>(one[0]), static_cast<double>(one[1]), static_cast<double>(two[0]),
                            static_cast<double>(two[1])};
    MANSARD_UNROLL
    for (int n = 0; n < S::TILES_N; ++n) {
      if constexpr (P::KSTEP == 8) mma_m16n8k8(to[n], left, b[n].at);
      else mma_m16n8k4(to[n], left[0], left[1], b[n].at[0]);
    }
    if constexpr (P::KSTEP == 4) {
      MANSARD_UNROLL
      for (int n = 0; n < S::TILES_N; ++n) mma_m16n8k4(to[n], left[2], left[3], b[n].at[1]);
    }
  }

  // TF32 products: x y = low high + high low + high high, the smallest terms first. The units truncate, so chains of
  // sums end with the chunk, and are added with rounding. A chunk with infinities or NaNs, which splitting spoils, is
  // computed again in double precision.
  MANSARD_DEVICE void multiply_tf32(const Feeder& feed, const float* small) {
    typename S::Sums chunk = {};
MANSARD_UNROLL_BY(Feeder::AT_ONCE)
    for (int group = 0; group < GROUPS; ++group) {
      Word a[S::GROUP][P::TILES][2];
      feed.load(group, a);
      MANSARD_UNROLL
      for (int s = 0; s < S::GROUP; s += S::PACK) {
        Fragment b[S::TILES_N];
        load_small(small, (group * S::GROUP + s) / S::PACK, b);
        MANSARD_UNROLL
        for (int two = 0; two < S::PACK; two += 2) add_thrice(chunk, a[s + two], a[s + two + 1], b, two);
      }
    }
    float all = 0.0f;
    MANSARD_UNROLL
    for (int i = 0; i < S::VALUES; ++i) all += S::value(chunk, i);
    if (__any_sync(~0u, !(fabsf(all) <= 3.0e38f))) {
      redo<0>(feed, small);
    } else {
      MANSARD_UNROLL
      for (int i = 0; i < S::VALUES; ++i) S::value(sums, i) += S::value(chunk, i);
    }
  }
  static MANSARD_DEVICE void add_thrice(float (&to)[P::TILES][S::TILES_N][4], const float (&one)[P::TILES][2],
                                        const float (&two)[P::TILES][2], const Fragment (&b)[S::TILES_N], int step) {
    u32 high_a[P::TILES][4], low_a[P::TILES][4], high_b[S::TILES_N][2], low_b[S::TILES_N][2];
    MANSARD_UNROLL
    for (int i = 0; i < 4 * P::TILES; ++i)
      split_tf32(i % 4 < 2 ? one[i / 4][i % 2] : two[i / 4][i % 2], high_a[i / 4][i % 4], low_a[i / 4][i % 4]);
    MANSARD_UNROLL
    for (int n = 0; n < 2 * S::TILES_N; ++n)
      split_tf32(b[n / 2].at[step + n % 2], high_b[n / 2][n % 2], low_b[n / 2][n % 2]);
    add_products(to, low_a, high_b);  // loops over tiles inside, so that consecutive instructions are independent
    add_products(to, high_a, low_b);
    add_products(to, high_a, high_b);
  }
  static MANSARD_DEVICE void add_products(float (&to)[P::TILES][S::TILES_N][4], const u32 (&a)[P::TILES][4],
                                          const u32 (&b)[S::TILES_N][2]) {
    MANSARD_UNROLL
    for (int i = 0; i < P::TILES; ++i)
      MANSARD_UNROLL
      for (int n = 0; n < S::TILES_N; ++n) mma_tf32_m16n8k8(to[i][n], a[i], b[n]);
  }
  // Compute a chunk again in double precision, tile by tile to save registers, and add it to the float sums.
  template <int TILE>
  MANSARD_DEVICE void redo(const Feeder& feed, const float* small) {
    if constexpr (TILE < P::TILES * S::TILES_N) {
      constexpr int I = TILE / S::TILES_N, N = TILE % S::TILES_N;
      double tile[4] = {};
MANSARD_UNROLL_BY(1)
      for (int step = 0; step < S::WARP_STEPS; ++step)
        mma_m16n8k4(tile, static_cast<double>(feed.load_one(step, I, 0)), static_cast<double>(feed.load_one(step, I, 1)),
                    static_cast<double>(small[(step / S::PACK * S::ALL_N + N) * (32 * S::PACK) + step % S::PACK]));
      MANSARD_UNROLL
      for (int e = 0; e < 4; ++e) sums[I][N][e] += static_cast<float>(tile[e]);
      redo<TILE + 1>(feed, small);
    }
  }
};

// Store the sums of a panel as entries of C; row(tile, half) is their row in the panel.
template <class P, class Arguments, class Row>
MANSARD_DEVICE void store_panel(const Arguments& arguments, int panel, const typename TensorShape<P>::Sums& sums,
                                Row row) {
  using S = TensorShape<P>;
  using Number = typename S::Number;
  const i64 first = static_cast<i64>(panel) * S::ROWS;
  const int right = threadIdx.x / 32 / P::WARPS_M % P::WARPS_N * (S::TILES_N * 8) + threadIdx.x % 4 * 2;
  MANSARD_UNROLL
  for (int tile = 0; tile < P::TILES * S::TILES_N; ++tile) {
    const int i = tile / S::TILES_N, column = right + tile % S::TILES_N * 8;
    const Number(&c)[4] = sums[i][tile % S::TILES_N];
    if constexpr (S::COMBINE) {  // neighbouring rows are real and imaginary parts
      const Number sign = P::CONJ_A ? -1 : 1;
      const Complex<Number> sum = {c[0] - sign * c[3], c[1] + sign * c[2]};
      store_entry<P>(arguments, (first + row(i, 0)) / 2, column / 2, sum);
    } else if constexpr (S::WORDS == 2) {
      store_entry<P>(arguments, first + row(i, 0), column / 2, Complex<Number>{c[0], c[1]});
      store_entry<P>(arguments, first + row(i, 1), column / 2, Complex<Number>{c[2], c[3]});
    } else {
      MANSARD_UNROLL
      for (int e = 0; e < 4; ++e) store_entry<P>(arguments, first + row(i, e / 2), column + e % 2, c[e]);
    }
  }
}

// Finish the block's part of a panel, chunks [from, to). The block with the panel's first part reaches it at the end of
// its share, the others at the beginning of theirs: it usually finds their sums ready, and need not publish its own.
template <class P, class Arguments, class Feeder, class Sums>
MANSARD_DEVICE void finish(const Arguments& arguments, const Panels<P, Arguments>& panels, const Feeder& feed, u32* flag,
                           int panel, int from, int to, Sums& sums) {
  using S = TensorShape<P>;
  const auto row = [&](int tile, int half) { return feed.row(tile, half); };
  const bool whole = from == 0 && to == panels.chunks;
  if (P::WARPS_K == 1 && whole) {
    store_panel<P>(arguments, panel, sums, row);
    return;
  }
  const Partials<P, Arguments> partials{arguments, flag};
  const int warp_k = threadIdx.x / S::TEAM;
  const i64 begin = static_cast<i64>(panel) * panels.chunks;
  const u32 first = panels.owner_of(begin), others = panels.owner_of(begin + panels.chunks - 1) - first;
  // LOAD registers: chunks leave no registers to keep sums in during the wait
  const bool ready = P::LOAD == Load::bulk && (whole || (from == 0 && partials.others_arrived(panel, others)));
  if (!ready || warp_k > 0) partials.publish(sums, from == 0, warp_k);
  if (!ready && !whole) {
    if (!partials.last_to_arrive(panel, others + 1)) return;
  } else if (P::WARPS_K > 1) {
    meet<P>();  // partials of the block's warps are published before warps with warp_k = 0 add them
  }
  if (warp_k > 0) return;
  if (!ready)
    MANSARD_UNROLL
    for (int i = 0; i < S::VALUES; ++i) S::value(sums, i) = 0;
  partials.add(sums, first, ready ? 1 : 0, static_cast<int>(others + 1) * P::WARPS_K);
  store_panel<P>(arguments, panel, sums, row);
}

template <class P, class Arguments>
MANSARD_DEVICE void tsm2r_tensor(const Arguments& arguments) {
  using S = TensorShape<P>;
  using Feeder = typename FeedOf<P::LOAD == Load::bulk, P, Arguments>::Type;
  static_assert(Feeder::BYTES + SmallShape<P>::BYTES + 16 <= P::SHARED_BYTES, "shared memory");
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const Panels<P, Arguments> panels(arguments);
  const i64 begin = panels.first_of(blockIdx.x);
  int count = static_cast<int>(panels.first_of(blockIdx.x + 1) - begin);  // chunks left
  Feeder feed(arguments, panels, arena);
  feed.initialise();
  if (count == 0) return;
  if (threadIdx.x >= S::CONSUMERS) {
    feed.produce(panels.at(begin), count);
    return;
  }

  Small<P, Arguments> small(arguments, arena + Feeder::BYTES);
  u32* flag = reinterpret_cast<u32*>(arena + Feeder::BYTES + SmallShape<P>::BYTES);
  // offset of the lane's numbers in a chunk of B
  const int warp_n = threadIdx.x / 32 / P::WARPS_M % P::WARPS_N, lane = threadIdx.x % 32 * S::PACK;
  const int offset = threadIdx.x / S::TEAM * (S::WARP_STEPS * S::ALL_N * 32) + warp_n * (S::TILES_N * 32 * S::PACK) + lane;
  Multiplier<P, Feeder> warp;
  Cursor now = panels.at(begin);
  int from = now.chunk;
  feed.start(now);
  small.fetch(now.chunk);
  small.clear();
  meet<P>();  // both chunks of B are cleared by all threads before any is written
  small.put(small.chunk(count));
  meet<P>();  // the first chunk of B is complete, written by all consumers
  warp.clear();
MANSARD_UNROLL_BY(1)
  for (; count > 0; --count) {
    const Cursor next = panels.behind(now);
    if (count > 1) small.fetch(next.chunk);
    feed.begin(next, count > 1);
    warp.multiply(feed, small.chunk(count) + offset);
    feed.end();
    if (count > 1) small.put(small.chunk(count - 1));
    meet<P>();  // the next chunk of B is complete; this one, read by all, may be overwritten in the next turn
    if (count == 1 || next.chunk == 0) {
      finish<P>(arguments, panels, feed, flag, now.panel, from, now.chunk + 1, warp.sums);
      warp.clear();
      from = 0;
    }
    now = next;
  }
}

}  // namespace mansard
