// C = A^H B on FP64 tensor cores, operands loaded straight into the registers the instruction wants them in.
//
// In m16n8k4 lane (g, t) = (lane / 4, lane % 4) holds row t of the K direction and columns g (B) or g, g + 8 (A).
// Which matrix column is called "g" is free as long as A, B and C agree, so a slot of eight columns is defined such
// that VECTOR adjacent slots are one wide load per lane: slot s, lane g -> column 8 V (s / V) + V g + s % V. No
// shared memory, no shuffles, and any layout: rows, columns or arbitrary strides.
//
//   TILE_M, TILE_N       slots (eight real columns each) per warp
//   WARPS_M, WARPS_N     warps side by side over a block's part of C; WARPS_K groups of them share the rows
//   DEPTH                K steps of four rows that are in flight per warp
//   VECTOR               words per load across columns; K_VECTOR words per load down a column-major column
//   FOLD                 rows of a narrow contiguous matrix viewed as one
#pragma once
#include "kernels/tall_skinny/gram/real_tile.cuh"

namespace mansard {

template <class P>
struct FragmentShape : RealShape<P> {
  using R = RealShape<P>;
  static constexpr int THREADS = P::WARPS_M * P::WARPS_N * P::WARPS_K * 32;
  static constexpr int BLOCK_M = P::WARPS_M * P::TILE_M * 8, BLOCK_N = P::WARPS_N * P::TILE_N * 8;  // real columns
  static constexpr int TILES_M = ceil_div(R::WIDTH_M, BLOCK_M), TILES_N = ceil_div(R::WIDTH_N, BLOCK_N);
  static constexpr int TILES = TILES_M * TILES_N;
  static constexpr int ENTRIES_M = BLOCK_M / R::WORDS < P::M ? BLOCK_M / R::WORDS : P::M;
  static constexpr int ENTRIES_N = BLOCK_N / R::WORDS < P::N ? BLOCK_N / R::WORDS : P::N;
  static constexpr int PITCH = BLOCK_N + 1;
  // One warp that sees all of A = B needs no second operand and only the tiles on and above the diagonal.
  static constexpr bool REUSE = P::SAME && TILES == 1 && P::WARPS_M == 1 && P::WARPS_N == 1;
  static_assert(P::TILE_M % 2 == 0 && P::TILE_M % P::VECTOR == 0 && P::TILE_N % P::VECTOR == 0, "slots per load");
  static_assert(P::WARPS_K * BLOCK_M * PITCH * 8 <= P::SHARED_BYTES, "shared memory");
  static_assert(P::FOLD == 1 || TILES == 1, "a folded product must lie in one block");
};

template <class Word, int COUNT>
struct alignas(COUNT * sizeof(Word)) Words {
  Word at[COUNT];
};

// A warp's registers for one operand: SLOTS slots of 4 * DEPTH rows.
template <class P, int SLOTS, Layout LAYOUT, int WIDTH>
struct FragmentOperand {
  using T = typename P::T;
  using Word = typename RealShape<P>::Word;
  static constexpr int WORDS = RealShape<P>::WORDS, V = P::VECTOR;
  Word at[P::DEPTH][SLOTS];

  static MANSARD_DEVICE int column(int slot, int g) { return slot / V * 8 * V + V * g + slot % V; }

  // `matrix` points at row 0; rows >= `rows` and columns >= WIDTH read as zero. `first` is the warp's first column.
  template <bool CHECK>
  MANSARD_DEVICE void load(const T* matrix, i64 row_stride, i64 column_stride, i64 k, i64 rows, int first) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const i64 row = k + t * P::DEPTH;
    if constexpr (LAYOUT == Layout::col && WORDS == 1)
      load_down<CHECK>(matrix + row, column_stride, row, rows, first, g);
    else
      load_across<CHECK>(matrix + row * row_stride, row_stride, column_stride, row, rows, first, g);
  }

