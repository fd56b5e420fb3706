// A = L L^H, or solutions of A X = B, for a batch of matrices in shared memory: one thread block per matrix.
//
// Panel p of NB = 16 columns:  factor the diagonal block, L_ip = A_ip L_pp^-H for the blocks below it, then
// A_ij -= L_ip * L_jp^H for i >= j > p. Right-hand sides are NRHS rows below the matrix, conjugated and transposed: the
// panels turn B^H into Y^H = B^H L^-H; backward substitution Z L = Y^H gives X^H = Z.
//
// Team. Panel: every warp factors the diagonal block itself, with its rows in lanes 0 .. 15, and has 16 rows below it
// in lanes 16 .. 31 and 32 more per further slot (blocks.cuh). Update: one 16 x 16 block per warp at a time.
// Substitution: one right-hand side per warp.
//
// Shared memory:
//   blocks    COUNT * NB * NB   lower triangle and right-hand sides in blocks; A, then L (with 1 / l_kk for solves)
//   columns   2 * NB per warp   the pivot column of step k in place k % 2, read by the same warp only
//
// Phases, with barriers as barrier -> buffer -> writer:
//   1  load                            __syncthreads -> blocks -> copies of other threads
//   2  panel p in registers            __syncwarp per step -> column place k % 2 -> lanes 0 .. 15 of the warp
//      store the rows below            __syncthreads -> diagonal block -> warp 0, which overwrites it next;
//                                                       blocks below it -> warps that stored them, read by the update
//   3  update of the blocks behind p   __syncthreads -> blocks behind p -> other warps;  diagonal block -> warp 0
//   4  solve: substitution             __syncwarp per panel -> row of the right-hand side -> other lanes
//                                      __syncthreads -> right-hand sides -> other warps
//   5  store L or X
//
// Limits: 65 to 73 % of a copy at 80 to 128 rows of float64 (H200). Shared memory bounds the blocks per multiprocessor:
// three at 97 to 112 rows.
//
//   WARPS   warps per matrix
//   VECTOR_A, VECTOR_F  elements of a line that are moved at once
//   RAGGED  matrices have different orders, up to N, and are stored row-major without gaps
#pragma once
#include "kernels/factor/cholesky/blocks.cuh"

namespace mansard {

// One matrix in shared memory and the thread block that factors it.
template <class P, class Arguments>
struct Matrix {
  using T = typename P::T;
  using B = Blocks<T, P::N, P::N + P::NRHS>;
  static constexpr int N = P::N, NB = B::NB;
  static constexpr bool SOLVE = P::NRHS > 0;
  static_assert(B::BYTES + 2 * P::WARPS * NB * int(sizeof(T)) <= P::SHARED_BYTES, "shared memory");
  const Arguments& arguments;
  const Operands<P, Arguments> operands;
  B blocks;
  int warp, lane, info, own;  // own: the order of a ragged matrix

  // Rows of the matrix; below, with right-hand sides.
  MANSARD_DEVICE int order() const { return P::RAGGED ? own : N; }
  MANSARD_DEVICE int rows() const { return order() + P::NRHS; }

  MANSARD_DEVICE Matrix(const Arguments& arguments, T* memory)
      : arguments(arguments), operands(arguments), blocks{memory}, warp(threadIdx.x / 32), lane(threadIdx.x % 32), own(N) {}

