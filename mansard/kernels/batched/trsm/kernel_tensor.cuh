// A X = alpha B for a batch of triangles and several right-hand sides, in double precision on the tensor cores.
//
// Step p, eight rows at a time:  B_p -= A_pj X_j for the blocks j < p of eight rows, on the tensor cores; then
// X_p = A_pp^-1 B_p by substitution (eight_rows.cuh).
//
// Team. A thread block has COLUMNS columns of X, a warp WARP_TILES * 16 of them, transposed: lane (group, turn) has rows
// 2 turn, 2 turn + 1 of each block in columns group + 8 c. Solved rows are an operand of later products as they are, so
// that a lane never reads what another one has written of X.
//
// Shared memory, in doubles: a ring of STAGES places, each with a row of the triangle's 8 x 8 blocks (BLOCKS * 64, in the
// order of in_block); ROWS inverses of the diagonal, and ROWS numbers that they lack to be exact; then for each warp B,
// which becomes X, a pair of numbers per lane, block and 8 columns. Step p reads row p of A and of B, while the next
// STAGES - 1 are on their way.
// Barriers (__syncthreads -> buffer -> writer):
//   arrive -> row p of A, and before the first one the inverses -> copies and quotients of other threads
//          -> the place of row p - 1, read by all warps -> the copies that are started next
//
// Limits: reads of shared memory and shuffles, then the chain of N rows of as many blocks of threads as shared memory has
// room for. Loops over the blocks are loops: code without them outgrows the cache of instructions and takes 15 s to
// compile at 128 rows.
//
//   WARPS       warps per block
//   STAGES      rows of blocks in shared memory
//   WARP_TILES  tiles of 16 columns per warp: they share what is read of A
//   INVERT      multiply by inverted diagonal entries instead of dividing by them
//   VECTOR_A    entries of a row of A that are moved at once; VECTOR_B, VECTOR_X entries of a column of B and X
#pragma once
#include "kernels/batched/trsm/eight_rows.cuh"
#include "kernels/batched/trsm/system.cuh"
#include "mansard/gpu/async_words.cuh"
#include "mansard/gpu/mma.cuh"

namespace mansard {

template <class P>
struct TensorShape {
  static constexpr int BLOCKS = ceil_div(P::N, 8), ROWS = 8 * BLOCKS;  // padded with rows of the unit matrix
  static constexpr int PLACE = BLOCKS * 64, THREADS = 32 * P::WARPS;
  static constexpr int OF_LANE = 2 * P::WARP_TILES, OF_BLOCK = 64 * OF_LANE, OF_WARP = BLOCKS * OF_BLOCK;  // columns; doubles
  static constexpr int COLUMNS = 8 * OF_LANE * P::WARPS, TILES = ceil_div(P::NRHS, COLUMNS);
  static_assert((P::STAGES * PLACE + 2 * ROWS + P::WARPS * OF_WARP) * 8 <= P::SHARED_BYTES, "shared memory");
  static_assert(P::STAGES >= 2);
};

// Rows and columns are numbered in the order in which unknowns become known.
template <class P>
MANSARD_DEVICE int order(int i) {
  return P::UPPER ? P::N - 1 - i : i;
}

// The triangle, a row of 8 x 8 blocks at a time.
template <class P, class Place>
struct TriangleRows {
  using S = TensorShape<P>;
  static constexpr bool ROW_MAJOR = P::LAYOUT_A != Layout::col;
  double *memory, *inverses;  // the ring; inverses of the diagonal and what they lack
  const Place& place;
  const double* matrix;

  MANSARD_DEVICE TriangleRows(double* memory, const Place& place, i64 index)
      : memory(memory), inverses(memory + P::STAGES * S::PLACE), place(place),
        matrix(matrix_at(place.base, place.matrix, index)) {}

  MANSARD_DEVICE const double* entry(int row, int column) const {
    return matrix + order<P>(ROW_MAJOR ? row : column) * place.line + order<P>(ROW_MAJOR ? column : row) * place.step;
  }
  // Row p of blocks.
  MANSARD_DEVICE double* blocks(int p) const { return memory + p % P::STAGES * S::PLACE; }

