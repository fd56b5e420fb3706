// Operands of the CPU products: addresses of matrices, their roles (left, right, out), and how a sum becomes an entry
// of C.
#pragma once
#include "mansard/cpu/parts.hpp"

namespace mansard {

enum class StackA { packed, strided, shared, pointers, interleaved };
enum class StackB { packed, strided, shared, pointers, interleaved };
enum class StackC { packed, strided, shared, pointers, interleaved };

// A matrix; strides count reals.
template <class R>
struct Entries {
  R* data;
  i64 row, column;

  MANSARD_INLINE Entries below(i64 rows) const { return {data + rows * row, row, column}; }
  MANSARD_INLINE Entries beside(i64 reals) const { return {data + reals, row, column}; }
  MANSARD_INLINE Entries transposed() const { return {data, column, row}; }
};

// A stack of ROWS x COLUMNS matrices. TIGHT: lines follow each other without gaps, so that strides are constants.
template <class T, class R, int ROWS, int COLUMNS, bool ROW_MAJOR, bool TIGHT, auto STACK>
struct StackOf {
  using Stack = decltype(STACK);
  static constexpr int WORDS = static_cast<int>(sizeof(T) / sizeof(R));
  T* data;
  i64 matrix, pitch;  // elements

  MANSARD_INLINE Entries<R> operator[](i64 b) const {
    const i64 line = WORDS * (TIGHT ? (ROW_MAJOR ? COLUMNS : ROWS) : pitch);
    T* found = data;
    if constexpr (STACK == Stack::pointers) found = reinterpret_cast<T* const*>(data)[b];
    else if constexpr (STACK == Stack::packed) found += b * ROWS * COLUMNS;
    else if constexpr (STACK == Stack::strided) found += b * matrix;
    return {reinterpret_cast<R*>(found), ROW_MAJOR ? line : WORDS, ROW_MAJOR ? WORDS : line};
  }
};

template <class P, class Arguments>
bool is_tight(const Arguments& a) {
  return (P::ROW_MAJOR_A ? a.a_row == P::K : a.a_col == P::M) && (P::ROW_MAJOR_B ? a.b_row == P::N : a.b_col == P::K) &&
         (P::ROW_MAJOR_C ? a.c_row == P::N : a.c_col == P::M);
}

// ---- complex numbers in vectors ---------------------------------------------------------------------------

template <class R, int LANES>
MANSARD_INLINE Vector<R, LANES> alternating(R even, R odd) {
  Vector<R, LANES> v;
  MANSARD_UNROLL
  for (int lane = 0; lane < LANES; ++lane) v[lane] = lane % 2 ? odd : even;
  return v;
}

template <class R, int LANES>
MANSARD_INLINE Vector<R, LANES> times_i(Vector<R, LANES> v) {
  return alternating<R, LANES>(-1, 1) * exchange<1, R, LANES>(v);
}

// Complex product by_re + i by_im from the sums with real and with imaginary parts of the left factor; either factor
// may be conjugated. Signs enter as factors of the last addition.
template <bool CONJ_LEFT, bool CONJ_RIGHT, int LANES, class R>
MANSARD_INLINE Vector<R, LANES> complex_product(Vector<R, LANES> by_re, Vector<R, LANES> by_im) {
  constexpr R LEFT = CONJ_LEFT ? -1 : 1;
  if constexpr (CONJ_RIGHT) by_re *= alternating<R, LANES>(1, -1);
  const auto signs = CONJ_RIGHT ? alternating<R, LANES>(LEFT, LEFT) : alternating<R, LANES>(-LEFT, LEFT);
  return plus_product(by_re, signs, exchange<1, R, LANES>(by_im));
}

// (re + i im) v; a zero imaginary part is not multiplied, so that infinities do not become NaNs.
template <int WORDS, int LANES, class R>
MANSARD_INLINE Lanes<R, LANES> scaled(R re, R im, Lanes<R, LANES> v) {
  Lanes<R, LANES> result = re * v;
  if constexpr (WORDS == 2)
    if (im != 0) add_product(result, im, times_i<R, LANES>(v));
  return result;
}

// sum += (re + i im) v; a zero imaginary part is not multiplied.
template <int WORDS, int LANES, class R>
MANSARD_INLINE void add_scaled(Lanes<R, LANES>& sum, R re, R im, Lanes<R, LANES> v) {
  add_product(sum, re, v);
  if constexpr (WORDS == 2)
    if (im != 0) add_product(sum, im, times_i<R, LANES>(v));
}

// ---- roles of the operands --------------------------------------------------------------------------------

// The product as the tiles see it: out (row-major) = left times right. A column-major C is the row-major C^T = B^T A^T.
// A single row or column without gaps is treated as the one along which lanes can run.
template <class P>
struct GemmOperands {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int WORDS = Scalar<T>::WORDS;
  static constexpr bool LINE = P::TIGHT && (P::M == 1 || P::N == 1);
  static constexpr bool SWAP = LINE ? P::N < P::M : !P::ROW_MAJOR_C;
  static constexpr int M = SWAP ? P::N : P::M, N = SWAP ? P::M : P::N, K = P::K;
  static constexpr bool CONJ_LEFT = SWAP ? P::CONJ_B : P::CONJ_A, CONJ_RIGHT = SWAP ? P::CONJ_A : P::CONJ_B;
  static constexpr bool RIGHT_IN_ROWS = SWAP ? !P::ROW_MAJOR_A : P::ROW_MAJOR_B;
  static constexpr bool RIGHT_SHARED = SWAP ? P::STACK_A == StackA::shared : P::STACK_B == StackB::shared;

