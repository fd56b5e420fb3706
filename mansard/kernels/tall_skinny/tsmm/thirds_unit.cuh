// Complex products from three real ones (PRODUCTS=3, UNIT=tf32x3), a quarter less work for the tensor cores:
//   t1 = re c.re,  t2 = im c.im,  t3 = (re + im) (c.re + c.im);   re = t1 - t2,  im = t3 - t1 - t2.
// Errors stay within a small multiple of |a| |c|, as with four products, but an imaginary part that is much smaller
// than the real one no longer has a small error of its own.
//
// A step is two blocks (pairs.cuh), eight complex columns of A. A lane holds number t of either block, which gives one
// operand of real parts, one of imaginary parts and one of their sums. Each of the three products is three TF32
// products (HalvesUnit). C is held unsplit, and split and summed when it is used. Sums and splitting turn infinities
// into NaNs: rows that have them (or overflow) are computed again.
#pragma once
#include "kernels/tall_skinny/tsmm/pairs.cuh"

namespace mansard {

template <class P>
struct ThirdsShape : PairShape<P> {
  using S = PairShape<P>;
  static_assert(S::WORDS == 2 && sizeof(typename S::Word) == 4 && P::SOURCE == Source::shared, "complex64, C in shared memory");
  static constexpr int PASS_ROWS = P::ROWS / P::WARPS_K / P::PASSES;  // rows per warp and pass
  static constexpr int OCTETS = PASS_ROWS / 8, TILES_M = OCTETS / 2, STEPS = ceil_div(S::BLOCKS, 2);
  static constexpr int COLUMNS_OF_WARP = ceil_div(S::COLUMNS, P::WARPS_N);
  static constexpr int SMALL_COLUMNS = COLUMNS_OF_WARP * P::WARPS_N;  // zeros beyond the last
  static constexpr int SMALL_BYTES = STEPS * SMALL_COLUMNS * 32 * 16;
  static_assert(OCTETS % 2 == 0 && OCTETS % S::STEP == 0, "rows per pass");
  // row of an octet that lane 0 loads, relative to the warp's first row
  static MANSARD_HOST_DEVICE int row_of(int octet) { return octet / S::STEP * 8 * S::STEP + octet % S::STEP; }
};

// A lane's share of C in a step: row t of both blocks.
struct alignas(16) Numbers {
  float re[2], im[2];
};

template <class P>
struct ThirdsUnit {
  using S = ThirdsShape<P>;
  static constexpr int PLANE = S::TILES_M * S::COLUMNS_OF_WARP * 4;  // sums
  int warp_k, warp_n, g, t, turn, pass = 0;
  const Numbers* small;  // the lane's first numbers of C
  float sums[3][S::TILES_M][S::COLUMNS_OF_WARP][4];

  MANSARD_DEVICE ThirdsUnit(int member, const unsigned char* memory)
      : warp_k(member / P::WARPS_N), warp_n(member % P::WARPS_N), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4),
        turn(g % S::AT_ONCE / (S::AT_ONCE / S::CLASH)),
        small(reinterpret_cast<const Numbers*>(memory) + warp_n * S::COLUMNS_OF_WARP * 32 + threadIdx.x % 32) {}

