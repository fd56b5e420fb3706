// The tensor cores' view of W = A C: pairs of words.
//
// Instructions multiply real tiles, 16 rows x 8 words of A times 8 words x 8 columns of C. Lane (g, t) = (lane / 4,
// lane % 4) supplies two words of rows g and g + 8: two neighbouring columns, or one complex number. A block is four
// such pairs. For a complex C the same pair serves two tiles, the real and the imaginary parts of eight columns:
//   re += re c.re - im c.im,   im += re c.im + im c.re.
//
// Rows of A are in shared memory in their own pitch. A load is served 128 bytes at a time, that is AT_ONCE rows. Lane g
// loads row STEP g + u: rows then begin in different banks unless the pitch is a multiple of 128 bytes, where CLASH of
// them begin in the same ones. Those load their blocks in different orders and exchange them in registers afterwards.
// If a row has an odd number of words, pairs would not be aligned: a block's first four words are then the first words
// of the four pairs (SPLIT). Words beyond the width belong to the next row, or to nothing, and are replaced by zeros.
#pragma once
#include "mansard/gpu/complex.cuh"
#include "mansard/gpu/mma.cuh"

namespace mansard {

template <class Word>
struct alignas(2 * sizeof(Word)) Pair {
  Word x, y;
};
struct alignas(16) Fragment {  // a lane's share of C: two doubles, or two floats as high and low TF32 numbers
  union {
    double wide[2];
    u32 halves[4];  // high of x and y, low of x and y
  };
};

template <class P>
struct PairShape {
  using Word = typename Scalar<typename P::T>::Real;
  static constexpr int WORDS = Scalar<typename P::T>::WORDS;
  static constexpr int WIDTH = P::M * WORDS, LDA = P::PITCH_A * WORDS;  // words of a row of A
  static constexpr bool SPLIT = LDA % 2 == 1;
  static constexpr int BLOCKS = ceil_div(WIDTH, 8), COLUMNS = ceil_div(P::N, 8);  // eight words; eight columns
  static constexpr int SEGMENT = SPLIT ? 4 : 8;                                   // words of a row per load
  static constexpr int AT_ONCE = 128 / (SEGMENT * int(sizeof(Word)));
  static constexpr int STEP = SEGMENT / gcd(LDA, SEGMENT), CLASH = gcd(STEP * LDA / SEGMENT, AT_ONCE);

