// Tensor-core units that multiply a warp's rows of a chunk with C.
//
//   FloatUnit   UNIT=float64: in double precision, whatever the data
//   HalvesUnit  UNIT=tf32x3: a float is two TF32 numbers and a product three instructions, at several times the rate
//
// A unit has hold (loads C), multiply (pass `pass` over the rows in `stage`) and for_each_result, which calls
// put(row of the chunk, column, entry, its right neighbour) or single(row, column, entry) for all results of that pass.
#pragma once
#include "kernels/tall_skinny/tsmm/pairs.cuh"

namespace mansard {

// Base of both units: positions of lanes, loads of A, C in shared memory or in registers.
template <class P, class Sum>
struct TensorUnit {
  using S = UnitShape<P>;
  using Word = typename S::Word;
  static constexpr bool TF32 = P::UNIT == Unit::tf32x3;
  int warp_k, warp_n, g, t, turn, pass = 0;
  const Fragment* small;  // the lane's first fragment
  Fragment held[S::STAGED ? 1 : S::BLOCKS][S::COLUMNS_OF_WARP];
  Sum sums[S::TILES_M][S::TILES_N][4];

  MANSARD_DEVICE TensorUnit(int member, const unsigned char* memory)
      : warp_k(member / P::WARPS_N), warp_n(member % P::WARPS_N), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4),
        turn(g % S::AT_ONCE / (S::AT_ONCE / S::CLASH)),
        small(reinterpret_cast<const Fragment*>(memory) + warp_n * S::COLUMNS_OF_WARP * 32 + threadIdx.x % 32) {}

  template <int THREADS, class Arguments>
  MANSARD_DEVICE void hold(const Arguments& arguments, unsigned char* memory) {
    if constexpr (S::STAGED) {
      Fragment* to = reinterpret_cast<Fragment*>(memory);
      for (int i = threadIdx.x; i < S::BLOCKS * S::SMALL_COLUMNS * 32; i += THREADS)
        to[i] = fragment_of<P, TF32>(arguments, i / 32 / S::SMALL_COLUMNS, i / 32 % S::SMALL_COLUMNS, i % 32 / 4, i % 4);
    } else {
      MANSARD_UNROLL
      for (int b = 0; b < S::BLOCKS; ++b)
        MANSARD_UNROLL
        for (int j = 0; j < S::COLUMNS_OF_WARP; ++j)
          held[b][j] = fragment_of<P, TF32>(arguments, b, warp_n * S::COLUMNS_OF_WARP + j, g, t);
    }
  }
  MANSARD_DEVICE Fragment fragment(int block, int j) const {
    if constexpr (S::STAGED) return small[(block * S::SMALL_COLUMNS + j) * 32];
    else return held[block][j];
  }
  MANSARD_DEVICE int row(int octet) const {
    return (warp_k * P::PASSES + pass) * S::PASS_ROWS + S::row_of(octet) + S::STEP * g;
  }
  // Address of word 0 of the lane's first row.
  MANSARD_DEVICE const Word* rows(const unsigned char* stage) const {
    return reinterpret_cast<const Word*>(stage) + row(0) * S::LDA;
  }

  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int i = 0; i < S::TILES_M * S::TILES_N * 4; ++i) sums[i / 4 / S::TILES_N][i / 4 % S::TILES_N][i % 4] = 0;
  }

  // Clear the sums and call step(pair, c) for all blocks: pair(octet) is the lane's pair of words, c its fragments of
  // C.
  template <class Step>
  MANSARD_DEVICE void walk(const unsigned char* stage, int number, Step step) {
    pass = number;
    clear();
    const Word* first = rows(stage);
    for_each_block<P, !S::STAGED>([&](auto size, int block) {
      constexpr int SIZE = decltype(size)::VALUE;
      Pair<Word> a[S::OCTETS][SIZE];
      load_pairs<P>(first, block, turn, t, a, [](int octet) { return S::row_of(octet); });
      MANSARD_UNROLL
      for (int n = 0; n < SIZE; ++n) {
        Fragment c[S::COLUMNS_OF_WARP];
        MANSARD_UNROLL
        for (int j = 0; j < S::COLUMNS_OF_WARP; ++j) c[j] = fragment(block + n, j);
        step([&](int octet) { return a[octet][n]; }, c);
      }
    });
  }

  template <class Put, class Single>
  MANSARD_DEVICE void for_each_result(Put put, Single) const {
    MANSARD_UNROLL
    for (int o = 0; o < S::OCTETS; ++o)
      MANSARD_UNROLL
      for (int j = 0; j < S::COLUMNS_OF_WARP; ++j) {
        const Sum* re = sums[o / 2][j * S::WORDS] + o % 2 * 2;
        const int column = (warp_n * S::COLUMNS_OF_WARP + j) * 8 + 2 * t;
        if constexpr (S::WORDS == 2) {
          const Sum* im = sums[o / 2][j * 2 + 1] + o % 2 * 2;
          put(row(o), column, Complex<Sum>{re[0], im[0]}, Complex<Sum>{re[1], im[1]});
        } else {
          put(row(o), column, re[0], re[1]);
        }
      }
  }
};

