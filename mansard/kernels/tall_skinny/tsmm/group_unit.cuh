// Warpgroups that multiply rows of a chunk with C (UNIT=wgmma): TF32 as in HalvesUnit, at nearly twice the rate, since
// the tensor cores read C from shared memory themselves.
//
// A team is one warpgroup; a pass is 64 rows, 16 per warp. A step is eight columns of A: one block of pairs
// (pairs.cuh), or for complex numbers two blocks, whose real and imaginary parts are separate operands. Lanes supply
// words of A where the instruction expects fragments, and C is arranged to match. A step is prepared while the tensor
// cores work on the one before.
#pragma once
#include "kernels/tall_skinny/tsmm/pairs.cuh"
#include "mansard/gpu/async.cuh"
#include "mansard/gpu/warpgroup.cuh"

namespace mansard {

template <class P>
struct GroupShape : PairShape<P> {
  using S = PairShape<P>;
  static constexpr int OCTETS = 2, STEPS = ceil_div(S::BLOCKS, S::WORDS);
  static constexpr int PLANE = S::COLUMNS * 64, PLANES = 2 * S::WORDS;  // words of C per step, half and part
  static constexpr int SMALL_BYTES = STEPS * PLANES * PLANE * 4 + 128;
  static_assert(sizeof(typename S::Word) == 4 && P::SOURCE == Source::shared, "floats, C in shared memory");
  static_assert(P::WARPS_K == 4 && P::WARPS_N == 1 && P::ROWS == 64 * P::PASSES && S::COLUMNS <= 16, "one warpgroup");
};

template <class P>
struct GroupUnit {
  using S = GroupShape<P>;
  int warp, g, t, turn, pass = 0;
  const u32* small;  // C: for each step a plane of high and one of low halves; for complex numbers two of each
  float sums[S::WORDS][S::COLUMNS][4];

  MANSARD_DEVICE GroupUnit(int member, unsigned char* memory)
      : warp(member), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4), turn(g % S::AT_ONCE / (S::AT_ONCE / S::CLASH)),
        small(aligned(memory)) {}

  static MANSARD_DEVICE u32* aligned(unsigned char* memory) {
    return reinterpret_cast<u32*>(memory + (128 - reinterpret_cast<u64>(memory) % 128) % 128);
  }
  MANSARD_DEVICE const u32* plane(int step, int number) const { return small + (step * S::PLANES + number) * S::PLANE; }

  template <int THREADS, class Arguments>
  MANSARD_DEVICE void hold(const Arguments& arguments, unsigned char* memory) {
    for (int i = threadIdx.x; i < S::STEPS * S::PLANE; i += THREADS) {
      const int step = i / S::PLANE, n = i % S::PLANE / 8, k = i % 8;
      const int m = step * 8 + (S::WORDS == 2 ? k : k < 4 ? S::x_of(k) : S::y_of(k - 4));
      u32* to = aligned(memory) + step * S::PLANES * S::PLANE + warpgroup_word(k, n);
      const auto put = [&](double x, int at) {
        u32 high, low;
        split_tf32(static_cast<float>(x), high, low);
        to[at * S::PLANE] = high;
        to[(at + 1) * S::PLANE] = fabs(x) > 3.5e38 ? 0 : low;  // for an infinity it would be a NaN: see `entry`
      };
      const bool inside = m < P::M && n < P::N;
      if constexpr (S::WORDS == 2) {
        const Complex<double> c = inside ? small_entry<P>(arguments, m, n) : Complex<double>{0.0, 0.0};
        put(c.re, 0);
        put(c.im, 2);
      } else {
        put(inside ? small_entry<P>(arguments, m, n) : 0.0, 0);
      }
    }
    fence_async_shared();
  }

  // Row of an octet, chosen so that the rows of a warp's lanes begin in different banks, as far as the pitch allows.
  MANSARD_DEVICE int offset(int octet) const {
    const int all = 2 * warp + octet;
    return all / S::STEP * 8 * S::STEP + all % S::STEP;
  }
  MANSARD_DEVICE int row(int octet) const { return pass * 64 + offset(octet) + S::STEP * g; }

