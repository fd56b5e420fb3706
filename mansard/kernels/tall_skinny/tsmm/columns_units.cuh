// Units that multiply a stage of columns with rows of C: see kernel_columns.cuh.
//
//   ColumnsTensor  tensor cores, in double precision (UNIT=float64) or as three TF32 products (tf32x3)
//   ColumnsLanes   plain multiply-adds, a lane per row (UNIT=fma)
//
// A unit has hold (C to shared memory), clear, multiply<COLUMNS>(stream, stage, step), settle (numbers that are not finite) and
// lay(rows, octet), which writes results to shared memory, or for_each(use), use(row of the tile, column, entry).
#pragma once
#include "kernels/tall_skinny/tsmm/columns_stream.cuh"

namespace mansard {

template <bool TF32>
struct SumOf {
  using Type = double;
};
template <>
struct SumOf<true> {
  using Type = float;
};

template <class P>
struct ColumnsTensor {
  using S = ColumnsShape<P>;
  using T = typename P::T;
  using Word = typename S::Word;
  using Sum = typename SumOf<S::TF32>::Type;
  int warp, g, t;
  const Fragment* small;  // the lane's first fragment of C
  Sum sums[S::TILES_M][S::TILES_N][4];

  MANSARD_DEVICE ColumnsTensor(int member, const unsigned char* memory)
      : warp(member), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4),
        small(reinterpret_cast<const Fragment*>(memory) + warp * S::COLUMNS_OF_WARP * 32 + threadIdx.x % 32) {}

