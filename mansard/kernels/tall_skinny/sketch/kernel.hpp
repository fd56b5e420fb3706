// Y = S A on CPUs, for a tall A of any strides and the sign matrix S of signs.hpp.
//
// K is cut into `parts` pieces, which threads sum independently: as many whatever the number of threads, and added
// pairwise, so that the result is too. Blocks of rows are first copied to a contiguous buffer of doubles (in order, as
// prefetchers like it). Then one group of Y after the other takes its row of each octet: the lanes of a vector are rows
// of Y, entries of A are broadcast, signs are loaded as vectors of +-1 from a table.
//
//   buffer    ROWS x COLUMNS doubles                 per thread; COLUMNS are real: a complex number is two
//   signs     ROWS x WORDS words, ROWS / 8 turns     per thread, behind the buffer
//   partials  [group][16 rows of Y][COLUMNS][16]     per part
//
// Limit: SIGNS fused products per entry of A, 8 doubles each with 512-bit vectors: at SIGNS = 16 one cycle per entry.
//
//   LANES   doubles per vector
//   TILE    columns whose 16 sums each stay in registers
//   ROWS    rows per block, whole octets
//   SIGNS   rows of Y per group, a multiple of 16
#pragma once
#include "mansard/cpu/fused.hpp"
#include "kernels/tall_skinny/sketch/signs.hpp"

