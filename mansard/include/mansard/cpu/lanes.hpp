// Arithmetic with one matrix per SIMD lane: a number is a vector with one entry of each matrix; masks and selects per
// lane.
#pragma once
#include "mansard/cpu/parts.hpp"
#include <limits>

namespace mansard {

template <class R>
using IndexOf = std::conditional_t<sizeof(R) == 8, i64, int>;

// ---- masks ------------------------------------------------------------------------------------------------

// Mask of lanes: bits where comparisons of full registers give bits (AVX-512), otherwise lanes of all ones or zeros.
template <class R, int LANES, bool BITS>
struct MaskOf {
  Vector<IndexOf<R>, LANES> lanes;

  MANSARD_INLINE friend MaskOf operator&(MaskOf a, MaskOf b) { return {a.lanes & b.lanes}; }
  MANSARD_INLINE friend MaskOf operator|(MaskOf a, MaskOf b) { return {a.lanes | b.lanes}; }
  MANSARD_INLINE MaskOf operator!() const { return {~lanes}; }
  MANSARD_INLINE bool any() const {
    IndexOf<R> found = 0;
    MANSARD_UNROLL
    for (int lane = 0; lane < LANES; ++lane) found |= lanes[lane];
    return found != 0;
  }
};
template <class R, int LANES>
struct MaskOf<R, LANES, true> {
  unsigned lanes;

