// The tensor cores' view of C = A B, and how it is distributed over blocks.
//
// Tensor cores multiply real tiles. A complex row-major A is a real matrix with twice the columns, times B' with rows
// (Br, Bi) and (-Bi, Br). A complex column-major A is one with twice the rows, times B with twice the columns; the
// products of two neighbouring rows are combined at the end (COMBINE).
//
// Rows are processed in panels of ROWS, each in chunks of DEPTH columns. All chunks, panel after panel, form one
// sequence, of which every block takes an equal contiguous part; of its first and its last panel it may have only a
// part. Blocks that share a panel publish their sums, and the last one to arrive adds them in order.
#pragma once
#include "kernels/tall_skinny/tsm2r/entry.cuh"
#include "mansard/gpu/async.cuh"
#include "mansard/gpu/mma.cuh"

namespace mansard {

enum class Unit { float64, tf32x3 };
enum class Load { bulk, registers };
enum class Spread { none, rotate };

template <Unit UNIT>
struct NumberOf {
  using Type = double;
};
template <>
struct NumberOf<Unit::tf32x3> {
  using Type = float;
};

// COUNT words of one load.
template <class Word, int COUNT>
struct alignas(COUNT * sizeof(Word)) Words {
  Word at[COUNT];
};

template <class P>
struct TensorShape {
  using Word = typename Scalar<typename P::T>::Real;
  using Number = typename NumberOf<P::UNIT>::Type;  // type of sums, and of B in shared memory
  static constexpr int WORDS = Scalar<typename P::T>::WORDS;
  static constexpr bool COL = P::LAYOUT_A == Layout::col, COMBINE = WORDS == 2 && COL;
  static constexpr int ROW_WORDS = COMBINE ? 2 : 1, K_WORDS = COMBINE ? 1 : WORDS;  // real ones per one of A
  static constexpr int WIDTH = P::N * WORDS;                                        // real columns of the product
  static constexpr int TILES_N = ceil_div(ceil_div(WIDTH, 8), P::WARPS_N);          // tiles of eight of them, per warp
  static constexpr int ALL_N = TILES_N * P::WARPS_N;
  static constexpr int WARP_ROWS = P::TILES * 16, ROWS = P::WARPS_M * WARP_ROWS;
  static constexpr int TEAM = P::WARPS_M * P::WARPS_N * 32, CONSUMERS = TEAM * P::WARPS_K;  // threads that multiply
  static constexpr int VALUES = P::TILES * TILES_N * 4;  // sums per lane
  using Sums = Number[P::TILES][TILES_N][4];
  template <class Array>
  static MANSARD_DEVICE auto& value(Array& sums, int i) {
    return sums[i / 4 / TILES_N][i / 4 % TILES_N][i % 4];
  }

  // A step is four columns of A, one for each lane t of a quad. Steps come in groups; the groups of a warp are
  // consecutive. Row-major, a lane holds ADJACENT columns.
  static constexpr int ADJACENT = COL ? 1 : P::VECTOR;
  static constexpr int PACK = 16 / sizeof(Number);  // steps of B per load
  static constexpr bool TURNED = P::LOAD == Load::bulk && !COL;
  static constexpr int GROUP = TURNED ? 2 * ADJACENT : ADJACENT > PACK ? ADJACENT : PACK;
  static constexpr int STEPS = P::DEPTH / 4, WARP_STEPS = STEPS / P::WARPS_K;
  static_assert(P::DEPTH % (4 * GROUP * P::WARPS_K) == 0, "columns per chunk");
  static MANSARD_HOST_DEVICE int k_of(int step, int t) {
    return step / ADJACENT * (4 * ADJACENT) + t * ADJACENT + step % ADJACENT;
  }
};

// A position in the sequence of chunks.
struct Cursor {
  int panel, chunk;
};

template <class P, class Arguments>
struct Panels {
  using S = TensorShape<P>;
  const Arguments& arguments;
  int chunks;  // per panel

  MANSARD_DEVICE explicit Panels(const Arguments& given)
      : arguments(given), chunks(static_cast<int>(ceil_div(given.K * S::K_WORDS, P::DEPTH))) {}
  MANSARD_DEVICE i64 rows() const { return arguments.M * S::ROW_WORDS; }  // rows of the real A
  MANSARD_DEVICE i64 columns() const { return arguments.K * S::K_WORDS; }
  MANSARD_DEVICE i64 items() const { return ceil_div(rows(), S::ROWS) * chunks; }  // chunks of all panels