  StackOf<const T, const R, P::M, P::K, P::ROW_MAJOR_A, P::TIGHT, P::STACK_A> A;
  StackOf<const T, const R, P::K, P::N, P::ROW_MAJOR_B, P::TIGHT, P::STACK_B> B;
  StackOf<T, R, P::M, P::N, P::ROW_MAJOR_C, P::TIGHT, P::STACK_C> C;
  R alpha_re, alpha_im, beta_re, beta_im;

  template <class Arguments>
  explicit GemmOperands(const Arguments& a)
      : A{a.A, a.a_matrix, P::ROW_MAJOR_A ? a.a_row : a.a_col},
        B{a.B, a.b_matrix, P::ROW_MAJOR_B ? a.b_row : a.b_col},
        C{a.C, a.c_matrix, P::ROW_MAJOR_C ? a.c_row : a.c_col},
        alpha_re(static_cast<R>(a.alpha_re)), alpha_im(static_cast<R>(a.alpha_im)),
        beta_re(static_cast<R>(a.beta_re)), beta_im(static_cast<R>(a.beta_im)) {}

  MANSARD_INLINE Entries<const R> left(i64 b) const { return SWAP ? B[b].transposed() : A[b]; }
  MANSARD_INLINE Entries<const R> right(i64 b) const { return SWAP ? A[b].transposed() : B[b]; }
  MANSARD_INLINE Entries<R> out(i64 b) const {
    if constexpr (LINE) return {C[b].data, N * WORDS, WORDS};
    else return SWAP ? C[b].transposed() : C[b];
  }

  // Calls visit(true_type) if alpha is one, which saves a multiplication per entry: in small tiles every tenth
  // operation.
  template <class Visit>
  MANSARD_INLINE void for_alpha(Visit visit) const {
    if (!P::ACCUMULATE && alpha_re == 1 && alpha_im == 0) visit(std::true_type());
    else visit(std::false_type());
  }

  // COUNT reals of C from the sums of right rows times real parts and times imaginary parts of left entries.
  template <int LANES, int COUNT, bool UNIT>
  MANSARD_INLINE Lanes<R, LANES> entries_of_c(const R* old, const Lanes<R, LANES> (&sums)[WORDS]) const {
    using V = Lanes<R, LANES>;
    V sum = sums[0];
    if constexpr (WORDS == 2) sum = complex_product<CONJ_LEFT, CONJ_RIGHT, LANES, R>(sums[0], sums[1]);
    if constexpr (UNIT) return sum;
    V value = scaled<WORDS, LANES>(alpha_re, alpha_im, sum);
    if constexpr (P::ACCUMULATE)
      add_scaled<WORDS, LANES>(value, beta_re, beta_im, load_part<LANES, COUNT>(old));
    return value;
  }
};

constexpr int next_power_of_two(int n) { return n <= 1 ? 1 : 2 * next_power_of_two((n + 1) / 2); }

// Transpose COLUMNS columns of ROWS entries of WORDS reals into rows of `pitch` reals; the last vector of a row is
// written completely.
template <int WORDS, int ROWS, int COLUMNS, class R>
inline void columns_to_rows(R* to, i64 pitch, Entries<const R> from) {
  constexpr int FULL = native_lanes<R>, FEW = next_power_of_two(WORDS * smaller(ROWS, COLUMNS));
  constexpr int LANES = smaller(FULL, larger(FEW, 2 * WORDS)), SQUARE = LANES / WORDS;
  const auto turn = [&](int i, int j, auto rows, auto columns) __attribute__((always_inline)) {
    constexpr int HIGH = decltype(rows)::value, WIDE = decltype(columns)::value;
    Vector<R, LANES> square[SQUARE] = {};
    MANSARD_UNROLL
    for (int c = 0; c < WIDE; ++c)
      square[c] = load_part<LANES, WORDS * HIGH>(from.data + i * WORDS + (j + c) * from.column);
    transpose<WORDS, R, LANES>(square);
    MANSARD_UNROLL
    for (int r = 0; r < HIGH; ++r) store<LANES>(to + (i + r) * pitch + j * WORDS, square[r]);
  };
  const auto turn_rows = [&](int j, auto columns) __attribute__((always_inline)) {
    int i = 0;
    for (; i + SQUARE <= ROWS; i += SQUARE) turn(i, j, Int<SQUARE>(), columns);
    if constexpr (ROWS % SQUARE > 0) turn(i, j, Int<ROWS % SQUARE>(), columns);
  };
  int j = 0;
  for (; j + SQUARE <= COLUMNS; j += SQUARE) turn_rows(j, Int<SQUARE>());
  if constexpr (COLUMNS % SQUARE > 0) turn_rows(j, Int<COLUMNS % SQUARE>());
}

}  // namespace mansard