  template <int THREADS, class Arguments>
  MANSARD_DEVICE void hold(const Arguments& arguments, unsigned char* memory) {
    Numbers* to = reinterpret_cast<Numbers*>(memory);
    for (int i = threadIdx.x; i < S::STEPS * S::SMALL_COLUMNS * 32; i += THREADS) {
      const int step = i / 32 / S::SMALL_COLUMNS, n = i / 32 % S::SMALL_COLUMNS * 8 + i % 32 / 4;
      Numbers numbers = {};
      MANSARD_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int m = (2 * step + half) * 4 + i % 4;
        if (m < P::M && n < P::N) {
          const auto c = small_entry<P>(arguments, m, n);
          numbers.re[half] = static_cast<float>(c.re), numbers.im[half] = static_cast<float>(c.im);
        }
      }
      to[i] = numbers;
    }
  }
  MANSARD_DEVICE Numbers numbers(int step, int j) const { return small[(step * S::SMALL_COLUMNS + j) * 32]; }
  MANSARD_DEVICE int row(int octet) const {
    return (warp_k * P::PASSES + pass) * S::PASS_ROWS + S::row_of(octet) + S::STEP * g;
  }
  MANSARD_DEVICE float& sum(int i) {
    constexpr int J = S::COLUMNS_OF_WARP * 4;
    return sums[i / J / S::TILES_M][i / J % S::TILES_M][i % J / 4][i % 4];
  }

  MANSARD_DEVICE void multiply(const unsigned char* stage, int number) {
    pass = number;
    MANSARD_UNROLL
    for (int i = 0; i < 3 * PLANE; ++i) sum(i) = 0;
    const float* rows = reinterpret_cast<const float*>(stage) + row(0) * S::LDA;
    constexpr int GROUP = S::CLASH > 2 ? S::CLASH : 2, WHOLE = S::WIDTH / 8 / GROUP * GROUP;
MANSARD_UNROLL_BY(2)
    for (int block = 0; block < WHOLE; block += GROUP) add_blocks<GROUP>(rows, block);
    add_rest<GROUP, WHOLE>(rows);
    MANSARD_UNROLL
    for (int i = 0; i < PLANE; ++i) {
      const float t1 = sum(i), t2 = sum(PLANE + i);
      sum(i) = t1 - t2;
      sum(PLANE + i) = sum(2 * PLANE + i) - t1 - t2;
    }
    float all = 0;
    MANSARD_UNROLL
    for (int i = 0; i < 2 * PLANE; i += 4) all += (sum(i) + sum(i + 1)) + (sum(i + 2) + sum(i + 3));
    if (__any_sync(~0u, !(all - all == 0))) redo(rows);
  }
  template <int SIZE, int BLOCK>
  MANSARD_DEVICE void add_rest(const float* rows) {
    if constexpr (BLOCK + SIZE <= S::BLOCKS) {
      add_blocks<SIZE>(rows, BLOCK);
      add_rest<SIZE, BLOCK + SIZE>(rows);
    } else if constexpr (SIZE > 1) {
      add_rest<SIZE / 2, BLOCK>(rows);
    }
  }
  // Add SIZE blocks, two at a time; the second block of the last step may not exist.
  template <int SIZE>
  MANSARD_DEVICE void add_blocks(const float* rows, int block) {
    Pair<float> a[S::OCTETS][SIZE];
    load_pairs<P>(rows, block, turn, t, a, [](int octet) { return S::row_of(octet); });
    MANSARD_UNROLL
    for (int n = 0; n < SIZE; n += 2) {
      float left[3][S::TILES_M][4];
      MANSARD_UNROLL
      for (int i = 0; i < 4 * S::TILES_M; ++i) {
        const int octet = i / 4 * 2 + i % 2, half = i % 4 / 2;
        const Pair<float> one = n + half < SIZE ? a[octet][n + half < SIZE ? n + half : 0] : Pair<float>{0, 0};
        left[0][i / 4][i % 4] = one.x, left[1][i / 4][i % 4] = one.y, left[2][i / 4][i % 4] = one.x + one.y;
      }
      add_step((block + n) / 2, left);
    }
  }
  MANSARD_DEVICE void add_step(int step, const float (&left)[3][S::TILES_M][4]) {
    Numbers c[S::COLUMNS_OF_WARP];
    MANSARD_UNROLL
    for (int j = 0; j < S::COLUMNS_OF_WARP; ++j) c[j] = numbers(step, j);
    MANSARD_UNROLL
    for (int plane = 0; plane < 3; ++plane) {
      u32 high_a[S::TILES_M][4], low_a[S::TILES_M][4], high_c[S::COLUMNS_OF_WARP][2], low_c[S::COLUMNS_OF_WARP][2];
      MANSARD_UNROLL
      for (int i = 0; i < 4 * S::TILES_M; ++i)
        split_tf32(left[plane][i / 4][i % 4], high_a[i / 4][i % 4], low_a[i / 4][i % 4]);
      MANSARD_UNROLL
      for (int j = 0; j < 2 * S::COLUMNS_OF_WARP; ++j) {
        const float re = c[j / 2].re[j % 2], im = c[j / 2].im[j % 2];
        split_tf32(plane == 0 ? re : plane == 1 ? im : re + im, high_c[j / 2][j % 2], low_c[j / 2][j % 2]);
      }
      add(plane, low_a, high_c);  // loops over tiles inside, so that consecutive instructions are independent
      add(plane, high_a, low_c);
      add(plane, high_a, high_c);
    }
  }
  MANSARD_DEVICE void add(int plane, const u32 (&a)[S::TILES_M][4], const u32 (&c)[S::COLUMNS_OF_WARP][2]) {
    MANSARD_UNROLL
    for (int i = 0; i < S::TILES_M; ++i)
      MANSARD_UNROLL
      for (int j = 0; j < S::COLUMNS_OF_WARP; ++j) mma_tf32_m16n8k8(sums[plane][i][j], a[i], c[j]);
  }
  // Compute again in double precision with four products, tile by tile to save registers.
  MANSARD_DEVICE void redo(const float* rows) {
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
            const Pair<float> a = S::load(rows + S::row_of(2 * i + o) * S::LDA + block * 8, t);
            const bool inside = block * 8 + S::y_of(t) < S::WIDTH;
            left[o] = inside ? a.x : 0.0f, left[2 + o] = inside ? a.y : 0.0f;
          }
          const Numbers c = numbers(block / 2, j);
          const double x = block % 2 ? c.re[1] : c.re[0], y = block % 2 ? c.im[1] : c.im[0];
          mma_m16n8k8(re, left, {x, -y});
          mma_m16n8k8(im, left, {y, x});
        }
        MANSARD_UNROLL
        for (int e = 0; e < 4; ++e)
          sums[0][i][j][e] = static_cast<float>(re[e]), sums[1][i][j][e] = static_cast<float>(im[e]);
      }
  }

  template <class Put, class Single>
  MANSARD_DEVICE void for_each_result(Put put, Single) const {
    MANSARD_UNROLL
    for (int o = 0; o < S::OCTETS; ++o)
      MANSARD_UNROLL
      for (int j = 0; j < S::COLUMNS_OF_WARP; ++j) {
        const float *re = sums[0][o / 2][j] + o % 2 * 2, *im = sums[1][o / 2][j] + o % 2 * 2;
        put(row(o), (warp_n * S::COLUMNS_OF_WARP + j) * 8 + 2 * t, Complex<float>{re[0], im[0]},
            Complex<float>{re[1], im[1]});
      }
  }
};

}  // namespace mansard
