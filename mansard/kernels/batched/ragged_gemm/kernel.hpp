// C_i = alpha op(A_i) op(B_i) + beta C_i for a ragged batch on CPUs: every product has sizes of its own.
//
// Lanes run along the rows of C: rows of op(B) are vectors, entries of op(A) are broadcast, and a tile of C stays in
// registers from the first product to the last. Tile sizes are compile-time constants: a table has a function for each;
// the last vector of a row is loaded and stored only as far as it exists. Complex entries are two reals, as in gemm's
// kernel.hpp.
//
// Threads take a few products at a time. The products of an entry are added in the order of k, but for real columns (vectors.hpp).
//
// Workspace of a thread: a panel of op(B) in rows, WIDEST * TILE_N vectors.
//
// Params beside T, TRANS_A|B, CONJ_A|B, ACCUMULATE:
//   TILE_M, TILE_N  the most rows and vectors of C per register tile
//   UNROLL          steps along K per iteration of the inner loop
//   WIDEST          products with more rows or columns are skipped: another kernel computes them
#pragma once
#include "kernels/batched/ragged_gemm/vectors.hpp"

namespace mansard {

// Transpose `lines` lines of `length` entries, in squares of vectors.
template <class P, class R = typename Ragged<P>::R>
void turn(R* to, i64 pitch, const R* from, i64 lines, i64 length) {
  constexpr int W = Ragged<P>::WORDS, LANES = Ragged<P>::LANES, SQUARE = LANES / W;
  const i64 whole_lines = lines / SQUARE * SQUARE, whole = length / SQUARE * SQUARE;
  const auto one = [&](i64 line, i64 e) {
    for (int word = 0; word < W; ++word) to[e * pitch + line * W + word] = from[(line * length + e) * W + word];
  };
  for (i64 line = 0; line < whole_lines; line += SQUARE) {
    for (i64 e = 0; e < whole; e += SQUARE) {
      Vector<R, LANES> square[SQUARE];
      MANSARD_UNROLL
      for (int i = 0; i < SQUARE; ++i) square[i] = load<LANES>(from + ((line + i) * length + e) * W);
      transpose<W, R, LANES>(square);
      MANSARD_UNROLL
      for (int i = 0; i < SQUARE; ++i) store<LANES>(to + (e + i) * pitch + line * W, square[i]);
    }
    for (i64 e = whole; e < length; ++e)
      for (int i = 0; i < SQUARE; ++i) one(line + i, e);
  }
  for (i64 line = whole_lines; line < lines; ++line)
    for (i64 e = 0; e < length; ++e) one(line, e);
}

// Copy `rows` rows of `vectors` vectors, the last with `last` reals, to rows without gaps.
template <class P, class R = typename Ragged<P>::R>
void gather(R* to, const R* from, i64 stride, i64 rows, i64 vectors, int last) {
  constexpr int LANES = Ragged<P>::LANES;
  const FirstLanes<R> end(last);
  for (i64 row = 0; row < rows; ++row, from += stride, to += vectors * LANES) {
    for (i64 v = 0; v < vectors - 1; ++v) store<LANES>(to + v * LANES, load<LANES>(from + v * LANES));
    store<LANES>(to + (vectors - 1) * LANES, end.load(from + (vectors - 1) * LANES));
  }
}

// Prefetches the operands of the next product at the pace of the tiles of this one.
struct NextOperands {
  const char *a, *b;
  i64 a_lines, b_lines;
  MANSARD_INLINE void advance(i64 lines) {
    for (i64 i = 0; i < lines && a_lines > 0; ++i, --a_lines, a += CACHE_LINE) prefetch<2>(a);
    for (i64 i = 0; i < lines && b_lines > 0; ++i, --b_lines, b += CACHE_LINE) prefetch<2>(b);
  }
};

// One product: op(A) is m x deep, op(B) deep x n. A panel of a transposed B is transposed into the workspace. Rows of B
// that many tiles read are copied there as well, where they do not conflict in the cache.
template <class P, class R = typename Ragged<P>::R>
void ragged_product(const Ragged<P>& x, const RaggedTiles<P>& tiles, const R* A, const R* B, R* C, i64 m, i64 n,
                    i64 deep, R* workspace, NextOperands next) {
  using S = Ragged<P>;
  constexpr int W = S::WORDS;
  if constexpr (W == 1)
    if (n == 1) return ragged_vector<P>(x, tiles, A, B, C, m, deep);
  const Entries<const R> left{A, P::TRANS_A ? W : W * deep, P::TRANS_A ? W * m : W};
  const Entries<R> out{C, W * n, W};
  const i64 vectors = ceil_div<i64>(W * n, S::LANES), panels = ceil_div<i64>(vectors, P::TILE_N);
  const i64 blocks = ceil_div<i64>(m, P::TILE_M);
  const i64 pace = ceil_div(larger(next.a_lines, next.b_lines), panels * blocks);
  for (i64 panel = 0; panel < panels; ++panel) {
    const i64 begin = vectors * panel / panels, wide = vectors * (panel + 1) / panels - begin, at = begin * S::LANES;
    const int last = static_cast<int>(smaller<i64>(W * n - at - (wide - 1) * S::LANES, S::LANES));
    Entries<const R> right{B + at, W * n, W};
    if (P::TRANS_B || blocks > 2) {
      if constexpr (P::TRANS_B)
        turn<P>(workspace, wide * S::LANES, B + at * deep, ((wide - 1) * S::LANES + last) / W, deep);
      else gather<P>(workspace, right.data, right.row, deep, wide, last);
      right = {workspace, wide * S::LANES, W};
    }
    for (i64 block = 0; block < blocks; ++block) {
      const i64 row = m * block / blocks, high = m * (block + 1) / blocks - row;
      next.advance(pace);
      tiles.of[high - 1][wide - 1](x, left.below(row), right, out.below(row).beside(at), deep, last);
    }
  }
}

template <class P, class Arguments>
int ragged_simd(const Arguments& a) {
  using S = Ragged<P>;
  using R = typename S::R;
  constexpr i64 LEAST = 1 << 19;  // products per thread: less is done before another thread has woken up
  constexpr i64 OF_THREAD = P::WIDEST * P::TILE_N * S::LANES;  // reals of workspace
  const S x{static_cast<R>(a.alpha_re), static_cast<R>(a.alpha_im), static_cast<R>(a.beta_re),
            static_cast<R>(a.beta_im)};
  const i64 threads = larger<i64>(1, smaller(smaller(a.threads, a.BATCH), ceil_div(a.products, LEAST)));
  const auto tiles = ragged_tiles<P>(std::make_integer_sequence<int, P::TILE_M * P::TILE_N>());
  const auto next_operands = [&](i64 i) -> NextOperands {
    if (i == a.BATCH) return {};
    const i64 at_a = i * a.a_step, at_b = i * a.b_step, item = sizeof(typename P::T);
    const auto* const next_a = reinterpret_cast<const char*>(a.A + a.a_offsets[at_a]);
    const auto* const next_b = reinterpret_cast<const char*>(a.B + a.b_offsets[at_b]);
    return {next_a, next_b, a.a_step * ceil_div<i64>(item * a.a_rows[at_a] * a.a_columns[at_a], CACHE_LINE),
            a.b_step * ceil_div<i64>(item * a.b_rows[at_b] * a.b_columns[at_b], CACHE_LINE)};
  };
  const auto one = [&](i64 i) {
    const i64 at_a = i * a.a_step, at_b = i * a.b_step, m = a.c_rows[i], n = a.c_columns[i];
    const i64 deep = P::TRANS_A ? a.a_rows[at_a] : a.a_columns[at_a];
    if (m == 0 || n == 0 || larger(larger(m, n), deep) > P::WIDEST) return;
    const R* const A = reinterpret_cast<const R*>(a.A + a.a_offsets[at_a]);
    const R* const B = reinterpret_cast<const R*>(a.B + a.b_offsets[at_b]);
    R* const workspace = reinterpret_cast<R*>(a.partials) + thread_index() * OF_THREAD;
    ragged_product<P>(x, tiles, A, B, reinterpret_cast<R*>(a.C + a.c_offsets[i]), m, n, deep, workspace,
                      next_operands(i + 1));
  };
  if (threads == 1) {
    for (i64 i = 0; i < a.BATCH; ++i) one(i);
    return 0;
  }
  const int chunk = static_cast<int>(larger<i64>(1, smaller<i64>(256, a.BATCH / (threads * 16))));
#pragma omp parallel for schedule(dynamic, chunk) num_threads(static_cast<int>(threads))
  for (i64 i = 0; i < a.BATCH; ++i) one(i);
  return 0;
}

}  // namespace mansard