  // Start the copies of row p: neighbouring threads have neighbours in memory.
  MANSARD_DEVICE void request(int p) const {
    constexpr int V = P::VECTOR_A, BESIDE = S::THREADS / 8;
    const int thread = static_cast<int>(threadIdx.x), row = ROW_MAJOR ? thread / BESIDE : thread % 8;
    const int first = (ROW_MAJOR ? thread % BESIDE : thread / 8) * V, last = 8 * p + row;
    double* const to = blocks(p);
    const auto at = [&](int column) { return column / 8 * 64 + in_block(row, column % 8); };
    if (P::N % 8 == 0 || last < P::N) {
MANSARD_UNROLL_BY(4)
      for (int column = first; column <= last; column += BESIDE * V)
        cp_async_word<8 * V>(to + at(column), entry(last, column));
    } else {  // rows of the unit matrix
MANSARD_UNROLL_BY(1)
      for (int column = first; column < first + V || column <= last; column += BESIDE * V)
        MANSARD_UNROLL
        for (int i = 0; i < V; ++i)
          if (column + i <= last) to[at(column + i)] = column + i == last ? 1.0 : 0.0;
    }
  }
  MANSARD_DEVICE void invert_diagonal() const {
    for (int i = threadIdx.x; i < S::ROWS; i += S::THREADS) {
      const double number = i < P::N ? *entry(i, i) : 1.0, inverse = 1.0 / number;
      inverses[i] = inverse;
      if constexpr (!P::INVERT) inverses[S::ROWS + i] = fma(-inverse, number, 1.0) * inverse;
    }
  }
};

// 16 * WARP_TILES columns of X from `first` on.
template <class P>
struct WarpColumns {
  using S = TensorShape<P>;
  static constexpr int ENTRIES = 2 * S::OF_LANE;  // of a lane in a block of eight rows: pairs of rows of each column
  using Pair = Pack<double, 2>;
  int first, group, turn;
  double* memory;  // of the lane: a pair of rows of each block and column

  MANSARD_DEVICE WarpColumns(int first, double* of_warp)
      : first(first), group(threadIdx.x % 32 / 4), turn(threadIdx.x % 4), memory(of_warp + threadIdx.x % 32 * 2) {}

  MANSARD_DEVICE Pair& pair(int p, int column) const {
    return *reinterpret_cast<Pair*>(memory + p * S::OF_BLOCK + column * 64);
  }

  // Calls use(i, exists, address) for the lane's entries in block p, V rows at a time.
  template <int V, Layout LAYOUT, class T, class Place, class Use>
  MANSARD_DEVICE void for_entries(int p, T* matrix, const Place& place, Use use) const {
    const i64 row = LAYOUT == Layout::col ? place.step : place.line, column = LAYOUT == Layout::col ? place.line : place.step;
    T* const own = matrix + order<P>(8 * p + 2 * turn) * row + (first + group) * column;
    MANSARD_UNROLL
    for (int i = 0; i < ENTRIES; i += V) {
      const int r = 8 * p + 2 * turn + i % 2, c = first + group + i / 2 * 8;
      T* const address = own + i / 2 * 8 * column;
      use(i, (P::N % 8 == 0 || r < P::N) && c < P::NRHS, i % 2 == 0 ? address : P::UPPER ? address - row : address + row);
    }
  }
  // Start the copies of block p of B; what does not exist is zero.
  template <class Place>
  MANSARD_DEVICE void request(int p, const Place& place, i64 index) const {
    constexpr int V = P::VECTOR_B;
    for_entries<V, P::LAYOUT_B>(p, matrix_at(place.base, place.matrix, index), place,
                                [&](int i, bool there, const double* from) {
      double* const to = pair(p, i / 2).e + i % 2;
      if (there) cp_async_word<8 * V>(to, from);
      else
        MANSARD_UNROLL
        for (int e = 0; e < V; ++e) to[e] = 0.0;
    });
  }
  template <class Place>
  MANSARD_DEVICE void store(int p, const double (&x)[ENTRIES], const Place& place, i64 index) const {
    constexpr int V = P::VECTOR_X;
    for_entries<V, P::LAYOUT_X>(p, matrix_at(place.base, place.matrix, index), place,
                                [&](int i, bool there, double* to) {
      Pack<double, V> pack;
      MANSARD_UNROLL
      for (int e = 0; e < V; ++e) pack.e[e] = x[i + e];
      if (there) *reinterpret_cast<Pack<double, V>*>(to) = pack;
    });
  }

