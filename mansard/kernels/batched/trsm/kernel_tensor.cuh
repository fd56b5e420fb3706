// A X = alpha B for a batch of triangles and several right-hand sides, in double precision on the tensor cores.
//
// Step p, eight rows at a time:  X_p = A_pp^-1 B_p by substitution (eight_rows.cuh), then B_i -= A_ip X_p for the
// blocks i > p of eight rows, on the tensor cores.
//
// Team. A thread block has COLUMNS = 16 * WARPS columns of X, a warp 16 of them in registers, transposed: lane (group,
// turn) has rows 2 turn, 2 turn + 1 of each block in columns group and group + 8. Eight solved rows are then an operand
// of the next products without rearranging.
//
// Shared memory, in doubles: the triangle as COUNT blocks of 8 x 8, then ROWS inverses of the diagonal.
// Barriers (__syncthreads -> buffer -> writer): triangle -> copies of other threads;  inverses -> other threads.
//
// Limits: 35 to 56 % of the copy bandwidth (H200): a block reads, solves and writes in turn, and two or three fit.
//
//   WARPS     warps per block, 16 columns of X each
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
  static constexpr int COUNT = BLOCKS * (BLOCKS + 1) / 2, THREADS = 32 * P::WARPS;
  static constexpr int COLUMNS = 16 * P::WARPS, TILES = ceil_div(P::NRHS, COLUMNS);
  static_assert((COUNT * 64 + ROWS) * 8 <= P::SHARED_BYTES, "shared memory");
};

// The triangle in shared memory. Rows and columns are numbered in the order in which unknowns become known.
template <class P>
struct TriangleBlocks {
  using S = TensorShape<P>;
  double *memory, *inverses;  // blocks; inverses of the diagonal

  MANSARD_DEVICE double* block(int i, int j) const { return memory + (i * (i + 1) / 2 + j) * 64; }
  MANSARD_DEVICE double* at(int i, int j) const { return block(i / 8, j / 8) + i % 8 * 8 + j % 8; }
  static MANSARD_DEVICE int place(int i) { return P::UPPER ? P::N - 1 - i : i; }

  // Copy the triangle. A warp copies a line: a row up to the diagonal, or a column from the diagonal on.
  template <class Place>
  MANSARD_DEVICE void load(const Place& from, i64 index) const {
    constexpr bool ROW_MAJOR = P::LAYOUT_A != Layout::col;
    constexpr int V = P::VECTOR_A;
    const double* matrix = matrix_at(from.base, from.matrix, index);
MANSARD_UNROLL_BY(1)
    for (int line = threadIdx.x / 32; line < P::N; line += P::WARPS)
MANSARD_UNROLL_BY(4)
      for (int e = (ROW_MAJOR ? 0 : line) + threadIdx.x % 32 * V; e < (ROW_MAJOR ? line + 1 : P::N); e += 32 * V)
        cp_async_word<8 * V>(ROW_MAJOR ? at(line, e) : at(e, line),
                             matrix + place(line) * from.line + place(e) * from.step);
    for (int e = threadIdx.x; e < (S::ROWS - P::N) * S::ROWS; e += S::THREADS) {
      const int i = P::N + e / S::ROWS, j = e % S::ROWS;
      if (j <= i) *at(i, j) = i == j ? 1.0 : 0.0;
    }
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();  // triangle: the copies of all threads have arrived
    if constexpr (!P::UNIT) {
      for (int i = threadIdx.x; i < S::ROWS; i += S::THREADS) inverses[i] = 1.0 / *at(i, i);
      __syncthreads();  // inverses are complete, written by all threads
    }
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
        use(x[p] + i, there, matrix + TriangleBlocks<P>::place(r) * row + c * column);
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

  MANSARD_DEVICE void solve(const TriangleBlocks<P>& triangle) {
    MANSARD_UNROLL
    for (int p = 0; p < S::BLOCKS; ++p) {
      EightRows<P>{turn}.solve(x[p], triangle.block(p, p), triangle.inverses + 8 * p);
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
  const TriangleBlocks<P> triangle{arena, arena + S::COUNT * 64};
  const i64 index = blockIdx.x / S::TILES;
  if (index >= arguments.BATCH) return;
  WarpColumns<P> columns(static_cast<int>(blockIdx.x % S::TILES) * S::COLUMNS + threadIdx.x / 32 * 16);
  if (system.vanishes) {
    columns.clear();
  } else {
    columns.load(system, index);
    triangle.load(system.A, index);
    if (columns.first < P::NRHS) columns.solve(triangle);
  }
  columns.store(system, index);
}

}  // namespace mansard