  MANSARD_DEVICE i64 first_of(u32 block) const { return items() * block / gridDim.x; }
  MANSARD_DEVICE u32 owner_of(i64 item) const { return static_cast<u32>(((item + 1) * gridDim.x - 1) / items()); }
  MANSARD_DEVICE Cursor at(i64 item) const { return {static_cast<int>(item / chunks), static_cast<int>(item % chunks)}; }
  MANSARD_DEVICE Cursor behind(Cursor cursor) const {
    return cursor.chunk + 1 == chunks ? Cursor{cursor.panel + 1, 0} : Cursor{cursor.panel, cursor.chunk + 1};
  }
  MANSARD_DEVICE i64 first_row(Cursor cursor) const { return static_cast<i64>(cursor.panel) * S::ROWS; }
  MANSARD_DEVICE i64 first_column(Cursor cursor) const { return static_cast<i64>(cursor.chunk) * P::DEPTH; }
};

// Barrier of the consumer warps.
template <class P>
MANSARD_DEVICE void meet() {
  named_barrier_sync(1, TensorShape<P>::CONSUMERS);
}

// Sums of panels that blocks share, in global memory: two places per block, for a panel that began before the block's
// part and for one that begins in it. A lane reads what the same lane of another block wrote.
template <class P, class Arguments>
struct Partials {
  using S = TensorShape<P>;
  using Number = typename S::Number;
  const Arguments& arguments;
  u32* flag;

  MANSARD_DEVICE Number* place(u32 block, bool begins, int warp_k) const {
    const i64 piece = ((block * 2 + begins) * P::WARPS_K + warp_k) * static_cast<i64>(S::VALUES * S::TEAM);
    return static_cast<Number*>(arguments.partials) + piece + threadIdx.x % S::TEAM;
  }
  MANSARD_DEVICE void publish(const typename S::Sums& sums, bool begins, int warp_k) const {
    Number* to = place(blockIdx.x, begins, warp_k);
    MANSARD_UNROLL
    for (int i = 0; i < S::VALUES; ++i) store_l2(to + i * S::TEAM, S::value(sums, i));
  }
  // Add pieces [from, to) of a panel in order: those of the block `first`, which begins it, then of the blocks behind
  // it. A load takes most of a microsecond; several small pieces are in flight at once.
  MANSARD_DEVICE void add(typename S::Sums& sums, u32 first, int from, int to) const {
    constexpr int WORDS = S::VALUES * int(sizeof(Number)) / 4, AT_ONCE = WORDS <= 8 ? 4 : WORDS <= 16 ? 2 : 1;
    const auto piece = [&](int n) { return place(first + n / P::WARPS_K, n < P::WARPS_K, n % P::WARPS_K); };
MANSARD_UNROLL_BY(1)
    for (; AT_ONCE > 1 && from + AT_ONCE <= to; from += AT_ONCE) {
      Number part[AT_ONCE][S::VALUES];
      MANSARD_UNROLL
      for (int i = 0; i < S::VALUES * AT_ONCE; ++i)
        part[i / S::VALUES][i % S::VALUES] = load_l2(piece(from + i / S::VALUES) + i % S::VALUES * S::TEAM);
      MANSARD_UNROLL
      for (int i = 0; i < S::VALUES * AT_ONCE; ++i) S::value(sums, i % S::VALUES) += part[i / S::VALUES][i % S::VALUES];
    }
MANSARD_UNROLL_BY(1)
    for (; from < to; ++from)
      MANSARD_UNROLL
      for (int i = 0; i < S::VALUES; ++i) S::value(sums, i) += load_l2(piece(from) + i * S::TEAM);
  }
  // True in every thread if all other blocks of the panel have arrived; the counter is back at zero then.
  MANSARD_DEVICE bool others_arrived(int panel, u32 others) const {
    u32* counter = arguments.counters + COUNTERS + panel;
    meet<P>();  // flag is about to be overwritten; all threads have read its last value
    if (threadIdx.x == 0) {
      *flag = atomicCAS(counter, others, 0u) == others;
      __threadfence();
    }
    meet<P>();  // flag is set by thread 0
    return *flag != 0;
  }
  // True in every thread of the block that arrives last for a panel; the counter is back at zero then.
  MANSARD_DEVICE bool last_to_arrive(int panel, u32 blocks) const {
    u32* counter = arguments.counters + COUNTERS + panel;
    meet<P>();  // partials of all threads are stored before the counter is raised; flag is about to be overwritten
    if (threadIdx.x == 0) {
      __threadfence();
      *flag = atomicInc(counter, blocks - 1) == blocks - 1;
      __threadfence();
    }
    meet<P>();  // flag is set by thread 0
    return *flag != 0;
  }
};

}  // namespace mansard