  // alpha C in double precision: entry (m, n), zero outside.
  template <class Arguments>
  static MANSARD_DEVICE auto entry(const Arguments& arguments, int m, int n) {
    using Value = decltype(small_entry<P>(arguments, m, n));
    return m < P::M && n < P::N ? small_entry<P>(arguments, m, n) : Value{};
  }
  // What lane (g, t) multiplies words t and t + 4 of a block with, or (complex) both parts of number t.
  template <class Arguments>
  static MANSARD_DEVICE Pair<double> pair(const Arguments& arguments, int block, int j, int g, int t) {
    if constexpr (S::WORDS == 2) {
      const auto c = entry(arguments, block * 4 + t, j * 8 + g);
      return {c.re, c.im};
    } else {
      return {entry(arguments, block * 8 + t, j * 8 + g), entry(arguments, block * 8 + 4 + t, j * 8 + g)};
    }
  }
  template <class Arguments>
  MANSARD_DEVICE void hold(const Arguments& arguments, unsigned char* memory) {
    Fragment* to = reinterpret_cast<Fragment*>(memory);
    for (int i = threadIdx.x; i < S::BLOCKS * S::SMALL_COLUMNS * 32; i += S::THREADS) {
      const Pair<double> c = pair(arguments, i / 32 / S::SMALL_COLUMNS, i / 32 % S::SMALL_COLUMNS, i % 32 / 4, i % 4);
      Fragment one;
      if constexpr (S::TF32) {
        split_tf32(static_cast<float>(c.x), one.halves[0], one.halves[2]);
        split_tf32(static_cast<float>(c.y), one.halves[1], one.halves[3]);
      } else {
        one.wide[0] = c.x, one.wide[1] = c.y;
      }
      to[i] = one;
    }
  }
  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int i = 0; i < S::TILES_M * S::TILES_N * 4; ++i) sums[i / 4 / S::TILES_N][i / 4 % S::TILES_N][i % 4] = 0;
  }

  // The lane's two words of a block in row `row` of the tile; zeros beyond the last column of A.
  template <bool EDGE>
  MANSARD_DEVICE Pair<Word> words(const unsigned char* stage, int block, int row) const {
    if constexpr (S::WORDS == 2) {
      if (EDGE && t >= P::M % 4) return {0, 0};
      return *reinterpret_cast<const Pair<Word>*>(stage + (block * 4 + t) * S::PITCH + row * S::SIZE);
    } else {
      const auto one = [&](int column, bool inside) {
        return inside ? *reinterpret_cast<const Word*>(stage + column * S::PITCH + row * S::SIZE) : Word(0);
      };
      return {one(block * 8 + t, !EDGE || t < P::M % 8), one(block * 8 + 4 + t, !EDGE || t + 4 < P::M % 8)};
    }
  }
  // Add the products of the first COLUMNS columns in a stage, of which the first is column step * DEPTH of A.
  // All columns of a lane, every fourth one, have the same displacement.
  template <int COLUMNS, class Stream>
  MANSARD_DEVICE void multiply(const Stream& stream, const unsigned char* stage, int step) {
    stage += stream.displacement(t);
    constexpr int PAIRS = COLUMNS * S::WORDS / 16, REST = ceil_div(COLUMNS * S::WORDS, 8) - 2 * PAIRS;
    constexpr bool EDGE = COLUMNS * S::WORDS % 8 != 0;
    const Fragment* c = small + step * (S::STEP_BLOCKS * S::SMALL_COLUMNS * 32);
MANSARD_UNROLL_BY(P::ROLLED ? 1 : 8)
    for (int n = 0; n < PAIRS; ++n) add<2, false>(stage, c, 2 * n);
    if constexpr (REST > 0) add<REST, EDGE>(stage, c, 2 * PAIRS);
  }
  // Add one or two blocks, of which the last may reach beyond A (EDGE).
  template <int SIZE, bool EDGE>
  MANSARD_DEVICE void add(const unsigned char* stage, const Fragment* c, int block) {
    Pair<Word> a[SIZE][S::OCTETS];
    MANSARD_UNROLL
    for (int o = 0; o < S::OCTETS; ++o) {
      a[0][o] = words<EDGE && SIZE == 1>(stage, block, 8 * o + g);
      if constexpr (SIZE == 2) a[1][o] = words<EDGE>(stage, block + 1, 8 * o + g);
    }
    c += block * (S::SMALL_COLUMNS * 32);
    if constexpr (S::TF32) {
      MANSARD_UNROLL
      for (int n = 0; n < SIZE; ++n) add_halves(a[n], c + n * (S::SMALL_COLUMNS * 32));
    } else {
      add_wide<SIZE>(a, c);
    }
  }
  template <int SIZE>
  MANSARD_DEVICE void add_wide(const Pair<Word> (&a)[SIZE][S::OCTETS], const Fragment* c) {
    double left[S::TILES_M][4 * SIZE];
    MANSARD_UNROLL
    for (int n = 0; n < SIZE; ++n)
      MANSARD_UNROLL
      for (int o = 0; o < S::OCTETS; ++o)
        left[o / 2][4 * n + o % 2] = double(a[n][o].x), left[o / 2][4 * n + 2 + o % 2] = double(a[n][o].y);
    MANSARD_UNROLL
    for (int j = 0; j < S::COLUMNS_OF_WARP; ++j) {
      double right[2 * SIZE], turned[2 * SIZE];  // complex: for the real and for the imaginary parts
      MANSARD_UNROLL
      for (int n = 0; n < SIZE; ++n) {
        const Fragment one = c[(n * S::SMALL_COLUMNS + j) * 32];
        right[2 * n] = one.wide[0], right[2 * n + 1] = S::WORDS == 2 ? -one.wide[1] : one.wide[1];
        turned[2 * n] = one.wide[1], turned[2 * n + 1] = one.wide[0];
      }
      MANSARD_UNROLL
      for (int i = 0; i < S::TILES_M; ++i) {
        step_of<SIZE>(sums[i][j * S::WORDS], left[i], right);
        if constexpr (S::WORDS == 2) step_of<SIZE>(sums[i][j * 2 + 1], left[i], turned);
      }
    }
  }
  template <int SIZE>
  static MANSARD_DEVICE void step_of(double (&to)[4], const double (&left)[4 * SIZE], const double (&right)[2 * SIZE]) {
    if constexpr (SIZE == 2) mma_m16n8k16(to, left, right);
    else mma_m16n8k8(to, left, right);
  }
  // x y = low high + high low + high high, the smallest terms first.
  MANSARD_DEVICE void add_halves(const Pair<Word> (&a)[S::OCTETS], const Fragment* c) {
    u32 high[S::TILES_M][4], low[S::TILES_M][4];
    MANSARD_UNROLL
    for (int o = 0; o < S::OCTETS; ++o) {
      split_tf32(a[o].x, high[o / 2][o % 2], low[o / 2][o % 2]);
      split_tf32(a[o].y, high[o / 2][2 + o % 2], low[o / 2][2 + o % 2]);
    }
    Fragment held[S::COLUMNS_OF_WARP];
    MANSARD_UNROLL
    for (int j = 0; j < S::COLUMNS_OF_WARP; ++j) held[j] = c[j * 32];
    add_thrice<0>(low, held);  // loops over tiles inside, so that consecutive instructions are independent
    add_thrice<2>(high, held);
    add_thrice<0>(high, held);
  }
  template <int FIRST>
  MANSARD_DEVICE void add_thrice(const u32 (&left)[S::TILES_M][4], const Fragment (&c)[S::COLUMNS_OF_WARP]) {
    MANSARD_UNROLL
    for (int i = 0; i < S::TILES_M; ++i)
      MANSARD_UNROLL
      for (int j = 0; j < S::COLUMNS_OF_WARP; ++j) {
        const u32 x = c[j].halves[FIRST], y = c[j].halves[FIRST + 1];
        mma_tf32_m16n8k8(sums[i][j * S::WORDS], left[i], {x, S::WORDS == 2 ? y ^ 0x80000000u : y});
        if constexpr (S::WORDS == 2) mma_tf32_m16n8k8(sums[i][j * 2 + 1], left[i], {y, x});
      }
  }

  // Splitting turns infinities into NaNs: tiles that have them (or overflow) are computed again in double precision,
  // from global memory, which still holds their rows.
  template <class Arguments>
  MANSARD_DEVICE void settle(const Arguments& arguments, i64 first) {
    if constexpr (S::TF32) {
      float all = 0.0f;
      MANSARD_UNROLL
      for (int i = 0; i < S::TILES_M * S::TILES_N; ++i) {
        const Sum* four = sums[i / S::TILES_N][i % S::TILES_N];
        all += (four[0] + four[1]) + (four[2] + four[3]);
      }
      if (__any_sync(~0u, !(fabsf(all) <= 3.0e38f))) redo(arguments, first);
    }
  }
  template <class Arguments>
  MANSARD_DEVICE void redo(const Arguments& arguments, i64 first) {
    MANSARD_UNROLL
    for (int i = 0; i < S::TILES_M; ++i)
      MANSARD_UNROLL
      for (int j = 0; j < S::TILES_N; ++j) {
        const int column = warp * S::COLUMNS_OF_WARP + j / S::WORDS;
        double tile[4] = {};
MANSARD_UNROLL_BY(1)
        for (int block = 0; block < S::BLOCKS; ++block) {
          double left[4];
          MANSARD_UNROLL
          for (int o = 0; o < 2; ++o) {
            const i64 row = first + 16 * i + 8 * o + g;
            const Pair<double> a = far(arguments, block, row < arguments.K ? row : arguments.K - 1);
            left[o] = a.x, left[2 + o] = a.y;
          }
          const Pair<double> c = pair(arguments, block, column, g, t);
          const bool im = S::WORDS == 2 && j % 2 == 1;
          mma_m16n8k8(tile, left, {im ? c.y : c.x, im ? c.x : S::WORDS == 2 ? -c.y : c.y});
        }
        MANSARD_UNROLL
        for (int e = 0; e < 4; ++e) sums[i][j][e] = static_cast<Sum>(tile[e]);
      }
  }
  // The lane's two words of a block in a row of A in global memory.
  template <class Arguments>
  MANSARD_DEVICE Pair<double> far(const Arguments& arguments, int block, i64 row) const {
    const Word* words = reinterpret_cast<const Word*>(arguments.A) + row * S::WORDS;
    const auto at = [&](int column, int part) {
      return column < P::M ? static_cast<double>(words[column * arguments.a_col * S::WORDS + part]) : 0.0;
    };
    if constexpr (S::WORDS == 2) return {at(block * 4 + t, 0), at(block * 4 + t, 1)};
    else return {at(block * 8 + t, 0), at(block * 8 + 4 + t, 0)};
  }

  // Rows of OUT / 8 octets, `octet` on, to shared memory.
  template <class Arguments>
  MANSARD_DEVICE void lay(const Arguments&, T* rows, int octet) const {
    MANSARD_UNROLL
    for (int o = 0; o < P::OUT / 8; ++o) lay_octet(rows + (o * 8 + g) * P::N, octet + o);
  }
  MANSARD_DEVICE void lay_octet(T* row, int octet) const {
    for_octet(octet, [&](int column, T left, T right) {
      if constexpr (S::WORDS == 1 && P::N % 2 == 0) {
        if (column < P::N) *reinterpret_cast<Pair<T>*>(row + column) = {left, right};
      } else {
        if (column < P::N) lay_one(row + column, left);
        if (column + 1 < P::N) lay_one(row + column + 1, right);
      }
    });
  }
  static MANSARD_DEVICE void lay_one(T* at, T entry) {
    if constexpr (S::WORDS == 2) *reinterpret_cast<Pair<Word>*>(at) = {entry.re, entry.im};
    else *at = entry;
  }
  // Calls use(column, entry, its right neighbour) for the lane's results in an octet.
  template <class Use>
  MANSARD_DEVICE void for_octet(int octet, Use use) const {
    MANSARD_UNROLL
    for (int o = 0; o < S::OCTETS; ++o)
      if (o == octet)
        MANSARD_UNROLL
        for (int j = 0; j < S::COLUMNS_OF_WARP; ++j) {
          const Sum* re = sums[o / 2][j * S::WORDS] + o % 2 * 2;
          const int column = (warp * S::COLUMNS_OF_WARP + j) * 8 + 2 * t;
          if constexpr (S::WORDS == 2) {
            const Sum* im = sums[o / 2][j * 2 + 1] + o % 2 * 2;
            use(column, T{Word(re[0]), Word(im[0])}, T{Word(re[1]), Word(im[1])});
          } else {
            use(column, T(re[0]), T(re[1]));
          }
        }
  }
  template <class Arguments, class Use>
  MANSARD_DEVICE void for_each(const Arguments&, Use use) const {
    MANSARD_UNROLL
    for (int o = 0; o < S::OCTETS; ++o)
      for_octet(o, [&](int column, T left, T right) {
        if (column < P::N) use(8 * o + g, column, left);
        if (column + 1 < P::N) use(8 * o + g, column + 1, right);
      });
  }
};