namespace mansard {

template <class P>
struct SketchShape {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int WORDS = Scalar<T>::WORDS, COLUMNS = P::N * WORDS;
  static constexpr int PIECE = 16, PIECES = P::SIGNS / PIECE, VECTORS = PIECE / P::LANES;
  static constexpr int SIGN_WORDS = ceil_div(P::SIGNS, SIGNS_PER_WORD), OCTETS = P::ROWS / SKETCH_GROUPS;
  static constexpr int SIZE = SKETCH_GROUPS * P::SIGNS * COLUMNS;  // doubles of a part's sums
  static constexpr int BUFFER = P::ROWS * COLUMNS;                 // doubles
  static constexpr int NUMBERS = P::ROWS * SIGN_WORDS + OCTETS;    // 32-bit words
  static_assert(P::ROWS % SKETCH_GROUPS == 0 && P::SIGNS % PIECE == 0 && PIECE % P::LANES == 0);
};

// +-1 for all eight bits of a byte, lowest first.
struct SignTable {
  double row[256][8];
  constexpr SignTable() : row() {
    for (int byte = 0; byte < 256; ++byte)
      for (int bit = 0; bit < 8; ++bit) row[byte][bit] = byte >> bit & 1 ? -1.0 : 1.0;
  }
};
alignas(64) constexpr SignTable SIGN_TABLE;

// Copy a block of rows as doubles; rows behind the last are zeros.
template <class P, class R>
inline void copy_block(const R* from, i64 row, i64 column, i64 rows, double* to) {
  using S = SketchShape<P>;
  if (column == S::WORDS) {
    for (i64 k = 0; k < rows; ++k)
      for (int c = 0; c < S::COLUMNS; ++c) to[k * S::COLUMNS + c] = from[k * row + c];
  } else {
    for (int c = 0; c < S::COLUMNS; ++c)
      for (i64 k = 0; k < rows; ++k) to[k * S::COLUMNS + c] = from[k * row + c / S::WORDS * column + c % S::WORDS];
  }
  for (i64 e = rows * S::COLUMNS; e < S::BUFFER; ++e) to[e] = 0.0;
}

// Rows [16 piece, 16 piece + 16) of a group, for TILE columns: sums += signs * entries, over one row of each octet.
template <class P, int TILE>
inline void add_tile(const double* block, const u32* words, const u32* turns, int group, int piece, double* sums) {
  using S = SketchShape<P>;
  using V = Vector<double, P::LANES>;
  V tile[TILE][S::VECTORS] = {};
  for (int octet = 0; octet < S::OCTETS; ++octet) {
    const int k = octet * SKETCH_GROUPS + (group ^ static_cast<int>(turns[octet]));
    const double* x = block + k * S::COLUMNS;
    const u32 bits = words[k * S::SIGN_WORDS + piece / 2] >> piece % 2 * S::PIECE;
    V signs[S::VECTORS];
    MANSARD_UNROLL
    for (int v = 0; v < S::VECTORS; ++v) {
      const int first = v * P::LANES;
      signs[v] = load<P::LANES>(&SIGN_TABLE.row[bits >> first / 8 * 8 & 255][first % 8]);
    }
    MANSARD_UNROLL
    for (int c = 0; c < TILE; ++c)
      MANSARD_UNROLL
      for (int v = 0; v < S::VECTORS; ++v) add_product(tile[c][v], x[c], signs[v]);
  }
  MANSARD_UNROLL
  for (int c = 0; c < TILE; ++c)
    MANSARD_UNROLL
    for (int v = 0; v < S::VECTORS; ++v) {
      double* const at = sums + c * S::PIECE + v * P::LANES;
      store<P::LANES>(at, load<P::LANES>(at) + tile[c][v]);
    }
}

// Y += S A over the rows [begin, end) of A.
template <class P, class R>
inline void add_part(const R* A, i64 row, i64 column, i64 begin, i64 end, SignKeys keys, double* sums, double* buffer) {
  using S = SketchShape<P>;
  u32 *const words = reinterpret_cast<u32*>(buffer + S::BUFFER), *const turns = words + P::ROWS * S::SIGN_WORDS;
  for (int e = 0; e < S::SIZE; ++e) sums[e] = 0.0;
  for (i64 first = begin; first < end; first += P::ROWS) {
    copy_block<P>(A + first * row, row, column, smaller<i64>(P::ROWS, end - first), buffer);
    for (int k = 0; k < P::ROWS; ++k)
      for (int w = 0; w < S::SIGN_WORDS; ++w) words[k * S::SIGN_WORDS + w] = keys.word(first + k, w);
    for (int octet = 0; octet < S::OCTETS; ++octet) turns[octet] = keys.turn(first / SKETCH_GROUPS + octet);
    for (int group = 0; group < SKETCH_GROUPS; ++group)
      for (int piece = 0; piece < S::PIECES; ++piece) {
        double* const of_piece = sums + (group * S::PIECES + piece) * S::COLUMNS * S::PIECE;
        Pieces<S::COLUMNS, P::TILE>::for_each([&](int c, auto tile) __attribute__((always_inline)) {
          add_tile<P, tile>(buffer + c, words, turns, group, piece, of_piece + c * S::PIECE);
        });
      }
  }
}

template <class P, class Arguments>
int sketch_simd(const Arguments& a) {
  using S = SketchShape<P>;
  using R = typename S::R;
  constexpr int CHUNK = 512;
  const i64 parts = a.parts, part_rows = round_up<i64>(ceil_div<i64>(a.K, parts), P::ROWS);
  double* const partials = reinterpret_cast<double*>(a.partials);
  const SignKeys keys(a.seed);

#pragma omp parallel num_threads(static_cast<int>(smaller<i64>(a.threads, parts))) if (parts > 1)
  {
    double* const buffer = partials + parts * S::SIZE + thread_index() * (S::BUFFER + ceil_div(S::NUMBERS, 2));
#pragma omp for schedule(dynamic)
    for (i64 p = 0; p < parts; ++p)
      add_part<P>(reinterpret_cast<const R*>(a.A), a.a_row * S::WORDS, a.a_col * S::WORDS, p * part_rows,
                  smaller<i64>(a.K, (p + 1) * part_rows), keys, partials + p * S::SIZE, buffer);
#pragma omp for schedule(static)
    for (int begin = 0; begin < S::SIZE; begin += CHUNK)
      for (i64 distance = 1; distance < parts; distance *= 2)
        for (i64 p = 0; p + distance < parts; p += 2 * distance)
          for (int e = begin; e < smaller(begin + CHUNK, S::SIZE); ++e)
            partials[p * S::SIZE + e] += partials[(p + distance) * S::SIZE + e];
#pragma omp for schedule(static)
    for (int i = 0; i < SKETCH_GROUPS * P::SIGNS; ++i)
      for (int c = 0; c < S::COLUMNS; ++c) {
        const double sum = partials[(i / S::PIECE * S::COLUMNS + c) * S::PIECE + i % S::PIECE];
        reinterpret_cast<R*>(a.Y)[i * S::COLUMNS + c] = static_cast<R>(0.25 * sum);
      }
  }
  return 0;
}

}  // namespace mansard
