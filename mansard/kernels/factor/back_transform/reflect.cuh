// Q = H_0 H_1 ... by right multiplication: each lane holds rows of Q, or parts of them, in registers.
//
//   H = I - u u^H / h:   q <- q - (q u / h) u^H   for every row q of Q
//
// A lane holds component rows: of a real matrix rows, of a complex one the real or the imaginary parts of a row, whose
// other half is in the lane beside it. With a = q u_re, b = q u_im of the own half and a', b' of the other one:
//
//   real parts:        q -= ((a - b') u_re + (b + a') u_im) / h
//   imaginary parts:   q -= ((a + b') u_re + (b - a') u_im) / h
//
// Rotations are real: they act on component rows of both kinds alike.
//
// A product Q X (side product) has columns of X instead: rows of X^T H_last ... H_0, the reflectors in the reverse order.
//
// A diagonal matrix of phases behind the reflectors goes to the front: H D = D (D^H H D). Rows of Q begin as rows of D,
// and u becomes D^H u while it is staged. Of a product, D^H comes last: X^T D^H H = X^T (D^H H D) D^H.
#pragma once
#include "kernels/factor/two_sided/rotations.cuh"
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

enum class Side { eigenvectors, left, right, product };

template <class R>
struct alignas(2 * sizeof(R)) Pair {
  R x, y;
};

template <class P>
struct Reflectors {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N, WORDS = Scalar<T>::WORDS;
  static constexpr bool LEFT = P::SIDE == Side::left, PRODUCT = P::SIDE == Side::product;
  static constexpr bool ON_DIAGONAL = P::SIDE == Side::eigenvectors || PRODUCT;
  static constexpr bool TRANSPOSED = P::SIDE == Side::right || PRODUCT;  // lanes hold columns of Z (conjugated)
  static constexpr int COUNT = LEFT ? N - 1 : (N > 2 ? N - 2 : 0);
  static constexpr int OFFSET = LEFT ? 0 : 1;  // u_k begins at column k + OFFSET

  const T *v, *phase;
  const R* inverses;  // 1 / h; for eigenvectors on the diagonal of V

  template <class Arguments>
  MANSARD_DEVICE Reflectors(const Arguments& a, i64 matrix)
      : v(a.V + matrix * (N * N)), phase(WORDS == 2 ? a.PHASE + matrix * N : nullptr),
        inverses(ON_DIAGONAL ? nullptr : a.TAU + matrix * N) {}

  // The reflector that is applied after `number` others.
  static MANSARD_DEVICE int in_turn(int number) { return PRODUCT ? COUNT - 1 - number : number; }

  // Start copies of entry j of u_k, and of 1 / h_k. Entries that are not stored become zeros.
  MANSARD_DEVICE void stage(T* u, int number, int j) const {
    const int k = in_turn(number);
    const bool present = number < COUNT && j < N && j >= k + OFFSET;
    copy_or_zero(u, v + (present ? k * N + j : 0), present);
  }
  MANSARD_DEVICE void stage_inverse(R* inverse, int number) const {
    const int k = in_turn(number);
    const bool present = number < COUNT;
    const R* diagonal = reinterpret_cast<const R*>(v + (present ? k * (N + 1) : 0));
    copy_or_zero(inverse, ON_DIAGONAL ? diagonal : inverses + (present ? k : 0), present);
  }
  // Entry j of D^H u, in the place of that of u, by the lane that has copied it.
  MANSARD_DEVICE void absorb_phase(T* u, int j) const {
    if (j < N) *u = product_of<true>(phase[j], *u);
  }
  // Component of the row of D that a component row of Q begins as, at column `row`.
  MANSARD_DEVICE R begin(int row, int component) const {
    if constexpr (WORDS == 1) return R(1);
    else return component == 0 ? phase[row].re : phase[row].im;
  }
  // Entry j of a component row of X^T, whose other component is zero.
  static MANSARD_DEVICE R factor(const R* X, int row, int j, int component) {
    return component == 0 && row < N && j < N ? X[j * N + row] : R(0);
  }
  // The component of y times the conjugate of phase j, with the other component of y in the lane `beside`.
  MANSARD_DEVICE R without_phase(R y, int j, int component, int beside) const {
    const R other = __shfl_xor_sync(0xffffffffu, y, beside);
    const T by = j < N ? phase[j] : zero<T>();
    if constexpr (WORDS == 1) return y;
    else return component == 0 ? fma(y, by.re, other * by.im) : fma(y, by.re, -other * by.im);
  }
};

