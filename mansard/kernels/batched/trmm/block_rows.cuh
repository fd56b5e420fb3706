// X = alpha A B, block row by block row: what the kernels with a tile of X per thread block share.
//
// Shared memory: a ring of STAGES places for blocks of A (A::BYTES each), then the columns of B (B::BYTES), then a strip
// per warp (Tile::STRIP_BYTES), by way of which X leaves where lanes have no adjacent entries that may be stored at once.
//
// Barriers (__syncthreads -> buffer -> writer):
//   arrive  -> the block of A, and before the first one B -> copies of other threads
//   leave   -> the block of A, read by all -> the next copies into this place;  after the last one B -> the next B
// Barriers of a warp (__syncwarp -> buffer -> writer):
//   before  -> its strip, stored by all lanes -> the next eight rows of X
//   after   -> its strip -> other lanes, before it is stored
//
// X may lie where B does, unless SPLIT: the columns of B have been copied before X is stored, and no other block of
// threads needs them.
#pragma once
#include "kernels/batched/trmm/blocks.cuh"
#include "kernels/batched/trsm/system.cuh"

namespace mansard {

template <class P, int THREADS_>
struct BlockRowsShape {
  using T = typename P::T;
  static constexpr bool ROW_MAJOR_B = P::LAYOUT_B != Layout::col;
  static constexpr int ROWS = P::BLK_M < P::N ? P::BLK_M : P::N, BLOCKS = ceil_div(P::N, ROWS);
  static constexpr int LAST = P::N - (BLOCKS - 1) * ROWS;  // rows of the last block row
  static constexpr int COLUMNS = P::BLK_N < P::NRHS ? P::BLK_N : P::NRHS, TILES = ceil_div(P::NRHS, COLUMNS);
  static constexpr int THREADS = THREADS_;
  using A = Window<T, P::N, P::N, ROWS, ROWS, P::FEED_A, P::ALIGNED, P::PITCH_A>;
  using B = Window<T, ROW_MAJOR_B ? P::N : P::NRHS, ROW_MAJOR_B ? P::NRHS : P::N, ROW_MAJOR_B ? P::N : COLUMNS,
                   ROW_MAJOR_B ? COLUMNS : P::N, P::FEED_B, P::ALIGNED, P::PITCH_B>;
  using Walk = TriangleWalk<BLOCKS, P::UPPER, P::SPLIT>;
  static constexpr bool FALLING = (P::LAYOUT_A == Layout::col) == P::UPPER;
  static constexpr int STRIPS = P::STAGES * A::BYTES + B::BYTES;  // where they begin
  static_assert(STRIPS <= P::SHARED_BYTES, "shared memory");
  static_assert(THREADS % 32 == 0 && P::STAGES >= 1);
};

// The ring of blocks of A, filled and read by all threads.
template <class P, class S, class Place>
struct TriangleRing {
  using T = typename P::T;
  unsigned char* memory;
  const Place& place;
  i64 index, batch;
  typename S::Walk ahead;
  int stage = 0, free = 0;

