// Complex products from three real ones (PRODUCTS=3), a quarter less work for the tensor cores:
//   t1 = re c.re,  t2 = im c.im,  t3 = (re + im) (c.re + c.im);   re = t1 - t2,  im = t3 - t1 - t2.
// Errors stay within a small multiple of |a| |c|, as with four products, but an imaginary part that is much smaller than the
// real one no longer has small errors of its own.
//
// A step is two blocks (pairs.cuh), eight complex columns of A: a lane holds the t-th number of either block, which makes one
// operand of real parts, one of imaginary parts and one of their sums. C waits unsplit, and is split and summed on the way.
// Infinities and NaNs survive neither the sums nor splitting: rows that have them (or overflow) are done again.
#pragma once
#include "families/tsmm/pairs.cuh"

namespace mansard {

template <class P>
struct ThirdsShape : PairShape<P> {
  using S = PairShape<P>;
  using Word = typename S::Word;
  static_assert(S::WORDS == 2 && P::SOURCE == Source::shared, "complex, with C in shared memory");
  static constexpr int PASS_ROWS = P::ROWS / P::WARPS_K / P::PASSES;  // of a warp
  static constexpr int OCTETS = PASS_ROWS / 8, TILES_M = OCTETS / 2, STEPS = ceil_div(S::BLOCKS, 2);
  static constexpr int COLUMNS_OF_WARP = ceil_div(S::COLUMNS, P::WARPS_N);
  static constexpr int SMALL_COLUMNS = COLUMNS_OF_WARP * P::WARPS_N;  // those past the last are zeros
  static constexpr int SMALL_BYTES = STEPS * SMALL_COLUMNS * 32 * 4 * int(sizeof(Word));
  static_assert(OCTETS % 2 == 0 && OCTETS % S::STEP == 0, "rows per pass");
  // row of an octet that lane 0 reads, relative to the warp's first
  static MANSARD_HOST_DEVICE int row_of(int octet) { return octet / S::STEP * 8 * S::STEP + octet % S::STEP; }
};

// Of C, a lane's share in a step: the t-th row of both blocks.
template <class Word>
struct alignas(16) Numbers {
  Word re[2], im[2];
};

// What the units for double precision and for TF32 have in common. Sum: what they add up in.
template <class P, class Sum>
struct ThirdsUnit {
  using S = ThirdsShape<P>;
  using Word = typename S::Word;
  int warp_k, warp_n, g, t, turn, pass = 0;
  const Numbers<Word>* small;  // the lane's first numbers of C
  Sum sums[3][S::TILES_M][S::COLUMNS_OF_WARP][4];

  MANSARD_DEVICE ThirdsUnit(int member, const unsigned char* memory)
      : warp_k(member / P::WARPS_N), warp_n(member % P::WARPS_N), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4),
        turn(g % S::AT_ONCE / (S::AT_ONCE / S::CLASH)),
        small(reinterpret_cast<const Numbers<Word>*>(memory) + warp_n * S::COLUMNS_OF_WARP * 32 + threadIdx.x % 32) {}