  template <bool CHECK>
  MANSARD_DEVICE void load_across(const T* start, i64 row_stride, i64 column_stride, i64 row, i64 rows, int first,
                                  int g) {
    MANSARD_UNROLL
    for (int u = 0; u < P::DEPTH; ++u)
      MANSARD_UNROLL
      for (int slot = 0; slot < SLOTS; slot += V) {
        const int c = first + column(slot, g);
        const bool inside = (WIDTH % (8 * SLOTS) == 0 || c < WIDTH) && (!CHECK || row + u < rows);
        const i64 offset = LAYOUT == Layout::row ? c / WORDS : c / WORDS * column_stride;
        const auto* from = reinterpret_cast<const Words<Word, V>*>(start + (u * row_stride + offset));
        Words<Word, V> loaded{};
        if (inside) loaded = *from;
        MANSARD_UNROLL
        for (int v = 0; v < V; ++v) at[u][slot + v] = loaded.at[v];
      }
  }

  template <bool CHECK>
  MANSARD_DEVICE void load_down(const T* start, i64 column_stride, i64 row, i64 rows, int first, int g) {
    MANSARD_UNROLL
    for (int slot = 0; slot < SLOTS; ++slot) {
      const int c = first + column(slot, g);
      const bool inside = WIDTH % (8 * SLOTS) == 0 || c < WIDTH;
      MANSARD_UNROLL
      for (int u = 0; u < P::DEPTH; u += P::K_VECTOR) {
        const auto* from = reinterpret_cast<const Words<Word, P::K_VECTOR>*>(start + (c * column_stride + u));
        Words<Word, P::K_VECTOR> loaded{};
        if (inside && (!CHECK || row + u + P::K_VECTOR <= rows)) {
          loaded = *from;
        } else if (CHECK && inside) {
          MANSARD_UNROLL
          for (int v = 0; v < P::K_VECTOR; ++v)
            if (row + u + v < rows) loaded.at[v] = start[c * column_stride + u + v];
        }
        MANSARD_UNROLL
        for (int v = 0; v < P::K_VECTOR; ++v) at[u + v][slot] = loaded.at[v];
      }
    }
  }
};

template <class P, class A, class B>
MANSARD_DEVICE void multiply_fragments(double (&sums)[P::TILE_M / 2][P::TILE_N][4], const A& a, const B& b) {
  MANSARD_UNROLL
  for (int u = 0; u < P::DEPTH; ++u)
    MANSARD_UNROLL
    for (int i = 0; i < P::TILE_M / 2; ++i)
      MANSARD_UNROLL
      for (int j = 0; j < P::TILE_N; ++j) {
        if (FragmentShape<P>::REUSE && P::FOLD == 1 && j / P::VECTOR < 2 * i / P::VECTOR) continue;
        mma_m16n8k4(sums[i][j], static_cast<double>(a.at[u][2 * i]), static_cast<double>(a.at[u][2 * i + 1]),
                    static_cast<double>(b.at[u][j]));
      }
}

template <class P>
MANSARD_DEVICE void store_fragments(const double (&sums)[P::TILE_M / 2][P::TILE_N][4], double* tile) {
  using S = FragmentShape<P>;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  using Columns = FragmentOperand<P, P::TILE_M, P::LAYOUT_A, S::WIDTH_M>;
  MANSARD_UNROLL
  for (int i = 0; i < P::TILE_M / 2; ++i)
    MANSARD_UNROLL
    for (int j = 0; j < P::TILE_N; ++j)
      MANSARD_UNROLL
      for (int e = 0; e < 4; ++e)
        tile[Columns::column(2 * i + e / 2, g) * S::PITCH + Columns::column(j, 2 * t + e % 2)] = sums[i][j][e];
}