template <class P>
struct FloatUnit : TensorUnit<P, double> {
  using Base = TensorUnit<P, double>;
  using S = UnitShape<P>;
  using Word = typename S::Word;
  using Base::Base;

  MANSARD_DEVICE void multiply(const unsigned char* stage, int pass) {
    this->walk(stage, pass, [&](auto pair, const Fragment(&c)[S::COLUMNS_OF_WARP]) {
      MANSARD_UNROLL
      for (int i = 0; i < S::TILES_M; ++i) {
        const Pair<Word> up = pair(2 * i), low = pair(2 * i + 1);
        const double left[4] = {double(up.x), double(low.x), double(up.y), double(low.y)};
        MANSARD_UNROLL
        for (int j = 0; j < S::COLUMNS_OF_WARP; ++j) {
          const double x = c[j].wide[0], y = c[j].wide[1];
          mma_m16n8k8(this->sums[i][j * S::WORDS], left, {x, S::WORDS == 2 ? -y : y});
          if constexpr (S::WORDS == 2) mma_m16n8k8(this->sums[i][j * 2 + 1], left, {y, x});
        }
      }
    });
  }
};

// x y = low high + high low + high high, the smallest terms first. Splitting turns infinities into NaNs: rows that have
// them (or overflow) are computed again in double precision.
template <class P>
struct HalvesUnit : TensorUnit<P, float> {
  using Base = TensorUnit<P, float>;
  using S = UnitShape<P>;
  using Word = typename S::Word;
  using Base::Base;

  MANSARD_DEVICE void multiply(const unsigned char* stage, int pass) {
    this->walk(stage, pass, [&](auto pair, const Fragment(&c)[S::COLUMNS_OF_WARP]) {
      u32 high[S::TILES_M][4], low[S::TILES_M][4];
      MANSARD_UNROLL
      for (int o = 0; o < S::OCTETS; ++o) {
        split_tf32(pair(o).x, high[o / 2][o % 2], low[o / 2][o % 2]);
        split_tf32(pair(o).y, high[o / 2][2 + o % 2], low[o / 2][2 + o % 2]);
      }
      add<0>(low, c);  // loops over tiles inside, so that consecutive instructions are independent
      add<2>(high, c);
      add<0>(high, c);
    });
    float all = 0.0f;
    MANSARD_UNROLL
    for (int i = 0; i < S::TILES_M; ++i) {
      float some = 0.0f;  // short chains, since the next chunk waits for them
      MANSARD_UNROLL
      for (int j = 0; j < S::TILES_N; ++j)
        some += (this->sums[i][j][0] + this->sums[i][j][1]) + (this->sums[i][j][2] + this->sums[i][j][3]);
      all += some;
    }
    if (__any_sync(~0u, !(fabsf(all) <= 3.0e38f))) redo(this->rows(stage));
  }
  // Add the product with the high (FIRST = 0) or low (FIRST = 2) halves of C.
  template <int FIRST>
  MANSARD_DEVICE void add(const u32 (&left)[S::TILES_M][4], const Fragment (&c)[S::COLUMNS_OF_WARP]) {
    MANSARD_UNROLL
    for (int i = 0; i < S::TILES_M; ++i)
      MANSARD_UNROLL
      for (int j = 0; j < S::COLUMNS_OF_WARP; ++j) {
        const u32 x = c[j].halves[FIRST], y = c[j].halves[FIRST + 1];
        mma_tf32_m16n8k8(this->sums[i][j * S::WORDS], left[i], {x, S::WORDS == 2 ? y ^ 0x80000000u : y});
        if constexpr (S::WORDS == 2) mma_tf32_m16n8k8(this->sums[i][j * 2 + 1], left[i], {y, x});
      }
  }
  // Compute again in double precision, tile by tile to save registers; both halves of C together are C to 2^-22.
  MANSARD_DEVICE void redo(const Word* rows) {
    MANSARD_UNROLL
    for (int i = 0; i < S::TILES_M; ++i)
      MANSARD_UNROLL
      for (int j = 0; j < S::TILES_N; ++j) {
        double tile[4] = {};
MANSARD_UNROLL_BY(1)
        for (int block = 0; block < S::BLOCKS; ++block) {
          double left[4];
          MANSARD_UNROLL
          for (int o = 0; o < 2; ++o) {
            const Pair<Word> a = S::load(rows + S::row_of(2 * i + o) * S::LDA + block * 8, this->t);
            left[o] = block * 8 + S::x_of(this->t) < S::WIDTH ? a.x : Word(0);
            left[2 + o] = block * 8 + S::y_of(this->t) < S::WIDTH ? a.y : Word(0);
          }
          const Fragment c = this->fragment(block, j / S::WORDS);
          const double x = double(__uint_as_float(c.halves[0])) + double(__uint_as_float(c.halves[2]));
          const double y = double(__uint_as_float(c.halves[1])) + double(__uint_as_float(c.halves[3]));
          const bool im = S::WORDS == 2 && j % 2 == 1;
          mma_m16n8k8(tile, left, {im ? y : x, im ? x : S::WORDS == 2 ? -y : y});
        }
        MANSARD_UNROLL
        for (int e = 0; e < 4; ++e) this->sums[i][j][e] = static_cast<float>(tile[e]);
      }
  }
};

}  // namespace mansard