  template <int THREADS, class Arguments>
  MANSARD_DEVICE void hold(const Arguments& arguments, unsigned char* memory) {
    Numbers<Word>* to = reinterpret_cast<Numbers<Word>*>(memory);
    for (int i = threadIdx.x; i < S::STEPS * S::SMALL_COLUMNS * 32; i += THREADS) {
      const int step = i / 32 / S::SMALL_COLUMNS, n = i / 32 % S::SMALL_COLUMNS * 8 + i % 32 / 4;
      Numbers<Word> numbers = {};
      MANSARD_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int m = (2 * step + half) * 4 + i % 4;
        if (m < P::M && n < P::N) {
          const auto c = small_entry<P>(arguments, m, n);
          numbers.re[half] = static_cast<Word>(c.re), numbers.im[half] = static_cast<Word>(c.im);
        }
      }
      to[i] = numbers;
    }
  }
  MANSARD_DEVICE Numbers<Word> numbers(int step, int j) const { return small[(step * S::SMALL_COLUMNS + j) * 32]; }
  MANSARD_DEVICE int row(int octet) const {
    return (warp_k * P::PASSES + pass) * S::PASS_ROWS + S::row_of(octet) + S::STEP * g;
  }
  // Word 0 of the lane's rows.
  MANSARD_DEVICE const Word* rows(const unsigned char* stage) const {
    return reinterpret_cast<const Word*>(stage) + row(0) * S::LDA;
  }

  // Clears the sums, calls use(step, left) for all steps, where left[plane][tile][4] is the left operand, and combines.
  template <class Use>
  MANSARD_DEVICE void walk(const unsigned char* stage, int number, Use use) {
    pass = number;
    MANSARD_UNROLL
    for (int i = 0; i < 3 * S::TILES_M * S::COLUMNS_OF_WARP * 4; ++i) sum(i) = 0;
    const Word* first = rows(stage);
    constexpr int GROUP = S::CLASH > 2 ? S::CLASH : 2, WHOLE = S::WIDTH / 8 / GROUP * GROUP;
MANSARD_UNROLL_BY(2)
    for (int block = 0; block < WHOLE; block += GROUP) add<GROUP>(first, block, use);
    rest<GROUP, WHOLE>(first, use);
    MANSARD_UNROLL
    for (int i = 0; i < S::TILES_M * S::COLUMNS_OF_WARP * 4; ++i) {
      constexpr int PLANE = S::TILES_M * S::COLUMNS_OF_WARP * 4;
      const Sum t1 = sum(i), t2 = sum(PLANE + i);
      sum(i) = t1 - t2;
      sum(PLANE + i) = sum(2 * PLANE + i) - t1 - t2;
    }
    Sum all = 0;
    MANSARD_UNROLL
    for (int i = 0; i < 2 * S::TILES_M * S::COLUMNS_OF_WARP * 4; i += 4)
      all += (sum(i) + sum(i + 1)) + (sum(i + 2) + sum(i + 3));
    if (__any_sync(~0u, !(all - all == 0))) redo(first);
  }
  MANSARD_DEVICE Sum& sum(int i) {
    constexpr int J = S::COLUMNS_OF_WARP * 4;
    return sums[i / J / S::TILES_M][i / J % S::TILES_M][i % J / 4][i % 4];
  }
  template <int SIZE, int BLOCK, class Use>
  MANSARD_DEVICE void rest(const Word* first, Use use) {
    if constexpr (BLOCK + SIZE <= S::BLOCKS) {
      add<SIZE>(first, BLOCK, use);
      rest<SIZE, BLOCK + SIZE>(first, use);
    } else if constexpr (SIZE > 1) {
      rest<SIZE / 2, BLOCK>(first, use);
    }
  }
  template <int SIZE, class Use>
  MANSARD_DEVICE void add(const Word* first, int block, Use use) {
    Pair<Word> a[S::OCTETS][SIZE];
    load_pairs<P>(first, block, turn, t, a, [](int octet) { return S::row_of(octet); });
    MANSARD_UNROLL
    for (int n = 0; n < SIZE; n += 2) {
      Word left[3][S::TILES_M][4];
      MANSARD_UNROLL
      for (int i = 0; i < 4 * S::TILES_M; ++i) {
        const int octet = i / 4 * 2 + i % 2, half = i % 4 / 2;
        const Pair<Word> one = n + half < SIZE ? a[octet][n + half < SIZE ? n + half : 0] : Pair<Word>{0, 0};
        left[0][i / 4][i % 4] = one.x, left[1][i / 4][i % 4] = one.y, left[2][i / 4][i % 4] = one.x + one.y;
      }
      use((block + n) / 2, left);
    }
  }
  // The right operand of a plane.
  static MANSARD_DEVICE Word right(const Numbers<Word>& c, int plane, int half) {
    return plane == 0 ? c.re[half] : plane == 1 ? c.im[half] : c.re[half] + c.im[half];
  }

  // In double precision and with four products, tile by tile with few registers.
  MANSARD_DEVICE void redo(const Word* rows) {
    MANSARD_UNROLL
    for (int i = 0; i < S::TILES_M; ++i)
      MANSARD_UNROLL
      for (int j = 0; j < S::COLUMNS_OF_WARP; ++j) {
        double re[4] = {}, im[4] = {};
MANSARD_UNROLL_BY(1)
        for (int block = 0; block < S::BLOCKS; ++block) {
          double left[4];
          MANSARD_UNROLL
          for (int o = 0; o < 2; ++o) {
            const Pair<Word> a = S::load(rows + S::row_of(2 * i + o) * S::LDA + block * 8, t);
            const bool inside = block * 8 + S::y_of(t) < S::WIDTH;
            left[o] = inside ? a.x : Word(0), left[2 + o] = inside ? a.y : Word(0);
          }
          const Numbers<Word> c = numbers(block / 2, j);
          const double x = block % 2 ? c.re[1] : c.re[0], y = block % 2 ? c.im[1] : c.im[0];
          mma_m16n8k8(re, left, {x, -y});
          mma_m16n8k8(im, left, {y, x});
        }
        MANSARD_UNROLL
        for (int e = 0; e < 4; ++e) {
          sums[0][i][j][e] = static_cast<Sum>(re[e]);
          sums[1][i][j][e] = static_cast<Sum>(im[e]);
        }
      }
  }

  template <class Put, class Single>
  MANSARD_DEVICE void for_each_result(Put put, Single) const {
    MANSARD_UNROLL
    for (int o = 0; o < S::OCTETS; ++o)
      MANSARD_UNROLL
      for (int j = 0; j < S::COLUMNS_OF_WARP; ++j) {
        const Sum *re = sums[0][o / 2][j] + o % 2 * 2, *im = sums[1][o / 2][j] + o % 2 * 2;
        put(row(o), (warp_n * S::COLUMNS_OF_WARP + j) * 8 + 2 * t, Complex<Sum>{re[0], im[0]}, Complex<Sum>{re[1], im[1]});
      }
  }
};