template <class P, class Arguments>
MANSARD_DEVICE void gram_fragment(const Arguments& arguments) {
  using S = FragmentShape<P>;
  MANSARD_SHARED_ARENA(double, tiles);
  const int warp = threadIdx.x / 32, group = warp / (P::WARPS_M * P::WARPS_N);
  const int warp_m = warp / P::WARPS_N % P::WARPS_M, warp_n = warp % P::WARPS_N;
  const int tile_m = blockIdx.y / S::TILES_N, tile_n = blockIdx.y % S::TILES_N;
  const int first_m = tile_m * S::BLOCK_M + warp_m * P::TILE_M * 8;
  const int first_n = tile_n * S::BLOCK_N + warp_n * P::TILE_N * 8;

  // Folded matrices are contiguous: FOLD rows are one. The rows that do not fill a folded row follow at the end.
  const i64 rows = arguments.K / P::FOLD;
  const i64 a_row = P::FOLD > 1 ? P::FOLD * P::M : arguments.a_row, b_row = P::FOLD > 1 ? P::FOLD * P::N : arguments.b_row;
  FragmentOperand<P, P::TILE_M, P::LAYOUT_A, S::WIDTH_M> a, next_a;
  FragmentOperand<P, P::TILE_N, P::LAYOUT_B, S::WIDTH_N> b, next_b;
  double sums[P::TILE_M / 2][P::TILE_N][4] = {};
  const auto load = [&](auto check, i64 k, auto& to_a, auto& to_b) {
    to_a.template load<decltype(check)::value>(arguments.A, a_row, arguments.a_col, k, rows, first_m);
    if constexpr (!S::REUSE)
      to_b.template load<decltype(check)::value>(arguments.B, b_row, arguments.b_col, k, rows, first_n);
  };
  const auto multiply = [&] {
    if constexpr (S::REUSE) multiply_fragments<P>(sums, a, a);
    else multiply_fragments<P>(sums, a, b);
  };

  constexpr int CHUNK = 4 * P::DEPTH;
  const i64 full = rows / CHUNK * CHUNK, stride = static_cast<i64>(gridDim.x) * P::WARPS_K * CHUNK;
  i64 k = (static_cast<i64>(group) * gridDim.x + blockIdx.x) * CHUNK;
  if (k < full) load(Bool<false>{}, k, a, b);
MANSARD_UNROLL_BY(1)
  for (; k < full; k += stride) {
    if (k + stride < full) load(Bool<false>{}, k + stride, next_a, next_b);
    multiply();
    a = next_a;
    b = next_b;
  }
  if (k == full && full < rows) {  // exactly one warp per tile meets the rows that do not fill a chunk
    load(Bool<true>{}, k, a, b);
    multiply();
  }

  store_fragments<P>(sums, tiles + group * (S::BLOCK_M * S::PITCH) + warp_m * P::TILE_M * 8 * S::PITCH + warp_n * P::TILE_N * 8);
  __syncthreads();  // tiles are complete, written by all warps
  const auto value = [&](int entry) {
    const int m = entry / S::ENTRIES_N, n = entry % S::ENTRIES_N;
    return mirrored<P>(!S::REUSE || m <= n, m, n, [&](int m, int n) {
      auto sum = entry_of_tiles<P, P::WARPS_K, S::BLOCK_M, S::PITCH>(tiles, m, n);
      if (P::FOLD > 1 && blockIdx.x == 0) add_unfolded<P>(arguments, rows * P::FOLD, m, n, sum);
      return sum;
    });
  };
  const auto store = [&](int entry, typename S::Sum sum) {
    store_entry<P>(arguments, tile_m * (S::BLOCK_M / S::WORDS) + entry / S::ENTRIES_N,
                   tile_n * (S::BLOCK_N / S::WORDS) + entry % S::ENTRIES_N, sum);
  };
  auto* scratch = reinterpret_cast<typename S::Sum*>(tiles);  // the tiles are read out before it is used
  reduce_over_blocks<P::REDUCE, typename S::Sum, S::ENTRIES_M * S::ENTRIES_N, S::THREADS>(
      arguments.partials, arguments.counters, blockIdx.y, gridDim.x, scratch, value, store);
}

}  // namespace mansard