template <class P>
struct ColumnsLanes {
  using S = ColumnsShape<P>;
  using T = typename P::T;
  using Word = typename S::Word;
  static constexpr int ROWS = P::ROWS / 32;  // of a lane
  int lane;
  const T* small;  // C
  T sums[ROWS][P::N];

  MANSARD_DEVICE ColumnsLanes(int, const unsigned char* memory)
      : lane(threadIdx.x % 32), small(reinterpret_cast<const T*>(memory)) {}

  template <class Arguments>
  MANSARD_DEVICE void hold(const Arguments& arguments, unsigned char* memory) {
    for (int i = threadIdx.x; i < P::M * P::N; i += S::THREADS) {
      const T c = arguments.C[i / P::N * arguments.c_row + i % P::N * arguments.c_col];
      reinterpret_cast<T*>(memory)[i] = P::CONJ ? conjugate(c) : c;
    }
  }
  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int i = 0; i < ROWS * P::N; ++i) sums[i / P::N][i % P::N] = zero<T>();
  }
  template <int COLUMNS, class Stream>
  MANSARD_DEVICE void multiply(const Stream& stream, const unsigned char* stage, int step) {
    const T* c = small + step * (P::DEPTH * P::N);
    MANSARD_UNROLL
    for (int m = 0; m < COLUMNS; ++m) {
      const unsigned char* column = stage + m * S::PITCH + stream.displacement(step * P::DEPTH + m);
      MANSARD_UNROLL
      for (int r = 0; r < ROWS; ++r) {
        const T a = word(column + (32 * r + lane) * S::SIZE);
        MANSARD_UNROLL
        for (int n = 0; n < P::N; ++n) multiply_add<false>(sums[r][n], a, c[m * P::N + n]);
      }
    }
  }
  static MANSARD_DEVICE T word(const unsigned char* at) {
    if constexpr (S::WORDS == 2) {
      const Pair<Word> both = *reinterpret_cast<const Pair<Word>*>(at);
      return {both.x, both.y};
    } else {
      return *reinterpret_cast<const T*>(at);
    }
  }
  template <class Arguments>
  MANSARD_DEVICE void settle(const Arguments&, i64) {}
  template <class Arguments>
  MANSARD_DEVICE void lay(const Arguments& arguments, T* rows, int) const {
    for_each(arguments, [&](int row, int column, T entry) { rows[row * S::OUT_PITCH + column] = entry; });
  }
  template <class Arguments, class Use>
  MANSARD_DEVICE void for_each(const Arguments& arguments, Use use) const {
    MANSARD_UNROLL
    for (int n = 0; n < P::N; ++n)
      MANSARD_UNROLL
      for (int r = 0; r < ROWS; ++r)
        use(32 * r + lane, n, scaled<T>(sums[r][n], arguments.alpha_re, arguments.alpha_im, 0.0, 0.0, static_cast<const T*>(nullptr)));
  }
};

template <class P, bool LANES = ColumnsShape<P>::LANES>
struct ColumnsUnit {
  using Type = ColumnsTensor<P>;
};
template <class P>
struct ColumnsUnit<P, true> {
  using Type = ColumnsLanes<P>;
};

}  // namespace mansard
