// Global memory side of W = A C: chunks of rows of A to shared memory, entries of W back.
#pragma once
#include "kernels/tall_skinny/tsmm/pairs.cuh"
#include "mansard/gpu/async.cuh"

namespace mansard {

// Store one entry to shared memory with one instruction.
template <class R>
MANSARD_DEVICE void lay(R* at, R entry) {
  *at = entry;
}
template <class R>
MANSARD_DEVICE void lay(Complex<R>* at, Complex<R> entry) {
  *reinterpret_cast<Pair<R>*>(at) = {entry.re, entry.im};
}

template <class P, class Arguments>
struct Stream {
  using S = PairShape<P>;
  using T = typename P::T;
  using Word = typename S::Word;
  static constexpr int CHUNK_BYTES = P::ROWS * S::LDA * int(sizeof(Word));
  const Arguments& arguments;
  i64 chunks;   // chunks that lie completely inside A
  bool scaled;  // beta is not zero: W is read

  MANSARD_DEVICE explicit Stream(const Arguments& given)
      // the padding of the last row may lie beyond the end of the array
      : arguments(given), chunks((given.K - (P::PITCH_A != P::M ? 1 : 0)) / P::ROWS),
        scaled(given.beta_re != 0.0 || given.beta_im != 0.0) {}

  MANSARD_DEVICE const Word* A() const { return reinterpret_cast<const Word*>(arguments.A); }

  MANSARD_DEVICE void fill(unsigned char* stage, mbarrier* arrival, i64 chunk) const {
    if (threadIdx.x % 32 == 0) {
      mbarrier_arrive_expect(arrival, CHUNK_BYTES);
      bulk_load(stage, A() + chunk * (P::ROWS * S::LDA), CHUNK_BYTES, arrival);
    }
    __syncwarp();  // no buffer: the warp reconverges after the lane that starts the copy
  }
  // Copy the rows behind the last full chunk, padded with zeros.
  MANSARD_DEVICE void fill_tail(Word* stage, int thread, int threads) const {
    const i64 first = chunks * P::ROWS;
    for (int i = thread; i < P::ROWS * S::LDA; i += threads) {
      const bool inside = first + i / S::LDA < arguments.K && i % S::LDA < S::WIDTH;
      stage[i] = inside ? A()[first * S::LDA + i] : Word(0);
    }
  }
  MANSARD_DEVICE T* place(i64 row, int column) const { return arguments.W + row * arguments.w_row + column; }

  // An entry of W: a result plus beta times the old entry.
  template <class Value>
  MANSARD_DEVICE T entry(Value value, i64 row, int column) const {
    if (scaled) return mansard::scaled<T>(widened(value), 1.0, 0.0, arguments.beta_re, arguments.beta_im, place(row, column));
    return narrowed(value);
  }
  template <class Value>
  static MANSARD_DEVICE T narrowed(Value value) {
    if constexpr (S::WORDS == 2) return {Word(value.re), Word(value.im)};
    else return static_cast<T>(value);
  }
  template <class R>
  static MANSARD_DEVICE double widened(R value) {
    return static_cast<double>(value);
  }
  template <class R>
  static MANSARD_DEVICE Complex<double> widened(Complex<R> value) {
    return {static_cast<double>(value.re), static_cast<double>(value.im)};
  }
};

}  // namespace mansard
