// UNIT=fma: a lane multiplies whole rows of A with C, which it holds in registers. For rows of a few words, which would
// leave tensor cores idle.
#pragma once
#include "kernels/tall_skinny/tsmm/pairs.cuh"

namespace mansard {

template <class P>
struct LaneUnit {
  using S = UnitShape<P>;
  using T = typename P::T;
  using Word = typename S::Word;
  static constexpr int ROWS = S::PASS_ROWS / 32;  // rows per lane and pass
  int warp_k, pass = 0;
  T held[P::M][P::N], sums[ROWS][P::N];

  MANSARD_DEVICE LaneUnit(int member, const unsigned char*) : warp_k(member) {}

  template <int THREADS, class Arguments>
  MANSARD_DEVICE void hold(const Arguments& arguments, unsigned char*) {
    MANSARD_UNROLL
    for (int i = 0; i < P::M * P::N; ++i) {
      const auto c = small_entry<P>(arguments, i / P::N, i % P::N);
      if constexpr (S::WORDS == 2) held[i / P::N][i % P::N] = {Word(c.re), Word(c.im)};
      else held[i / P::N][i % P::N] = Word(c);
    }
  }
  MANSARD_DEVICE int row(int i) const { return (warp_k * P::PASSES + pass) * S::PASS_ROWS + i * 32 + threadIdx.x % 32; }

  MANSARD_DEVICE void multiply(const unsigned char* stage, int pass) {
    this->pass = pass;
    MANSARD_UNROLL
    for (int i = 0; i < ROWS; ++i) {
      Word words[S::LDA];
      load(reinterpret_cast<const Word*>(stage) + row(i) * S::LDA, words);
      MANSARD_UNROLL
      for (int n = 0; n < P::N; ++n) sums[i][n] = zero<T>();
      MANSARD_UNROLL
      for (int m = 0; m < P::M; ++m)
        MANSARD_UNROLL
        for (int n = 0; n < P::N; ++n) {
          if constexpr (S::WORDS == 2) multiply_add<false>(sums[i][n], T{words[2 * m], words[2 * m + 1]}, held[m][n]);
          else multiply_add<false>(sums[i][n], words[m], held[m][n]);
        }
    }
  }
  // Load a row with the widest loads that its pitch allows.
  static MANSARD_DEVICE void load(const Word* from, Word (&words)[S::LDA]) {
    constexpr int VECTOR = gcd(S::LDA, 16 / int(sizeof(Word)));
    struct alignas(VECTOR * sizeof(Word)) Words {
      Word w[VECTOR];
    };
    MANSARD_UNROLL
    for (int i = 0; i < S::LDA; i += VECTOR) {
      const Words some = *reinterpret_cast<const Words*>(from + i);
      MANSARD_UNROLL
      for (int j = 0; j < VECTOR; ++j) words[i + j] = some.w[j];
    }
  }

  template <class Put, class Single>
  MANSARD_DEVICE void for_each_result(Put put, Single) const {
    MANSARD_UNROLL
    for (int i = 0; i < ROWS; ++i)
      MANSARD_UNROLL
      for (int n = 0; n < P::N; n += 2) put(row(i), n, sums[i][n], sums[i][n + 1 < P::N ? n + 1 : n]);
  }
};

}  // namespace mansard