  MANSARD_DEVICE void multiply(const unsigned char* stage, int number) {
    pass = number;
    const float* rows = reinterpret_cast<const float*>(stage) + (pass * 64 + S::STEP * g) * S::LDA;
    constexpr int GROUP = S::CLASH > S::WORDS ? S::CLASH : S::WORDS, WHOLE = S::WIDTH / 8 / GROUP * GROUP;
MANSARD_UNROLL_BY(4)
    for (int block = 0; block < WHOLE; block += GROUP) add_blocks<GROUP>(rows, block);
    add_rest<GROUP, WHOLE>(rows);
    warpgroup_wait<0>();
    float all = 0.0f;
    MANSARD_UNROLL
    for (int i = 0; i < S::WORDS * S::COLUMNS; ++i) {
      const float* four = sums[i / S::COLUMNS][i % S::COLUMNS];
      all += (four[0] + four[1]) + (four[2] + four[3]);
    }
    if (__any_sync(~0u, !(fabsf(all) <= 3.0e38f))) redo(rows);
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
  // Add SIZE blocks; for complex numbers the second block of the last step may not exist.
  template <int SIZE>
  MANSARD_DEVICE void add_blocks(const float* rows, int block) {
    Pair<float> a[S::OCTETS][SIZE];
    load_pairs<P>(rows, block, turn, t, a, [&](int octet) { return offset(octet); });
    MANSARD_UNROLL
    for (int n = 0; n < SIZE; n += S::WORDS) {
      if constexpr (S::WORDS == 1) {
        add_step(block + n, {a[0][n].x, a[1][n].x, a[0][n].y, a[1][n].y});
      } else {
        constexpr Pair<float> NONE = {0.0f, 0.0f};
        const bool both = n + 1 < SIZE;
        const Pair<float> third = both ? a[0][both ? n + 1 : 0] : NONE, fourth = both ? a[1][both ? n + 1 : 0] : NONE;
        add_step((block + n) / 2, {a[0][n].x, a[1][n].x, third.x, fourth.x}, {a[0][n].y, a[1][n].y, third.y, fourth.y});
      }
    }
  }
  // to += x y = low high + high low + high high, the smallest terms first.
  static MANSARD_DEVICE void add(float (&to)[S::COLUMNS][4], const u32 (&high)[4], const u32 (&low)[4], const u32* c,
                                 bool more) {
    wgmma_tf32(to, low, c, more);
    wgmma_tf32(to, high, c + S::PLANE, true);
    wgmma_tf32(to, high, c, true);
  }
  static MANSARD_DEVICE void split(const float (&x)[4], u32 (&high)[4], u32 (&low)[4]) {
    MANSARD_UNROLL
    for (int i = 0; i < 4; ++i) split_tf32(x[i], high[i], low[i]);
  }
  MANSARD_DEVICE void add_step(int step, const float (&left)[4]) {
    u32 high[4], low[4];
    split(left, high, low);
    warpgroup_arrive();
    add(sums[0], high, low, plane(step, 0), step > 0);
    warpgroup_commit();
    warpgroup_wait<1>();  // registers with halves of the step before may be overwritten
  }
  MANSARD_DEVICE void add_step(int step, const float (&re)[4], const float (&im)[4]) {
    u32 high_re[4], low_re[4], high_im[4], low_im[4], minus_high[4], minus_low[4];
    split(re, high_re, low_re);
    warpgroup_arrive();
    add(sums[0], high_re, low_re, plane(step, 0), step > 0);
    add(sums[1], high_re, low_re, plane(step, 2), step > 0);
    warpgroup_commit();
    warpgroup_wait<1>();
    split(im, high_im, low_im);
    MANSARD_UNROLL
    for (int i = 0; i < 4; ++i) minus_high[i] = high_im[i] ^ 0x80000000u, minus_low[i] = low_im[i] ^ 0x80000000u;
    warpgroup_arrive();
    add(sums[0], minus_high, minus_low, plane(step, 2), true);
    add(sums[1], high_im, low_im, plane(step, 0), true);
    warpgroup_commit();
    warpgroup_wait<1>();
  }

  // Entry of C in double precision: row k of a step, column n, part `part`.
  MANSARD_DEVICE double entry(int step, int k, int n, int part) const {
    const u32* at = plane(step, 2 * part) + warpgroup_word(k, n);
    return double(__uint_as_float(at[0])) + double(__uint_as_float(at[S::PLANE]));
  }
  // Compute again in double precision, tile by tile: splitting turns infinities into NaNs.
  MANSARD_DEVICE void redo(const float* rows) {
    MANSARD_UNROLL
    for (int j = 0; j < S::COLUMNS; ++j) {
      double tile[S::WORDS][4] = {};
MANSARD_UNROLL_BY(1)
      for (int block = 0; block < S::BLOCKS; ++block) {
        double left[4];
        MANSARD_UNROLL
        for (int o = 0; o < 2; ++o) {
          const Pair<float> a = S::load(rows + offset(o) * S::LDA + block * 8, t);
          left[o] = block * 8 + S::x_of(t) < S::WIDTH ? a.x : 0.0f;
          left[2 + o] = block * 8 + S::y_of(t) < S::WIDTH ? a.y : 0.0f;
        }
        if constexpr (S::WORDS == 2) {
          const int k = block % 2 * 4 + t;
          const double re = entry(block / 2, k, 8 * j + g, 0), im = entry(block / 2, k, 8 * j + g, 1);
          mma_m16n8k8(tile[0], left, {re, -im});
          mma_m16n8k8(tile[1], left, {im, re});
        } else {
          mma_m16n8k8(tile[0], left, {entry(block, t, 8 * j + g, 0), entry(block, t + 4, 8 * j + g, 0)});
        }
      }
      MANSARD_UNROLL
      for (int e = 0; e < 4 * S::WORDS; ++e) sums[e / 4][j][e % 4] = static_cast<float>(tile[e / 4][e % 4]);
    }
  }

  template <class Put, class Single>
  MANSARD_DEVICE void for_each_result(Put put, Single) const {
    MANSARD_UNROLL
    for (int o = 0; o < S::OCTETS; ++o)
      MANSARD_UNROLL
      for (int j = 0; j < S::COLUMNS; ++j) {
        const float* re = sums[0][j] + o * 2;
        const int column = j * 8 + 2 * t;
        if constexpr (S::WORDS == 2) {
          const float* im = sums[1][j] + o * 2;
          put(row(o), column, Complex<float>{re[0], im[0]}, Complex<float>{re[1], im[1]});
        } else {
          put(row(o), column, re[0], re[1]);
        }
      }
  }
};

}  // namespace mansard