template <class P>
struct FloatThirds : ThirdsUnit<P, double> {
  using Base = ThirdsUnit<P, double>;
  using S = ThirdsShape<P>;
  using Word = typename S::Word;
  using Base::Base;

  MANSARD_DEVICE void multiply(const unsigned char* stage, int pass) {
    this->walk(stage, pass, [&](int step, const Word (&left)[3][S::TILES_M][4]) {
      MANSARD_UNROLL
      for (int j = 0; j < S::COLUMNS_OF_WARP; ++j) {
        const Numbers<Word> c = this->numbers(step, j);
        MANSARD_UNROLL
        for (int plane = 0; plane < 3; ++plane) {
          const double x = Base::right(c, plane, 0), y = Base::right(c, plane, 1);
          MANSARD_UNROLL
          for (int i = 0; i < S::TILES_M; ++i) {
            const Word(&a)[4] = left[plane][i];
            mma_m16n8k8(this->sums[plane][i][j], {double(a[0]), double(a[1]), double(a[2]), double(a[3])}, {x, y});
          }
        }
      }
    });
  }
};

// Each of the three as three TF32 products, smallest first (see HalvesUnit).
template <class P>
struct HalvesThirds : ThirdsUnit<P, float> {
  using Base = ThirdsUnit<P, float>;
  using S = ThirdsShape<P>;
  using Word = typename S::Word;
  using Base::Base;

  MANSARD_DEVICE void multiply(const unsigned char* stage, int pass) {
    this->walk(stage, pass, [&](int step, const Word (&left)[3][S::TILES_M][4]) {
      Numbers<Word> c[S::COLUMNS_OF_WARP];
      MANSARD_UNROLL
      for (int j = 0; j < S::COLUMNS_OF_WARP; ++j) c[j] = this->numbers(step, j);
      MANSARD_UNROLL
      for (int plane = 0; plane < 3; ++plane) {
        u32 high_a[S::TILES_M][4], low_a[S::TILES_M][4], high_c[S::COLUMNS_OF_WARP][2], low_c[S::COLUMNS_OF_WARP][2];
        MANSARD_UNROLL
        for (int i = 0; i < 4 * S::TILES_M; ++i)
          split_tf32(left[plane][i / 4][i % 4], high_a[i / 4][i % 4], low_a[i / 4][i % 4]);
        MANSARD_UNROLL
        for (int j = 0; j < 2 * S::COLUMNS_OF_WARP; ++j)
          split_tf32(Base::right(c[j / 2], plane, j % 2), high_c[j / 2][j % 2], low_c[j / 2][j % 2]);
        add(plane, low_a, high_c);  // tile by tile inside, so that no instruction waits for the one before it
        add(plane, high_a, low_c);
        add(plane, high_a, high_c);
      }
    });
  }
  MANSARD_DEVICE void add(int plane, const u32 (&a)[S::TILES_M][4], const u32 (&c)[S::COLUMNS_OF_WARP][2]) {
    MANSARD_UNROLL
    for (int i = 0; i < S::TILES_M; ++i)
      MANSARD_UNROLL
      for (int j = 0; j < S::COLUMNS_OF_WARP; ++j) mma_tf32_m16n8k8(this->sums[plane][i][j], a[i], c[j]);
  }
};

}  // namespace mansard