// q <- q H for the component rows of a lane. COLUMNS entries of each row are here; the row's other parts are in the
// SPLIT - 1 lanes beside it, the other component SPLIT lanes away. Chunks of eight columns before `first` are skipped.
template <int WORDS, int SPLIT, class R, int ROWS, int COLUMNS>
MANSARD_DEVICE void reflect(R (&q)[ROWS][COLUMNS], const R* u, R inverse, R sign, int first) {
  constexpr int CHUNK = 8, CHUNKS = ceil_div(COLUMNS, CHUNK), STEP = 3 - WORDS;  // columns per pair of numbers
  R a[ROWS], b[ROWS];
  MANSARD_UNROLL
  for (int r = 0; r < ROWS; ++r) a[r] = b[r] = R(0);
  MANSARD_UNROLL
  for (int c = 0; c < CHUNKS; ++c) {
    if (c * CHUNK + CHUNK > first) {
      MANSARD_UNROLL
      for (int k = 0; k < CHUNK; k += STEP) {
        const int j = c * CHUNK + k;
        if (j < COLUMNS) {
          const Pair<R> p = *reinterpret_cast<const Pair<R>*>(u + j * WORDS);
          MANSARD_UNROLL
          for (int r = 0; r < ROWS; ++r) {
            a[r] = fma(q[r][j], p.x, a[r]);
            if (WORDS == 2) b[r] = fma(q[r][j], p.y, b[r]);
            else if (j + 1 < COLUMNS) b[r] = fma(q[r][j + 1 < COLUMNS ? j + 1 : j], p.y, b[r]);
          }
        }
      }
    }
  }
  MANSARD_UNROLL
  for (int r = 0; r < ROWS; ++r) {
    if constexpr (WORDS == 1) a[r] += b[r];
    MANSARD_UNROLL
    for (int lanes = 1; lanes < SPLIT; lanes *= 2) {
      a[r] += __shfl_xor_sync(0xffffffffu, a[r], lanes);
      if (WORDS == 2) b[r] += __shfl_xor_sync(0xffffffffu, b[r], lanes);
    }
    if constexpr (WORDS == 2) {
      const R other_a = __shfl_xor_sync(0xffffffffu, a[r], SPLIT), other_b = __shfl_xor_sync(0xffffffffu, b[r], SPLIT);
      a[r] = fma(sign, other_b, a[r]);  // sign: 1 for imaginary parts, -1 for real parts
      b[r] = -fma(-sign, other_a, b[r]) * inverse;
    }
    a[r] *= -inverse;
  }
  MANSARD_UNROLL
  for (int c = 0; c < CHUNKS; ++c) {
    if (c * CHUNK + CHUNK > first) {
      MANSARD_UNROLL
      for (int k = 0; k < CHUNK; k += STEP) {
        const int j = c * CHUNK + k;
        if (j < COLUMNS) {
          const Pair<R> p = *reinterpret_cast<const Pair<R>*>(u + j * WORDS);
          MANSARD_UNROLL
          for (int r = 0; r < ROWS; ++r) {
            q[r][j] = fma(a[r], p.x, q[r][j]);
            if (WORDS == 2) q[r][j] = fma(b[r], p.y, q[r][j]);
            else if (j + 1 < COLUMNS) q[r][j + 1 < COLUMNS ? j + 1 : j] = fma(a[r], p.y, q[r][j + 1 < COLUMNS ? j + 1 : j]);
          }
        }
      }
    }
  }
}

}  // namespace mansard
