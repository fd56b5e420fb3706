// A X = alpha B for a stack of small triangles: a block per matrix (or per BLK_N columns of X), A in square blocks.
//
// X stays in shared memory. For each block of BLK_M rows, in the order in which they become known, the blocks of A
// beside the diagonal are multiplied by the rows of X known so far, and the one on the diagonal is solved in registers
// (substitution.cuh). Blocks of A follow each other through a ring of STAGES places; those on the other side of the
// diagonal are never read.
//
//   BLK_M, BLK_N  order of the blocks of A; columns of X per block of threads
//   DIM_X, DIM_Y  threads along the columns and the rows of X; DIM_Y lanes of a warp share a column
//   STAGES        blocks of A under way
//   INVERT        multiply by inverted diagonal entries instead of dividing by them
#pragma once
#include "kernels/batched/gemm/window.cuh"
#include "kernels/batched/trsm/substitution.cuh"
#include "kernels/batched/trsm/system.cuh"

namespace mansard {

template <class P>
struct BlockedShape {
  using T = typename P::T;
  static constexpr int ROWS = P::BLK_M < P::N ? P::BLK_M : P::N, BLOCKS = ceil_div(P::N, ROWS);
  static constexpr bool EVEN = P::N % ROWS == 0;
  static constexpr int COLUMNS = P::BLK_N < P::NRHS ? P::BLK_N : P::NRHS, TILES = ceil_div(P::NRHS, COLUMNS);
  static constexpr int OF_LANE = ceil_div(COLUMNS, P::DIM_X), THREADS = P::DIM_X * P::DIM_Y;
  using A = Window<T, P::N, P::N, ROWS, ROWS, P::FEED_A, P::ALIGNED, P::PITCH_A>;
  static constexpr int PITCH = OF_LANE * P::DIM_X | 1;  // of X; lanes past the last column have room of their own
  static constexpr int X_BYTES = ceil_div(P::N * PITCH * int(sizeof(T)), 16) * 16;
  static_assert(P::STAGES * A::BYTES + X_BYTES <= P::SHARED_BYTES, "shared memory");
  static_assert(THREADS % 32 == 0 && 32 % P::DIM_Y == 0 && P::STAGES >= 2);
};

// X in shared memory and its columns in global memory, whose strides are those between rows and between columns.
template <class P, Layout LAYOUT>
struct Columns {
  using S = BlockedShape<P>;
  using T = typename P::T;
  static constexpr bool BY_ROWS = LAYOUT != Layout::col;
  int count;  // of columns

  // use(i, entry in shared memory, distance in global memory) for AT_ONCE entries, in the order of memory
  template <int AT_ONCE, class Pointer, class Use>
  MANSARD_DEVICE void some(int begin, const Place<Pointer>& place, Use use) const {
    MANSARD_UNROLL
    for (int i = 0; i < AT_ONCE; ++i) {
      const int e = begin + i * S::THREADS, length = BY_ROWS ? count : P::N, line = e / length, position = e % length;
      const int row = BY_ROWS ? line : position, column = BY_ROWS ? position : line;
      if (e < P::N * count) use(i, row * S::PITCH + column, line * place.line + position * place.step);
    }
  }
  template <class Pointer>
  MANSARD_DEVICE void load(T* x, const T* from, const Place<Pointer>& place) const {
    constexpr int AT_ONCE = sizeof(T) == 16 ? 2 : 4;
MANSARD_UNROLL_BY(1)
    for (int begin = threadIdx.x; begin < P::N * count; begin += AT_ONCE * S::THREADS) {
      T entries[AT_ONCE];
      some<AT_ONCE>(begin, place, [&](int i, int, i64 distance) { entries[i] = from[distance]; });
      some<AT_ONCE>(begin, place, [&](int i, int at, i64) { x[at] = entries[i]; });
    }
  }
  template <class Pointer>
  MANSARD_DEVICE void store(T* to, const T* x, const Place<Pointer>& place) const {
MANSARD_UNROLL_BY(4)
    for (int begin = threadIdx.x; begin < P::N * count; begin += S::THREADS)
      some<1>(begin, place, [&](int, int at, i64 distance) { to[distance] = x[at]; });
  }
  // Where the columns from `first` on of a matrix begin.
  template <class Pointer>
  static MANSARD_DEVICE auto* begin(const Place<Pointer>& place, i64 index, int first) {
    return matrix_at(place.base, place.matrix, index) + first * (BY_ROWS ? place.step : place.line);
  }
};

// Which block of A comes next, and where: rows in the order in which they become known, and up to the diagonal.
template <class P>
struct BlockWalk {
  using S = BlockedShape<P>;
  int rows = 0, columns = 0;  // of blocks
  MANSARD_DEVICE bool done() const { return rows == S::BLOCKS; }
  static MANSARD_DEVICE int begin(int block) { return (P::UPPER ? S::BLOCKS - 1 - block : block) * S::ROWS; }
  static MANSARD_DEVICE int extent(int block) { return S::EVEN ? S::ROWS : min(S::ROWS, P::N - begin(block)); }
  MANSARD_DEVICE int line() const { return begin(P::LAYOUT_A == Layout::col ? columns : rows); }
  MANSARD_DEVICE int position() const { return begin(P::LAYOUT_A == Layout::col ? rows : columns); }
  MANSARD_DEVICE void advance() {
    if (columns++ == rows) ++rows, columns = 0;
  }
};

// The blocks of a matrix of A, one after the other; all threads of the block take part.
template <class P, class Place>
struct BlockRing {
  using S = BlockedShape<P>;
  using T = typename P::T;
  unsigned char* memory;
  const Place& place;
  i64 index, batch;
  BlockWalk<P> ahead;
  int stage = 0, free = 0;

