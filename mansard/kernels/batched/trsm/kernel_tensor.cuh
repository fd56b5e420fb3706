// A X = alpha B for a batch of triangles and several right-hand sides, in double precision on the tensor cores.
//
// Step p, eight rows at a time:  X_p = A_pp^-1 B_p by substitution (eight_rows.cuh), then B_i -= A_ip X_p for the
// blocks i > p of eight rows, on the tensor cores.
//
// Team. A thread block has COLUMNS = 16 * WARPS columns of X, a warp 16 of them in registers, transposed: lane (group,
// turn) has rows 2 turn, 2 turn + 1 of each block in columns group and group + 8. Eight solved rows are then an operand
// of the next products without rearranging.
//
// Shared memory, in doubles: a ring of STAGES places, each with a column of the triangle's 8 x 8 blocks (BLOCKS * 64);
// then ROWS inverses of the diagonal, and ROWS numbers that they lack to be exact. Step p reads column p, while the
// next STAGES - 1 are on their way.
// Barriers (__syncthreads -> buffer -> writer):
//   arrive -> column p, and before the first one the inverses -> copies and quotients of other threads
//          -> the place of column p - 1, read by all warps -> the copies that are started next
//
// Limits: the chain of N rows, about 100 clocks each, of as many blocks as registers and shared memory have room for.
//
//   WARPS     warps per block, 16 columns of X each
//   STAGES    columns of blocks in shared memory
//   INVERT    multiply by inverted diagonal entries instead of dividing by them
//   VECTOR_A  entries of a row of A that are moved at once; VECTOR_B, VECTOR_X entries of a column of B and X
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
  static constexpr int COLUMNS = 16 * P::WARPS, TILES = ceil_div(P::NRHS, COLUMNS);
  static_assert((P::STAGES * PLACE + 2 * ROWS) * 8 <= P::SHARED_BYTES && P::STAGES >= 2, "shared memory");
};

// The triangle, a column of 8 x 8 blocks at a time. Rows and columns are numbered in the order in which unknowns become
// known.
template <class P, class Place>
struct TriangleColumns {
  using S = TensorShape<P>;
  double *memory, *inverses;  // the ring; inverses of the diagonal and what they lack
  const Place& place;
  const double* matrix;

  MANSARD_DEVICE TriangleColumns(double* memory, const Place& place, i64 index)
      : memory(memory), inverses(memory + P::STAGES * S::PLACE), place(place),
        matrix(matrix_at(place.base, place.matrix, index)) {}

  static MANSARD_DEVICE int order(int i) { return P::UPPER ? P::N - 1 - i : i; }
  MANSARD_DEVICE const double* entry(int row, int column) const {
    constexpr bool ROW_MAJOR = P::LAYOUT_A != Layout::col;
    return matrix + order(ROW_MAJOR ? row : column) * place.line + order(ROW_MAJOR ? column : row) * place.step;
  }
  // Block (i, p).
  MANSARD_DEVICE double* block(int i, int p) const { return memory + p % P::STAGES * S::PLACE + (i - p) * 64; }

  // Start the copies of column p: threads with neighbouring numbers have neighbours in memory.
  MANSARD_DEVICE void request(int p) const {
    constexpr bool ROW_MAJOR = P::LAYOUT_A != Layout::col;
    constexpr int V = P::VECTOR_A, PIECES = 8 / V;
    if (p < S::BLOCKS) {
      double* const to = block(p, p);
      const int rows = P::N - 8 * p;
MANSARD_UNROLL_BY(4)
      for (int e = threadIdx.x; e < rows * PIECES; e += S::THREADS) {
        const int row = ROW_MAJOR ? e / PIECES : e % rows, column = (ROW_MAJOR ? e % PIECES : e / rows) * V;
        if (column <= row) cp_async_word<8 * V>(to + row * 8 + column, entry(8 * p + row, 8 * p + column));
      }
      if constexpr (P::N % 8 != 0)  // rows of the unit matrix
        for (int e = threadIdx.x; e < (S::ROWS - P::N) * 8; e += S::THREADS)
          to[rows * 8 + e] = rows + e / 8 == e % 8 ? 1.0 : 0.0;
    }
    cp_async_commit();
  }
  MANSARD_DEVICE void begin() const {
    MANSARD_UNROLL
    for (int p = 0; p + 1 < P::STAGES; ++p) request(p);
    if constexpr (!P::UNIT)
      for (int i = threadIdx.x; i < S::ROWS; i += S::THREADS) {
        const double number = i < P::N ? *entry(i, i) : 1.0, inverse = 1.0 / number;
        inverses[i] = inverse;
        if constexpr (!P::INVERT) inverses[S::ROWS + i] = fma(-inverse, number, 1.0) * inverse;
      }
  }
  MANSARD_DEVICE void arrive(int p) const {
    cp_async_wait<P::STAGES - 2>();
    __syncthreads();  // column p, and the inverses: of all threads; the place of column p - 1 has been read by all
    request(p + P::STAGES - 1);
  }
};