  static MANSARD_DEVICE int x_of(int t) { return SPLIT ? t : 2 * t; }
  static MANSARD_DEVICE int y_of(int t) { return SPLIT ? t + 4 : 2 * t + 1; }
  static MANSARD_DEVICE Pair<Word> load(const Word* block, int t) {
    if constexpr (SPLIT) return {block[t], block[t + 4]};
    else return reinterpret_cast<const Pair<Word>*>(block)[t];
  }
};

template <class Word>
MANSARD_DEVICE void swap_if(bool swap, Pair<Word>& a, Pair<Word>& b) {
  const Pair<Word> first = {swap ? b.x : a.x, swap ? b.y : a.y};
  b = {swap ? a.x : b.x, swap ? a.y : b.y};
  a = first;
}

// Load SIZE blocks of a lane's rows; blocks that were loaded in another order (turn) are exchanged. row_of(octet)
// counts from `rows`.
template <class P, int OCTETS, int SIZE, class Word, class RowOf>
MANSARD_DEVICE void load_pairs(const Word* rows, int block, int turn, int t, Pair<Word> (&a)[OCTETS][SIZE], RowOf row_of) {
  using S = PairShape<P>;
  MANSARD_UNROLL
  for (int o = 0; o < OCTETS; ++o) {
    MANSARD_UNROLL
    for (int n = 0; n < SIZE; ++n) a[o][n] = S::load(rows + row_of(o) * S::LDA + (block + (n ^ (turn & (SIZE - 1)))) * 8, t);
    MANSARD_UNROLL
    for (int bit = 1; bit < SIZE; bit *= 2)
      MANSARD_UNROLL
      for (int n = 0; n < SIZE; ++n)
        if ((n & bit) == 0) swap_if((turn & bit) != 0, a[o][n], a[o][n | bit]);
  }
  MANSARD_UNROLL
  for (int n = 0; n < SIZE; ++n)
    if (S::WIDTH % 8 != 0 && block + n == S::BLOCKS - 1)
      MANSARD_UNROLL
      for (int o = 0; o < OCTETS; ++o) {
        if (S::x_of(t) >= S::WIDTH % 8) a[o][n].x = 0;
        if (S::y_of(t) >= S::WIDTH % 8) a[o][n].y = 0;
      }
}

template <int VALUE_>
struct Size {
  static constexpr int VALUE = VALUE_;
};

// Calls add(Size<SIZE>, block) for all blocks of a row: CLASH at a time, the rest in smaller groups.
template <class P, int SIZE, int BLOCK, class Add>
MANSARD_DEVICE void for_the_rest(Add add) {
  if constexpr (BLOCK + SIZE <= PairShape<P>::BLOCKS) {
    add(Size<SIZE>{}, BLOCK);
    for_the_rest<P, SIZE, BLOCK + SIZE>(add);
  } else if constexpr (SIZE > 1) {
    for_the_rest<P, SIZE / 2, BLOCK>(add);
  }
}
template <class P, bool ALL_AT_ONCE = false, class Add>
MANSARD_DEVICE void for_each_block(Add add) {
  using S = PairShape<P>;
  constexpr int WHOLE = S::WIDTH / 8 / S::CLASH * S::CLASH;  // blocks in full groups and inside the width
  if constexpr (ALL_AT_ONCE) {                                // arrays in registers need constant indices
    MANSARD_UNROLL
    for (int block = 0; block < WHOLE; block += S::CLASH) add(Size<S::CLASH>{}, block);
  } else {
MANSARD_UNROLL_BY(4)
    for (int block = 0; block < WHOLE; block += S::CLASH) add(Size<S::CLASH>{}, block);
  }
  for_the_rest<P, S::CLASH, WHOLE>(add);
}

// alpha C (or its conjugate), entry (m, n), in double precision.
template <class P, class Arguments>
MANSARD_DEVICE auto small_entry(const Arguments& arguments, int m, int n) {
  const auto c = arguments.C[m * arguments.c_row + n * arguments.c_col];
  if constexpr (Scalar<typename P::T>::COMPLEX) {
    const Complex<double> wide = {c.re, P::CONJ ? -static_cast<double>(c.im) : static_cast<double>(c.im)};
    return times(arguments.alpha_re, arguments.alpha_im, wide);
  } else {
    return arguments.alpha_re * static_cast<double>(c);
  }
}

// Fragment of C for lane (g, t): the rows of C that belong to block `block` of A, column 8 * columns + g.
template <class P, bool TF32, class Arguments>
MANSARD_DEVICE Fragment fragment_of(const Arguments& arguments, int block, int columns, int g, int t) {
  using S = PairShape<P>;
  const int n = columns * 8 + g;
  double x = 0.0, y = 0.0;
  if constexpr (S::WORDS == 2) {
    const int m = block * 4 + t;
    if (m < P::M && n < P::N) {
      const auto c = small_entry<P>(arguments, m, n);
      x = c.re, y = c.im;
    }
  } else {
    const int first = block * 8 + S::x_of(t), second = block * 8 + S::y_of(t);
    if (first < P::M && n < P::N) x = small_entry<P>(arguments, first, n);
    if (second < P::M && n < P::N) y = small_entry<P>(arguments, second, n);
  }
  Fragment result;
  if constexpr (TF32) {
    split_tf32(static_cast<float>(x), result.halves[0], result.halves[2]);
    split_tf32(static_cast<float>(y), result.halves[1], result.halves[3]);
  } else {
    result.wide[0] = x, result.wide[1] = y;
  }
  return result;
}

enum class Unit { float64, tf32x3, wgmma, fma };
enum class Source { shared, registers };

template <class P>
struct UnitShape : PairShape<P> {
  using S = PairShape<P>;
  static constexpr int PASS_ROWS = P::ROWS / P::WARPS_K / P::PASSES;  // rows per warp and pass
  static constexpr int OCTETS = PASS_ROWS / 8, TILES_M = OCTETS / 2;
  static constexpr int COLUMNS_OF_WARP = ceil_div(S::COLUMNS, P::WARPS_N), TILES_N = COLUMNS_OF_WARP * S::WORDS;
  static constexpr bool LANES = P::UNIT == Unit::fma;
  static constexpr bool STAGED = !LANES && P::SOURCE == Source::shared;  // C is in shared memory
  static constexpr int SMALL_COLUMNS = COLUMNS_OF_WARP * P::WARPS_N;     // zeros beyond the last
  static constexpr int SMALL_BYTES = STAGED ? S::BLOCKS * SMALL_COLUMNS * 32 * int(sizeof(Fragment)) : 0;
  static_assert(LANES || OCTETS % 2 == 0 && OCTETS % S::STEP == 0, "rows per pass");
  static_assert(!LANES || PASS_ROWS % 32 == 0 && P::WARPS_N == 1, "rows per pass");
  // row of an octet that lane 0 loads, relative to the warp's first row
  static MANSARD_HOST_DEVICE int row_of(int octet) { return octet / S::STEP * 8 * S::STEP + octet % S::STEP; }
};

}  // namespace mansard