  // Solve for block p, and keep -X where B was.
  MANSARD_DEVICE void solve(int p, double (&x)[ENTRIES], const double* row, const double* inverses,
                            const Scales& scales) const {
    double sums[2][P::WARP_TILES][4] = {};
    const double* const mine = row + in_block(group, 2 * turn);
    const auto add = [&](double (&sum)[P::WARP_TILES][4], int j) {
      const Pair entries = *reinterpret_cast<const Pair*>(mine + j * 64);
      MANSARD_UNROLL
      for (int tile = 0; tile < P::WARP_TILES; ++tile) {
        const Pair left = pair(j, 2 * tile), right = pair(j, 2 * tile + 1);
        // the order along k is permuted alike in both operands: a lane's entries of k are adjacent pairs
        const double known[4] = {left.e[0], right.e[0], left.e[1], right.e[1]};
        mma_m16n8k8(sum[tile], known, entries.e);
      }
    };
MANSARD_UNROLL_BY(2)
    for (int j = 1; j < p; j += 2) add(sums[0], j - 1), add(sums[1], j);
    if (p % 2 == 1) add(sums[0], p - 1);
    MANSARD_UNROLL
    for (int i = 0; i < ENTRIES; i += 2) {
      const Pair right_hand_side = pair(p, i / 2);
      MANSARD_UNROLL
      for (int s = 0; s < 2; ++s)
        x[i + s] = scales.product(right_hand_side.e[s]) + (sums[0][i / 4][i % 4 + s] + sums[1][i / 4][i % 4 + s]);
    }
    EightRows<P, S::OF_LANE>{turn}.solve(x, row + p * 64, inverses + 8 * p, S::ROWS);
    MANSARD_UNROLL
    for (int i = 0; i < ENTRIES; i += 2) pair(p, i / 2) = {-x[i], -x[i + 1]};
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void trsm_tensor(const Arguments& arguments) {
  using S = TensorShape<P>;
  MANSARD_SHARED_ARENA(double, arena);
  const System<P, Arguments> system(arguments);
  const i64 index = blockIdx.x / S::TILES;
  if (index >= arguments.BATCH) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const TriangleRows<P, decltype(system.A)> triangle(arena, system.A, index);
  const WarpColumns<P> columns(static_cast<int>(blockIdx.x % S::TILES) * S::COLUMNS + warp * 8 * S::OF_LANE,
                               triangle.inverses + 2 * S::ROWS + warp * S::OF_WARP);
  const bool active = columns.first < P::NRHS;  // all warps take part in the copies and barriers
  const auto request = [&](int p) {
    if (p < S::BLOCKS && !system.vanishes) {
      triangle.request(p);
      if (active) columns.request(p, system.B, index);
    }
    cp_async_commit();
  };
MANSARD_UNROLL_BY(1)
  for (int p = 0; p + 1 < P::STAGES; ++p) request(p);
  if (!P::UNIT && !system.vanishes) triangle.invert_diagonal();
MANSARD_UNROLL_BY(1)
  for (int p = 0; p < S::BLOCKS; ++p) {
    cp_async_wait<P::STAGES - 2>();
    __syncthreads();  // row p, and the inverses: of all threads; the place of row p - 1 has been read by all
    request(p + P::STAGES - 1);
    if (!active) continue;
    double x[2 * S::OF_LANE] = {};
    if (!system.vanishes) columns.solve(p, x, triangle.blocks(p), triangle.inverses, system.scales);
    columns.store(p, x, system.X, index);
  }
}

}  // namespace mansard