  MANSARD_INLINE friend MaskOf operator&(MaskOf a, MaskOf b) { return {a.lanes & b.lanes}; }
  MANSARD_INLINE friend MaskOf operator|(MaskOf a, MaskOf b) { return {a.lanes | b.lanes}; }
  MANSARD_INLINE MaskOf operator!() const { return {~lanes & ((1u << LANES) - 1)}; }
  MANSARD_INLINE bool any() const { return lanes != 0; }
};

#if defined(__AVX512F__)
template <class R, int LANES>
constexpr bool bit_masks = LANES * sizeof(R) == 64;
#else
template <class R, int LANES>
constexpr bool bit_masks = false;
#endif
template <class R, int LANES>
using Mask = MaskOf<R, LANES, bit_masks<R, LANES>>;

#if defined(__AVX512F__)
#define MANSARD_COMPARED(NAME, WORD)                                                                           \
  MANSARD_INLINE MaskOf<double, 8, true> NAME(Vector<double, 8> a, Vector<double, 8> b) {                      \
    return {_mm512_cmp_pd_mask(a, b, WORD)};                                                                   \
  }                                                                                                            \
  MANSARD_INLINE MaskOf<float, 16, true> NAME(Vector<float, 16> a, Vector<float, 16> b) {                      \
    return {_mm512_cmp_ps_mask(a, b, WORD)};                                                                   \
  }
MANSARD_COMPARED(compared_greater, _CMP_GT_OQ)
MANSARD_COMPARED(compared_equal, _CMP_EQ_OQ)
#undef MANSARD_COMPARED
MANSARD_INLINE Vector<double, 8> selected(unsigned mask, Vector<double, 8> a, Vector<double, 8> b) {
  return _mm512_mask_blend_pd(static_cast<__mmask8>(mask), b, a);
}
MANSARD_INLINE Vector<float, 16> selected(unsigned mask, Vector<float, 16> a, Vector<float, 16> b) {
  return _mm512_mask_blend_ps(static_cast<__mmask16>(mask), b, a);
}
#endif

template <class R, int LANES>
MANSARD_INLINE Mask<R, LANES> greater(Vector<R, LANES> a, Vector<R, LANES> b) {
#if defined(__AVX512F__)
  if constexpr (bit_masks<R, LANES>) return compared_greater(a, b);
  else
#endif
    return {a > b};
}
template <class R, int LANES>
MANSARD_INLINE Mask<R, LANES> equal(Vector<R, LANES> a, Vector<R, LANES> b) {
#if defined(__AVX512F__)
  if constexpr (bit_masks<R, LANES>) return compared_equal(a, b);
  else
#endif
    return {a == b};
}
// a in lanes of the mask, b in the others.
template <class R, int LANES>
MANSARD_INLINE Vector<R, LANES> select(Mask<R, LANES> mask, Vector<R, LANES> a, Vector<R, LANES> b) {
#if defined(__AVX512F__)
  if constexpr (bit_masks<R, LANES>) return selected(mask.lanes, a, b);
  else
#endif
    return mask.lanes ? a : b;
}

// ---- vectors ----------------------------------------------------------------------------------------------

template <class R, int LANES>
MANSARD_INLINE Vector<R, LANES> all_lanes(R value) {
  return Vector<R, LANES>{} + value;
}
template <class R, int LANES>
MANSARD_INLINE Vector<R, LANES> larger_of(Vector<R, LANES> a, Vector<R, LANES> b) {
  return a > b ? a : b;
}
template <class R, int LANES>
MANSARD_INLINE Vector<R, LANES> smaller_of(Vector<R, LANES> a, Vector<R, LANES> b) {
  return a < b ? a : b;
}

// The bits of v, and back.
template <class R, int LANES>
MANSARD_INLINE Vector<IndexOf<R>, LANES> bits_of(Vector<R, LANES> v) {
  return reinterpret_cast<Vector<IndexOf<R>, LANES>>(v);
}
template <class R, int LANES>
MANSARD_INLINE Vector<R, LANES> from_bits(Vector<IndexOf<R>, LANES> bits) {
  return reinterpret_cast<Vector<R, LANES>>(bits);
}
template <class R>
constexpr IndexOf<R> sign_bit = std::numeric_limits<IndexOf<R>>::min();

template <class R, int LANES>
MANSARD_INLINE Vector<R, LANES> absolute(Vector<R, LANES> v) {
  return from_bits<R, LANES>(bits_of<R, LANES>(v) & ~sign_bit<R>);
}
// |a| with the sign of b.
template <class R, int LANES>
MANSARD_INLINE Vector<R, LANES> with_sign(Vector<R, LANES> a, Vector<R, LANES> b) {
  return from_bits<R, LANES>((bits_of<R, LANES>(a) & ~sign_bit<R>) | (bits_of<R, LANES>(b) & sign_bit<R>));
}

template <class R, int LANES>
MANSARD_INLINE Vector<R, LANES> square_root(Vector<R, LANES> v) {
#if defined(__AVX512F__)
  if constexpr (LANES * sizeof(R) == 64) {
    if constexpr (sizeof(R) == 8) return _mm512_sqrt_pd(v);
    else return _mm512_sqrt_ps(v);
  } else
#elif defined(__aarch64__)
  if constexpr (LANES * sizeof(R) == 16) {  // the library's would check each lane for negative numbers
    if constexpr (sizeof(R) == 8) return vsqrtq_f64(v);
    else return vsqrtq_f32(v);
  } else
#endif
  {
    MANSARD_UNROLL
    for (int lane = 0; lane < LANES; ++lane)
      v[lane] = sizeof(R) == 8 ? __builtin_sqrt(v[lane]) : __builtin_sqrtf(v[lane]);
    return v;
  }
}

// A power of two that scales v to about one; multiplication by it, and by its reciprocal, is exact.
template <class R, int LANES>
MANSARD_INLINE Vector<R, LANES> unit_scale(Vector<R, LANES> v) {
  using I = IndexOf<R>;
  constexpr int MANTISSA = std::numeric_limits<R>::digits - 1;
  constexpr I LARGEST = 2 * (std::numeric_limits<R>::max_exponent - 1);  // exponent field of the largest numbers
  const Vector<I, LANES> field = (bits_of<R, LANES>(v) & ~sign_bit<R>) >> MANTISSA;
  Vector<I, LANES> turned = LARGEST - field;
  turned = turned < 1 ? Vector<I, LANES>{} + 1 : turned;
  turned = turned > LARGEST - 1 ? Vector<I, LANES>{} + (LARGEST - 1) : turned;
  return from_bits<R, LANES>(turned << MANTISSA);
}

// Gather: lane l gets base[at[l]].
template <class R, int LANES>
MANSARD_INLINE Vector<R, LANES> gathered(const R* base, Vector<IndexOf<R>, LANES> at) {
#if defined(__AVX512F__)
  if constexpr (sizeof(R) == 8 && LANES == 8) return _mm512_i64gather_pd(reinterpret_cast<__m512i>(at), base, 8);
  else if constexpr (sizeof(R) == 4 && LANES == 16)
    return _mm512_i32gather_ps(reinterpret_cast<__m512i>(at), base, 4);
  else
#endif
#if defined(__AVX2__)
      if constexpr (sizeof(R) == 8 && LANES == 4)
    return _mm256_i64gather_pd(base, reinterpret_cast<__m256i>(at), 8);
  else if constexpr (sizeof(R) == 4 && LANES == 8)
    return _mm256_i32gather_ps(base, reinterpret_cast<__m256i>(at), 4);
  else
#endif
  {
    Vector<R, LANES> v{};
    MANSARD_UNROLL
    for (int lane = 0; lane < LANES; ++lane) v[lane] = base[at[lane]];
    return v;
  }
}

// ---- numbers ----------------------------------------------------------------------------------------------

// One number per lane. Complex numbers are two vectors, so that lanes need not exchange values.
template <class T, int LANES>
struct Number {
  using R = typename Scalar<T>::Real;
  using V = Vector<R, LANES>;
  static constexpr int WORDS = Scalar<T>::WORDS, REALS = WORDS * LANES;
  static constexpr bool COMPLEX = WORDS == 2;
  V re;