  // Copy the triangle and the right-hand sides to shared memory. A warp copies a line: a row up to the diagonal, or a
  // column from the diagonal on.
  MANSARD_DEVICE void load(i64 index) {
    load_triangle(matrix_at(operands.A.base, operands.A.matrix, index), operands.A.line, operands.A.step);
    if constexpr (SOLVE) {
      const T* right = matrix_at(operands.B.base, operands.B.matrix, index);
      for (int e = threadIdx.x; e < N * P::NRHS; e += P::WARPS * 32)
        blocks.at(N + e / N, e % N) = conjugate(operands.turned(*entry(operands.B, P::LAYOUT_B, right, e % N, e / N)));
    }
    cp_async_commit();
    cp_async_wait<0>();
  }
  MANSARD_DEVICE void load_triangle(const T* from, i64 pitch, i64 step) {
    constexpr bool ROW_MAJOR = P::LAYOUT_A != Layout::col;
    constexpr int V = P::VECTOR_A;
MANSARD_UNROLL_BY(1)
    for (int line = warp; line < order(); line += P::WARPS)
MANSARD_UNROLL_BY(4)
      for (int e = (ROW_MAJOR ? 0 : line / V * V) + lane * V; e < (ROW_MAJOR ? line + 1 : order()); e += 32 * V) {
        T* to = &blocks.at(ROW_MAJOR ? line : e, ROW_MAJOR ? e : line);
        const T* here = from + line * pitch + e * step;
        if constexpr (P::WORDS) cp_async_word<V * int(sizeof(T))>(to, here);
        else *to = *here;
      }
  }
  template <class Place, class Pointer>
  static MANSARD_DEVICE Pointer entry(const Place& place, Layout layout, Pointer base, int row, int column) {
    return base + (layout == Layout::col ? column * place.line + row * place.step
                                         : row * place.line + column * place.step);
  }

  // Store L to global memory, with zeros above the diagonal; a warp stores a line.
  MANSARD_DEVICE void store(T* to, i64 pitch, i64 step) {
    constexpr bool ROW_MAJOR = P::LAYOUT_F != Layout::col;
    constexpr int V = P::VECTOR_F;
MANSARD_UNROLL_BY(1)
    for (int line = warp; line < order(); line += P::WARPS)
MANSARD_UNROLL_BY(4)
      for (int e = lane * V; e < order(); e += 32 * V) {
        Pack<T, V> pack = {};
        if (ROW_MAJOR && e <= line) pack = *reinterpret_cast<const Pack<T, V>*>(&blocks.at(line, e));
        MANSARD_UNROLL
        for (int i = 0; i < V; ++i) {
          if (!ROW_MAJOR && e + i >= line) pack.e[i] = blocks.at(e + i, line);
          pack.e[i] = ROW_MAJOR ? lower_entry(pack.e[i], line, e + i) : lower_entry(pack.e[i], e + i, line);
        }
        T* here = to + line * pitch + e * step;
        if constexpr (V > 1) store_pack(here, pack);
        else *here = pack.e[0];
      }
  }

  // Factor panel p with SLOTS rows per lane; warps without rows below the diagonal block are idle.
  template <int SLOTS>
  MANSARD_DEVICE void panel(int p) {
    const int below = rows() - (p + 1) * NB;
    Panel<B, P::WARPS, SLOTS> panel{p * NB, warp, lane, {}};
    const bool busy = warp == 0 || NB * warp < below;
    if (busy) {
      panel.load(blocks);
      constexpr bool WHOLE = !P::RAGGED && N % NB == 0;
      panel.template factor<SOLVE, WHOLE>(order() - p * NB, blocks.memory + B::COUNT * B::SIZE + warp * 2 * NB, info);
      panel.store_below(blocks);
    }
    __syncthreads();  // diagonal block is about to be overwritten by warp 0, all warps have read it; L_ip is complete
    panel.store_diagonal(blocks);
  }

