// Accumulators of a 16 x 8 tile of C on the tensor cores: double precision, real or complex (four real products).
#pragma once
#include "mansard/gpu/complex.cuh"
#include "mansard/gpu/mma.cuh"

namespace mansard {

// A lane's share in the layout of mma.cuh; add(a0, a1, b) takes its two entries of A and its entry of B.
template <class T>
struct TensorSums {
  double sums[4];
  MANSARD_DEVICE void begin(double value) {
    MANSARD_UNROLL
    for (int i = 0; i < 4; ++i) sums[i] = value;
  }
  MANSARD_DEVICE double operator[](int i) const { return sums[i]; }
  template <bool CONJ_A, bool CONJ_B>
  MANSARD_DEVICE void add(double a0, double a1, double b) {
    mma_m16n8k4(sums, a0, a1, b);
  }
};

template <>
struct TensorSums<Complex<double>> {
  using T = Complex<double>;
  double re[4], im[4];
  MANSARD_DEVICE void begin(T value) {
    MANSARD_UNROLL
    for (int i = 0; i < 4; ++i) re[i] = value.re, im[i] = value.im;
  }
  MANSARD_DEVICE T operator[](int i) const { return {re[i], im[i]}; }
  template <bool CONJ_A, bool CONJ_B>
  MANSARD_DEVICE void add(T a0, T a1, T b) {
    const double turned = CONJ_A ? negative(b.re) : b.re;  // factor of Im(A) in the imaginary part
    mma_m16n8k4(re, a0.re, a1.re, b.re);
    mma_m16n8k4(im, a0.re, a1.re, CONJ_B ? negative(b.im) : b.im);
    mma_m16n8k4(re, a0.im, a1.im, CONJ_A == CONJ_B ? negative(b.im) : b.im);
    mma_m16n8k4(im, a0.im, a1.im, turned);
  }

 private:
  // -x by flipping the sign bit; the compiler would use an addition.
  static MANSARD_DEVICE double negative(double x) {
    return __longlong_as_double(__double_as_longlong(x) ^ static_cast<i64>(0x8000000000000000ull));
  }
};

}  // namespace mansard
