// Cholesky factors, or solutions, of a stack of matrices that fit into shared memory: a block of threads per matrix.
//
// The triangle lies in square blocks (blocks.cuh). Panel by panel, all warps factor a column of blocks and then
// subtract its products from what is to the right of it. Right-hand sides are rows below the matrix, conjugated and
// transposed: when it is factored, the first half of their substitution is done.
//
//   WARPS   warps per matrix
//   VECTOR_A, VECTOR_F  elements of a line that are moved at once
//   RAGGED  matrices have different orders, no more than N, and lie row after row
#pragma once
#include "kernels/factor/cholesky/blocks.cuh"

namespace mansard {

// One matrix in shared memory and the block of threads that works on it.
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
  int warp, lane, info, own;

  // Rows of the matrix, and with right-hand sides.
  MANSARD_DEVICE int order() const { return P::RAGGED ? own : N; }
  MANSARD_DEVICE int rows() const { return order() + P::NRHS; }

  MANSARD_DEVICE Matrix(const Arguments& arguments, T* memory)
      : arguments(arguments), operands(arguments), blocks{memory}, warp(threadIdx.x / 32), lane(threadIdx.x % 32), own(N) {}

  // Lines of the triangle, each by a warp: rows as far as the diagonal, or columns from there on.
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
    __syncthreads();
    panel.store_diagonal(blocks);
  }

  MANSARD_DEVICE void factor() {
    // rows that all warps have in their upper lanes, and in further slots
    constexpr int IN_LANES = P::WARPS * NB, SLOTS = 1 + ceil_div(B::ROWS > NB + IN_LANES ? B::ROWS - NB - IN_LANES : 0,
                                                                 P::WARPS * 32);
    const int across = ceil_div(order(), NB);
    info = 0;
MANSARD_UNROLL_BY(1)
    for (int p = 0; p < across; ++p) {
      if (SLOTS == 1 || rows() - (p + 1) * NB <= IN_LANES) panel<1>(p);
      else panel<SLOTS>(p);
      if (p + 1 < across) update(p, across);
      __syncthreads();
    }
  }
  // Blocks to the right of panel p, in turn.
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

  // z L = y for the rows below the matrix, each by a warp: z is the solution, conjugated and transposed.
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
        __syncwarp();
      }
    __syncthreads();
  }
  MANSARD_DEVICE void store_solution(i64 index) {
    T* to = matrix_at(operands.X.base, operands.X.matrix, index);
    for (int e = threadIdx.x; e < N * P::NRHS; e += P::WARPS * 32)
      *entry(operands.X, P::LAYOUT_X, to, e % N, e / N) = operands.turned(conjugate(blocks.at(N + e / N, e % N)));
  }

  MANSARD_DEVICE void answer(i64 index) {
    load(index);
    __syncthreads();
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
    __syncthreads();
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