  MANSARD_DEVICE void factor() {
    // IN_LANES: rows below the diagonal block that lanes 16 .. 31 of all warps hold; the rest needs further slots
    constexpr int IN_LANES = P::WARPS * NB, SLOTS = 1 + ceil_div(B::ROWS > NB + IN_LANES ? B::ROWS - NB - IN_LANES : 0,
                                                                 P::WARPS * 32);
    const int across = ceil_div(order(), NB);
    info = 0;
MANSARD_UNROLL_BY(1)
    for (int p = 0; p < across; ++p) {
      if (SLOTS == 1 || rows() - (p + 1) * NB <= IN_LANES) panel<1>(p);
      else panel<SLOTS>(p);
      if (p + 1 < across) update(p, across);
      __syncthreads();  // blocks behind panel p (all warps) and the diagonal block (warp 0) are complete
    }
  }
  // A_ij -= L_ip * L_jp^H for the blocks behind panel p, distributed over the warps row by row.
  MANSARD_DEVICE void update(int p, int across) {
    const int down = ceil_div(rows(), NB);
    int i = p + 1, j = p + 1 + warp;
    while (true) {
      int end = min(i + 1, across);
      while (j >= end) {
        j -= end - (p + 1);
        end = min(++i + 1, across);
      }
      if (i >= down) break;
      subtract_product<B>(blocks.block(i, j), blocks.block(i, p), blocks.block(j, p), lane);
      j += P::WARPS;
    }
  }

  // Backward substitution z L = y for the rows below the matrix, one per warp: z is x, conjugated and transposed.
  MANSARD_DEVICE void substitute() {
    for (int row = N + warp; row < N + P::NRHS; row += P::WARPS)
MANSARD_UNROLL_BY(1)
      for (int p = B::ACROSS - 1; p >= 0; --p) {
        const int first = p * NB, columns = min(NB, N - first), mine = first + min(lane, columns - 1);
        T y = lane < columns ? blocks.at(row, mine) : zero<T>();
        const auto inverse = real_part(blocks.at(mine, mine));
MANSARD_UNROLL_BY(4)
        for (int k = columns - 1; k >= 0; --k) {
          const T known = lane_value<32>(by_real(y, inverse), k);
          if (lane == k) y = known;
          else if (lane < k) multiply_subtract<false>(y, blocks.at(first + k, mine), known);
        }
        if (lane < columns) blocks.at(row, mine) = y;
MANSARD_UNROLL_BY(1)
        for (int column = lane; column - lane < first; column += 32) {
          T sum = zero<T>();
MANSARD_UNROLL_BY(8)
          for (int k = 0; k < columns; ++k)
            multiply_add<false>(sum, blocks.at(first + k, min(column, first - 1)), lane_value<32>(y, k));
          if (column < first) blocks.at(row, column) = difference(blocks.at(row, column), sum);
        }
        __syncwarp();  // the right-hand side's earlier columns, updated by other lanes, are about to be read
      }
    __syncthreads();  // right-hand sides hold X, written by the warps of their rows
  }
  MANSARD_DEVICE void store_solution(i64 index) {
    T* to = matrix_at(operands.X.base, operands.X.matrix, index);
    for (int e = threadIdx.x; e < N * P::NRHS; e += P::WARPS * 32)
      *entry(operands.X, P::LAYOUT_X, to, e % N, e / N) = operands.turned(conjugate(blocks.at(N + e / N, e % N)));
  }

  MANSARD_DEVICE void answer(i64 index) {
    load(index);
    __syncthreads();  // blocks: the copies of all threads have arrived
    factor();
    if (threadIdx.x == 0) arguments.INFO[index] = info;
    if constexpr (SOLVE) {
      substitute();
      store_solution(index);
    } else {
      store(matrix_at(operands.F.base, operands.F.matrix, index), operands.F.line, operands.F.step);
    }
  }
  MANSARD_DEVICE void answer(const Item& item) {
    own = item.order;
    load_triangle(arguments.A + item.a, own, 1);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();  // blocks: the copies of all threads have arrived
    factor();
    if (threadIdx.x == 0) arguments.INFO[item.index] = info;
    store(arguments.F + item.f, own, 1);
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void cholesky_block(const Arguments& arguments) {
  MANSARD_SHARED_ARENA(typename P::T, arena);
  Matrix<P, Arguments> matrix(arguments, arena);
  const i64 index = blockIdx.x;
  if (index >= arguments.BATCH) return;
  if constexpr (P::RAGGED) matrix.answer(Item(arguments.ITEMS, index));
  else matrix.answer(index);
}

}  // namespace mansard
