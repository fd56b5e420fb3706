// What the lanes of two-sided reductions share: entries of A in global memory, sums over lanes, 16-byte reads of
// vectors in shared memory, and selections of registers that stay registers.
#pragma once
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

enum class Want { values, vectors };

// Entries of one matrix in global memory: row-major without gaps, or by strides that are arguments of the kernel.
template <class P>
struct Entries {
  using T = typename P::T;
  const T* at;
  i64 row, column;

  template <class Arguments>
  MANSARD_DEVICE Entries(const Arguments& a, i64 matrix)
      : at(a.A + matrix * (P::PACKED ? i64(P::N) * P::N : a.a_matrix)), row(a.a_row), column(a.a_col) {}
  MANSARD_DEVICE T operator()(int i, int j) const {
    if constexpr (P::PACKED) return at[i * P::N + j];
    else return at[i * row + j * column];
  }
};

// As many entries as one instruction reads from shared memory.
template <class T>
struct alignas(16) Chunk {
  static constexpr int SIZE = 16 / sizeof(T);
  T entry[SIZE];
  static MANSARD_DEVICE Chunk read(const T* from) { return *reinterpret_cast<const Chunk*>(from); }
};
// Entries of a vector of `length` in whole chunks.
template <class T>
MANSARD_HOST_DEVICE int padded(int length) {
  return ceil_div(length, Chunk<T>::SIZE) * Chunk<T>::SIZE;
}

// Hide the origin of x. `if (k == i) x = a[i]` for all i would otherwise become a[k], a run-time index of registers,
// which only local memory has. With a TAG, branches that differ in it are not merged into such an index either.
#if defined(MANSARD_EMULATED)
template <int TAG = 0, class R>
MANSARD_DEVICE R hidden(R x) {
  return x;
}
#else
template <int TAG = 0>
MANSARD_DEVICE double hidden(double x) {
  asm("// %1" : "+d"(x) : "n"(TAG));
  return x;
}
template <int TAG = 0>
MANSARD_DEVICE float hidden(float x) {
  asm("// %1" : "+f"(x) : "n"(TAG));
  return x;
}
template <int TAG = 0, class R>
MANSARD_DEVICE Complex<R> hidden(Complex<R> x) {
  return {hidden<TAG>(x.re), hidden<TAG>(x.im)};
}
#endif

template <class T>
MANSARD_DEVICE T either(bool first, T a, T b) {
  return first ? a : b;
}
template <class R>
MANSARD_DEVICE Complex<R> either(bool first, Complex<R> a, Complex<R> b) {
  return {first ? a.re : b.re, first ? a.im : b.im};
}

// Sum over each team of LANES lanes, in all of them; the largest below.
template <int LANES, class R>
MANSARD_DEVICE R team_sum(R x) {
  MANSARD_UNROLL
  for (int step = LANES / 2; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}
template <int LANES>
MANSARD_DEVICE int team_max(int x) {
  MANSARD_UNROLL
  for (int step = LANES / 2; step > 0; step /= 2) x = max(x, __shfl_xor_sync(~0u, x, step));
  return x;
}

// Value of x in the lane whose number differs in the bit `step`.
template <class R>
MANSARD_DEVICE R lane_across(R x, int step) {
  return __shfl_xor_sync(~0u, x, step);
}
template <class R>
MANSARD_DEVICE Complex<R> lane_across(Complex<R> x, int step) {
  return {lane_across(x.re, step), lane_across(x.im, step)};
}
// A step of team_fold. Entry n stands for numbers n, n + 2 HALF, ... by now, of which each lane has one.
template <int BEGIN, int END, int HALF, int STEP, int COUNT, class T>
MANSARD_DEVICE void fold_halves(T (&numbers)[COUNT], int lane) {
  if constexpr (HALF > 0) {
    const bool upper = lane & STEP;
    MANSARD_UNROLL
    for (int n = 0; n < HALF; ++n)
      if (n < END && n + COUNT - HALF >= BEGIN) {
        const T sent = either(upper, numbers[n], numbers[n + HALF]);
        numbers[n] = either(upper, numbers[n + HALF], numbers[n]);
        add_to(numbers[n], lane_across(sent, STEP));
      }
    fold_halves<BEGIN, END, HALF / 2, STEP / 2>(numbers, lane);
  }
}
// Sum each of COUNT numbers over a team of LANES lanes: lane l returns the sum of number l / (LANES / COUNT). In each of
// log2(COUNT) steps a lane sends half of its numbers and keeps the other half: COUNT shuffles instead of COUNT
// log2(LANES). Only the numbers from BEGIN to END - 1 are not zero.
template <int LANES, int BEGIN = 0, int END = 32, int COUNT, class T>
MANSARD_DEVICE T team_fold(T (&numbers)[COUNT], int lane) {
  static_assert(COUNT <= LANES && (COUNT & (COUNT - 1)) == 0, "halves of numbers");
  fold_halves<BEGIN, END, COUNT / 2, LANES / 2>(numbers, lane);
  MANSARD_UNROLL
  for (int step = LANES / COUNT / 2; step > 0; step /= 2) add_to(numbers[0], lane_across(numbers[0], step));
  return numbers[0];
}

// sum += by * x for a real `by`
template <class R>
MANSARD_DEVICE void add_multiple(R& sum, R by, R x) {
  sum = fma(by, x, sum);
}
template <class R>
MANSARD_DEVICE void add_multiple(Complex<R>& sum, R by, Complex<R> x) {
  sum = {fma(by, x.re, sum.re), fma(by, x.im, sum.im)};
}
// re(x^H y)
template <class R>
MANSARD_DEVICE R real_product(R x, R y) {
  return x * y;
}
template <class R>
MANSARD_DEVICE R real_product(Complex<R> x, Complex<R> y) {
  return fma(x.re, y.re, x.im * y.im);
}

}  // namespace mansard