// 16 columns of X from `first` on, in the registers of a warp.
template <class P>
struct WarpColumns {
  using S = TensorShape<P>;
  int first, group, turn;
  double x[S::BLOCKS][4];

  MANSARD_DEVICE explicit WarpColumns(int first)
      : first(first), group(threadIdx.x % 32 / 4), turn(threadIdx.x % 4) {}

  // Calls use(entry of x, exists, address) for the lane's entries, V rows at a time.
  template <int V, Layout LAYOUT, class T, class Place, class Use>
  MANSARD_DEVICE void for_entries(T* matrix, const Place& place, Use use) {
    const i64 row = LAYOUT == Layout::col ? place.step : place.line, column = LAYOUT == Layout::col ? place.line : place.step;
    MANSARD_UNROLL
    for (int p = 0; p < S::BLOCKS; ++p)
      MANSARD_UNROLL
      for (int i = 0; i < 4; i += V) {
        const int r = 8 * p + 2 * turn + i % 2, c = first + group + i / 2 * 8;
        const bool there = (P::N % 8 == 0 || r < P::N) && c < P::NRHS;
        use(x[p] + i, there, matrix + (P::UPPER ? P::N - 1 - r : r) * row + c * column);
      }
  }
  template <class System>
  MANSARD_DEVICE void load(const System& system, i64 index) {
    constexpr int V = P::VECTOR_B;
    const double* matrix = matrix_at(system.B.base, system.B.matrix, index);
    for_entries<V, P::LAYOUT_B>(matrix, system.B, [](double* entry, bool there, const double* from) {
      Pack<double, V> pack = {};
      if (there) pack = *reinterpret_cast<const Pack<double, V>*>(from);
      MANSARD_UNROLL
      for (int e = 0; e < V; ++e) entry[e] = pack.e[e];
    });
    MANSARD_UNROLL
    for (int p = 0; p < S::BLOCKS; ++p)
      MANSARD_UNROLL
      for (int i = 0; i < 4; ++i) x[p][i] = system.scales.product(x[p][i]);
  }
  template <class System>
  MANSARD_DEVICE void store(const System& system, i64 index) {
    constexpr int V = P::VECTOR_X;
    double* matrix = matrix_at(system.X.base, system.X.matrix, index);
    for_entries<V, P::LAYOUT_X>(matrix, system.X, [](const double* entry, bool there, double* to) {
      Pack<double, V> pack;
      MANSARD_UNROLL
      for (int e = 0; e < V; ++e) pack.e[e] = entry[e];
      if (there) *reinterpret_cast<Pack<double, V>*>(to) = pack;
    });
  }
  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int p = 0; p < S::BLOCKS; ++p)
      MANSARD_UNROLL
      for (int i = 0; i < 4; ++i) x[p][i] = 0.0;
  }

  // Solve for all rows. All warps of a block take part in the copies and barriers, those without a column as well.
  template <class Triangle>
  MANSARD_DEVICE void solve(const Triangle& triangle) {
    MANSARD_UNROLL
    for (int p = 0; p < S::BLOCKS; ++p) {
      triangle.arrive(p);
      if (first >= P::NRHS) continue;
      EightRows<P>{turn}.solve(x[p], triangle.block(p, p), triangle.inverses + 8 * p, S::ROWS);
      // the order along k is permuted alike in both operands: a lane's entries of k are adjacent pairs
      const double known[4] = {-x[p][0], -x[p][2], -x[p][1], -x[p][3]};
      MANSARD_UNROLL
      for (int i = p + 1; i < S::BLOCKS; ++i) {
        const auto pair = *reinterpret_cast<const Pack<double, 2>*>(triangle.block(i, p) + group * 8 + 2 * turn);
        mma_m16n8k8(x[i], known, pair.e);
      }
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void trsm_tensor(const Arguments& arguments) {
  using S = TensorShape<P>;
  MANSARD_SHARED_ARENA(double, arena);
  const System<P, Arguments> system(arguments);
  const i64 index = blockIdx.x / S::TILES;
  if (index >= arguments.BATCH) return;
  WarpColumns<P> columns(static_cast<int>(blockIdx.x % S::TILES) * S::COLUMNS + threadIdx.x / 32 * 16);
  if (system.vanishes) {
    columns.clear();
  } else {
    const TriangleColumns<P, decltype(system.A)> triangle(arena, system.A, index);
    triangle.begin();
    columns.load(system, index);
    columns.solve(triangle);
  }
  columns.store(system, index);
}

}  // namespace mansard