  MANSARD_DEVICE T* at(int which) const { return reinterpret_cast<T*>(memory + which * S::A::BYTES); }
  MANSARD_DEVICE void request() {
    if (!ahead.done()) {
      S::A::template fill<S::THREADS>(at(free), place, index, batch, ahead.line(), ahead.position(), threadIdx.x);
      ahead.advance();
    }
    cp_async_commit();
    if (++free == P::STAGES) free = 0;
  }
  MANSARD_DEVICE void begin(i64 matrix) {
    index = matrix, ahead = {}, stage = free = 0;
    MANSARD_UNROLL
    for (int i = 0; i < P::STAGES - 1; ++i) request();
  }
  // The next block; everybody is done with the one before, whose place is filled again.
  MANSARD_DEVICE const T* next(const BlockWalk<P>& now) {
    cp_async_wait<P::STAGES - 2>();
    __syncthreads();
    request();
    const T* block = S::A::origin(at(stage), place, index, now.line(), now.position());
    if (++stage == P::STAGES) stage = 0;
    return block;
  }
};

// Solves for the columns in x.
template <class P, class Ring, class System>
MANSARD_DEVICE void solve_columns(Ring& ring, typename P::T* x, const System& system) {
  using S = BlockedShape<P>;
  using Rows = Substitution<P, S::ROWS, P::DIM_Y, S::OF_LANE, typename S::A>;
  Rows rows(threadIdx.x % P::DIM_Y);
  typename P::T* const mine = x + threadIdx.x / P::DIM_Y;  // the thread's first column
  BlockWalk<P> now;
MANSARD_UNROLL_BY(1)
  while (!now.done()) {
    const int begin = now.begin(now.rows), extent = now.extent(now.rows);
    const auto for_each = [&](auto visit) {
      MANSARD_UNROLL
      for (int slot = 0; slot < Rows::SLOTS; ++slot)
        MANSARD_UNROLL
        for (int c = 0; c < S::OF_LANE; ++c)
          if (rows.has(slot) && (S::EVEN || rows.row_of(slot) < extent))
            visit(mine[(begin + rows.row_of(slot)) * S::PITCH + c * P::DIM_X], rows.x[slot][c]);
    };
    for_each([&](typename P::T& entry, typename P::T& mine) { mine = system.scales.product(entry); });
MANSARD_UNROLL_BY(1)
    while (now.columns < now.rows) {
      const auto* block = ring.next(now);
      rows.template multiply<S::EVEN, S::PITCH, P::DIM_X>(block, mine + now.begin(now.columns) * S::PITCH,
                                                          now.extent(now.columns));
      now.advance();
    }
    rows.template solve<S::EVEN>(ring.next(now), extent);
    now.advance();
    for_each([](typename P::T& entry, typename P::T& mine) { entry = mine; });
  }
}

template <class P, class Arguments>
MANSARD_DEVICE void trsm_blocked(const Arguments& arguments) {
  using S = BlockedShape<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const System<P, Arguments> system(arguments);
  T* x = reinterpret_cast<T*>(arena + P::STAGES * S::A::BYTES);
  BlockRing<P, decltype(system.A)> ring{arena, system.A, 0, arguments.BATCH};
  const i64 items = arguments.BATCH * S::TILES;
MANSARD_UNROLL_BY(1)
  for (i64 item = blockIdx.x; item < items; item += gridDim.x) {
    const i64 index = item / S::TILES;
    const int first = static_cast<int>(item % S::TILES) * S::COLUMNS, count = min(S::COLUMNS, P::NRHS - first);
    const Columns<P, P::LAYOUT_B> from{count};
    const Columns<P, P::LAYOUT_X> to{count};
    if (!system.vanishes) {
      ring.begin(index);
      from.load(x, from.begin(system.B, index, first), system.B);
      __syncthreads();
      solve_columns<P>(ring, x, system);
    } else {
MANSARD_UNROLL_BY(1)
      for (int e = threadIdx.x; e < P::N * S::PITCH; e += S::THREADS) x[e] = zero<T>();
    }
    cp_async_wait<0>();
    __syncthreads();
    to.store(to.begin(system.X, index, first), x, system.X);
    __syncthreads();
  }
}

}  // namespace mansard