  static MANSARD_INLINE Number at(const R* p) { return {load<LANES>(p)}; }
  static MANSARD_INLINE Number gathered_at(const R* p, Vector<IndexOf<R>, LANES> at) {
    return {gathered<R, LANES>(p, at)};
  }
  static MANSARD_INLINE Number real(V v) { return {v}; }
  MANSARD_INLINE void to(R* p) const { store<LANES>(p, re); }
  MANSARD_INLINE Number kept() const { return {in_register(re)}; }
  MANSARD_INLINE Number conjugate() const { return *this; }
  MANSARD_INLINE V imaginary() const { return V{}; }
  MANSARD_INLINE V magnitude() const { return absolute<R, LANES>(re); }  // as pivots are compared
  MANSARD_INLINE V square() const { return re * re; }
  MANSARD_INLINE void add_square_to(V& sum) const { add_product(sum, re, re); }
  MANSARD_INLINE void subtract(Number a, Number b) { subtract_product(re, a.re, b.re); }
  MANSARD_INLINE void add(Number a, Number b) { add_product(re, a.re, b.re); }
  MANSARD_INLINE friend Number operator*(Number a, Number b) { return {a.re * b.re}; }
  MANSARD_INLINE friend Number operator*(Number a, V b) { return {a.re * b}; }
  MANSARD_INLINE friend Number operator+(Number a, Number b) { return {a.re + b.re}; }
  MANSARD_INLINE friend Number operator-(Number a, Number b) { return {a.re - b.re}; }
  MANSARD_INLINE friend Number operator/(Number a, Number b) { return {a.re / b.re}; }
};

template <class Real, int LANES>
struct Number<Complex<Real>, LANES> {
  using R = Real;
  using V = Vector<R, LANES>;
  static constexpr int WORDS = 2, REALS = WORDS * LANES;
  static constexpr bool COMPLEX = true;
  V re, im;

  static MANSARD_INLINE Number at(const R* p) { return {load<LANES>(p), load<LANES>(p + LANES)}; }
  static MANSARD_INLINE Number gathered_at(const R* p, Vector<IndexOf<R>, LANES> at) {
    return {gathered<R, LANES>(p, at), gathered<R, LANES>(p + LANES, at)};
  }
  static MANSARD_INLINE Number real(V v) { return {v, V{}}; }
  MANSARD_INLINE void to(R* p) const { store<LANES>(p, re), store<LANES>(p + LANES, im); }
  MANSARD_INLINE Number kept() const { return {in_register(re), in_register(im)}; }
  MANSARD_INLINE Number conjugate() const { return {re, -im}; }
  MANSARD_INLINE V imaginary() const { return im; }
  MANSARD_INLINE V magnitude() const { return absolute<R, LANES>(re) + absolute<R, LANES>(im); }
  MANSARD_INLINE V square() const { return plus_product(re * re, im, im); }
  MANSARD_INLINE void add_square_to(V& sum) const { add_product(sum, re, re), add_product(sum, im, im); }
  MANSARD_INLINE void subtract(Number a, Number b) {
    subtract_product(re, a.re, b.re), subtract_product(im, a.re, b.im);
    add_product(re, a.im, b.im), subtract_product(im, a.im, b.re);
  }
  MANSARD_INLINE void add(Number a, Number b) {
    add_product(re, a.re, b.re), add_product(im, a.re, b.im);
    subtract_product(re, a.im, b.im), add_product(im, a.im, b.re);
  }
  MANSARD_INLINE friend Number operator*(Number a, Number b) {
    return {minus_product(a.re * b.re, a.im, b.im), plus_product(a.re * b.im, a.im, b.re)};
  }
  MANSARD_INLINE friend Number operator*(Number a, V b) { return {a.re * b, a.im * b}; }
  MANSARD_INLINE friend Number operator+(Number a, Number b) { return {a.re + b.re, a.im + b.im}; }
  MANSARD_INLINE friend Number operator-(Number a, Number b) { return {a.re - b.re, a.im - b.im}; }
  // Division: the divisor is scaled to about one, then Smith's method divides by its larger part. Nothing overflows or
  // underflows unless the quotient does.
  MANSARD_INLINE friend Number operator/(Number a, Number b) {
    const V scale = unit_scale<R, LANES>(larger_of<R, LANES>(absolute<R, LANES>(b.re), absolute<R, LANES>(b.im)));
    b = b * scale, a = a * scale;
    const auto turned = greater<R, LANES>(absolute<R, LANES>(b.im), absolute<R, LANES>(b.re));
    const V big = select<R, LANES>(turned, b.im, b.re), small = select<R, LANES>(turned, -b.re, b.im);
    const V re = select<R, LANES>(turned, a.im, a.re), im = select<R, LANES>(turned, -a.re, a.im);
    const V ratio = small / big, below = plus_product(big, small, ratio);
    return {plus_product(re, im, ratio) / below, minus_product(im, re, ratio) / below};
  }
};

// `select` for numbers.
template <class Entry, class Mask>
MANSARD_INLINE Entry pick(Mask mask, Entry a, Entry b) {
  constexpr int LANES = Entry::REALS / Entry::WORDS;
  Entry result = b;
  result.re = select<typename Entry::R, LANES>(mask, a.re, b.re);
  if constexpr (Entry::COMPLEX) result.im = select<typename Entry::R, LANES>(mask, a.im, b.im);
  return result;
}

}  // namespace mansard