  MANSARD_DEVICE T* at(int which) const { return reinterpret_cast<T*>(memory + which * S::A::BYTES); }
  static MANSARD_DEVICE int line(const typename S::Walk& walk) {
    return S::ROWS * (P::LAYOUT_A == Layout::col ? walk.column : walk.row);
  }
  static MANSARD_DEVICE int position(const typename S::Walk& walk) {
    return S::ROWS * (P::LAYOUT_A == Layout::col ? walk.row : walk.column);
  }
  // Start the copies of the next block into the place that is free.
  MANSARD_DEVICE void request() {
    if (!ahead.done()) {
      if (ahead.row == ahead.column) fill<S::FALLING ? Part::falling : Part::rising>();
      else fill<Part::whole>();
      ahead.advance();
    }
    cp_async_commit();
    if (++free == P::STAGES) free = 0;
  }
  template <Part PART>
  MANSARD_DEVICE void fill() const {
    const int l = line(ahead), p = position(ahead);
    fill_part<typename S::A, P::FEED_A, S::ROWS, S::ROWS, P::N, PART, S::THREADS>(
        at(free), place, index, batch, l, p, min(S::ROWS, P::N - l), min(S::ROWS, P::N - p), threadIdx.x);
  }
  MANSARD_DEVICE const T* arrive(const typename S::Walk& now) const {
    cp_async_wait<P::STAGES - 1>();
    __syncthreads();  // block of A, and B: the copies of all threads have arrived
    return S::A::origin(at(stage), place, index, line(now), position(now));
  }
  MANSARD_DEVICE void leave() {
    __syncthreads();  // block of A, and after the last one B, are about to be overwritten; all threads have read them
    request();
    if (++stage == P::STAGES) stage = 0;
  }
};

// Store a block row of X from registers.
template <class P, class Tile, class T>
MANSARD_DEVICE void store_rows(const Tile& tile, T* to, i64 line, i64 step, int rows, int columns, const Scales& scales) {
  constexpr int PUT = gcd(Tile::TOGETHER, P::ADJACENT);
  const i64 row_step = Tile::ROW_MAJOR_X ? line : step, column_step = Tile::ROW_MAJOR_X ? step : line;
  tile.template for_each<PUT>([&](int row, int column, const T* sum) {
    if (row >= rows || column >= columns) return;
    Pack<T, PUT> pack;
    MANSARD_UNROLL
    for (int i = 0; i < PUT; ++i) pack.e[i] = scales.product(sum[i]);
    T* at = to + row * row_step + column * column_step;
    if constexpr (P::ALIGNED || !Scalar<T>::COMPLEX) store_pack(at, pack);
    else *at = pack.e[0];
  });
}

// Store a block row of X by way of the warp's strip, eight rows at a time: global memory sees runs of adjacent entries.
template <class Tile, class T>
MANSARD_DEVICE void store_by_strip(const Tile& tile, T* strip, T* to, i64 line, i64 step, int rows, int columns,
                                   const Scales& scales) {
  constexpr int WIDTH = Tile::WIDTH, PITCH = Tile::STRIP_PITCH;
  MANSARD_UNROLL
  for (int slot = 0; slot < Tile::ROW_SLOTS; ++slot) {
    __syncwarp();  // the strip is about to be overwritten; all lanes have stored what it held
    tile.for_each_in(slot, [&](int column, T sum) { strip[tile.g * PITCH + column] = scales.product(sum); });
    __syncwarp();  // the strip is complete, written by all lanes
MANSARD_UNROLL_BY(4)
    for (int e = static_cast<int>(threadIdx.x) % 32; e < 8 * WIDTH; e += 32) {
      const int row = tile.row_of(slot / 2, slot % 2, e / WIDTH), column = tile.column + e % WIDTH;
      if (row < rows && column < columns) to[row * line + column * step] = strip[e / WIDTH * PITCH + e % WIDTH];
    }
  }
}

// All items of a thread block, with a tile of X that is made from the number of a thread.
template <class P, class S, class Tile, class Arguments>
MANSARD_DEVICE void multiply_block_rows(const Arguments& arguments) {
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const System<P, Arguments> system(arguments);
  T* const place_b = reinterpret_cast<T*>(arena + P::STAGES * S::A::BYTES);
  Tile tile(threadIdx.x);
  const i64 products = arguments.BATCH * S::TILES, items = products * (P::SPLIT ? S::BLOCKS : 1);
MANSARD_UNROLL_BY(1)
  for (i64 item = blockIdx.x; item < items; item += gridDim.x) {
    const i64 index = item % products / S::TILES;
    const int part = P::SPLIT ? static_cast<int>(item / products) : 0;  // the longest block rows first
    const int top = P::SPLIT && !P::UPPER ? S::BLOCKS - 1 - part : part;
    const int first = static_cast<int>(item % S::TILES) * S::COLUMNS, count = min(S::COLUMNS, P::NRHS - first);
    const int line_b = S::ROW_MAJOR_B ? 0 : first, position_b = S::ROW_MAJOR_B ? first : 0;
    TriangleRing<P, S, decltype(system.A)> ring{arena, system.A, index, arguments.BATCH, typename S::Walk(top)};
    if (!system.vanishes) {
      constexpr int LINES = S::ROW_MAJOR_B ? P::N : S::COLUMNS, LENGTH = S::ROW_MAJOR_B ? S::COLUMNS : P::N;
      fill_part<typename S::B, P::FEED_B, LINES, LENGTH, S::ROW_MAJOR_B ? P::NRHS : P::N, Part::whole, S::THREADS>(
          place_b, system.B, index, arguments.BATCH, line_b, position_b, S::ROW_MAJOR_B ? P::N : count,
          S::ROW_MAJOR_B ? count : P::N, threadIdx.x);
      MANSARD_UNROLL
      for (int stage = 0; stage < P::STAGES; ++stage) ring.request();
    }
    const T* B = S::B::origin(place_b, system.B, index, line_b, position_b);
    T* const X = matrix_at(system.X.base, system.X.matrix, index);
    tile.clear();
MANSARD_UNROLL_BY(1)
    for (typename S::Walk now(top); !now.done(); now.advance()) {
      if (!system.vanishes) {
        const T* A = ring.arrive(now);
        const T* rows = B + now.column * (S::ROW_MAJOR_B ? S::ROWS * S::B::PITCH : S::ROWS);
        const bool whole = S::LAST == S::ROWS || now.column + 1 < S::BLOCKS;
        if (now.row == now.column) {
          if (whole) tile.template multiply_triangle<S::ROWS>(A, rows);
          else tile.template multiply_triangle<S::LAST>(A, rows);
        } else if constexpr (S::BLOCKS > 1) {
          if (whole) tile.template multiply<S::ROWS>(A, rows);
          else tile.template multiply<S::LAST>(A, rows);
        }
        ring.leave();
      }
      if (now.is_last()) {
        const int row = now.row * S::ROWS;
        const bool by_rows = Tile::ROW_MAJOR_X;
        T* to = X + (by_rows ? row : first) * system.X.line + (by_rows ? first : row) * system.X.step;
        const int rows = min(S::ROWS, P::N - row);
        if constexpr (Tile::BY_STRIPS) {
          T* strip = reinterpret_cast<T*>(arena + S::STRIPS + threadIdx.x / 32 * Tile::STRIP_BYTES);
          store_by_strip(tile, strip, to, system.X.line, system.X.step, rows, count, system.scales);
        } else {
          store_rows<P>(tile, to, system.X.line, system.X.step, rows, count, system.scales);
        }
        tile.clear();
      }
    }
  }
}

}  // namespace mansard
