// A X = alpha B for a batch of small triangles: one thread block per matrix and BLK_N columns of X.
//
// Block row i of BLK_M rows, in the order in which rows become known:  R = alpha B_i - sum over j < i of A_ij X_j;
// X_i = A_ii^-1 R, in registers (substitution.cuh).
//
// Team. DIM_X x DIM_Y threads; the DIM_Y lanes that share a column are in one warp.
//
// Shared memory: a ring of STAGES places for blocks of A (A::BYTES each), then X (X_BYTES), which holds B before.
//
// Barriers (__syncthreads -> buffer -> writer):
//   after loading B    -> X -> other threads
//   per block of A     -> the block -> copies of other threads;  the block before, read by all -> the next copies
//   after the solve    -> X -> threads of other columns;  after the store -> X -> the next B
//
// Limits: copies and barriers per block of A, few thread blocks per multiprocessor; 29 to 64 % of the bandwidth for 32
// to 128 rows and several right-hand sides (H200).
//
//   BLK_M, BLK_N  order of the blocks of A; columns of X per thread block
//   DIM_X, DIM_Y  threads along the columns and the rows of X
//   STAGES        blocks of A in flight
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
  static constexpr int PITCH = OF_LANE * P::DIM_X | 1;  // of X; lanes beyond the last column have their own padding
  static constexpr int X_BYTES = ceil_div(P::N * PITCH * int(sizeof(T)), 16) * 16;
  static_assert(P::STAGES * A::BYTES + X_BYTES <= P::SHARED_BYTES, "shared memory");
  static_assert(THREADS % 32 == 0 && 32 % P::DIM_Y == 0 && P::STAGES >= 2);
};

// Copies columns of B or X between global and shared memory.
template <class P, Layout LAYOUT>
struct Columns {
  using S = BlockedShape<P>;
  using T = typename P::T;
  static constexpr bool BY_ROWS = LAYOUT != Layout::col;
  int count;  // columns that exist

  // Calls use(i, offset in shared memory, offset in global memory) for AT_ONCE entries, in the order of global memory.
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
  // Address of column `first` of a matrix.
  template <class Pointer>
  static MANSARD_DEVICE auto* begin(const Place<Pointer>& place, i64 index, int first) {
    return matrix_at(place.base, place.matrix, index) + first * (BY_ROWS ? place.step : place.line);
  }
};

// Iterates over the blocks of A: block rows in the order in which they become known, each up to the diagonal.
template <class P>
struct BlockWalk {
  using S = BlockedShape<P>;
  int rows = 0, columns = 0;  // block row and block column
  MANSARD_DEVICE bool done() const { return rows == S::BLOCKS; }
  static MANSARD_DEVICE int begin(int block) { return (P::UPPER ? S::BLOCKS - 1 - block : block) * S::ROWS; }
  static MANSARD_DEVICE int extent(int block) { return S::EVEN ? S::ROWS : min(S::ROWS, P::N - begin(block)); }
  MANSARD_DEVICE int line() const { return begin(P::LAYOUT_A == Layout::col ? columns : rows); }
  MANSARD_DEVICE int position() const { return begin(P::LAYOUT_A == Layout::col ? rows : columns); }
  MANSARD_DEVICE void advance() {
    if (columns++ == rows) ++rows, columns = 0;
  }
};

// The ring of blocks of A, filled and read by all threads.
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
  // Wait for the next block, and refill the place of the block before.
  MANSARD_DEVICE const T* next(const BlockWalk<P>& now) {
    cp_async_wait<P::STAGES - 2>();
    __syncthreads();  // block: all copies have arrived; the one before, read by all, is about to be overwritten
    request();
    const T* block = S::A::origin(at(stage), place, index, now.line(), now.position());
    if (++stage == P::STAGES) stage = 0;
    return block;
  }
};

// Solve for the columns in x.
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
      __syncthreads();  // x holds B, loaded by all threads
      solve_columns<P>(ring, x, system);
    } else {
MANSARD_UNROLL_BY(1)
      for (int e = threadIdx.x; e < P::N * S::PITCH; e += S::THREADS) x[e] = zero<T>();
    }
    cp_async_wait<0>();
    __syncthreads();  // x holds X, written by the threads of its columns
    to.store(to.begin(system.X, index, first), x, system.X);
    __syncthreads();  // x and the ring are about to be overwritten by the next item; all threads have stored X
  }
}

}  // namespace mansard
