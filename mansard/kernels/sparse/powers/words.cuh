// Elements of vectors, word by word: the reserved word of elements that are not written yet, loads that wait for it to
// change, and arithmetic with explicit fma, so that every kernel rounds alike.
#pragma once
#include "mansard/gpu/complex.cuh"
#include "mansard/gpu/relaxed.cuh"

namespace mansard {

enum class Load { constant, stale, relaxed };  // not written during the launch; through L1, to be checked; past L1

// --- The reserved word -------------------------------------------------------------------------------------

template <class R>
struct Reserved {
  using Bits = u64;
  static constexpr Bits WORD = 0x7ff4dead5eed1234ull, INSTEAD = 0x7ffcdead5eed1234ull;
};
template <>
struct Reserved<float> {
  using Bits = u32;
  static constexpr Bits WORD = 0x7fa5eed1u, INSTEAD = 0x7fe5eed1u;
};

template <class R>
MANSARD_DEVICE typename Reserved<R>::Bits bits_of(R value) {
  typename Reserved<R>::Bits bits;
  memcpy(&bits, &value, sizeof(R));
  return bits;
}
template <class R>
MANSARD_DEVICE R reserved() {
  const typename Reserved<R>::Bits bits = Reserved<R>::WORD;
  R value;
  memcpy(&value, &bits, sizeof(R));
  return value;
}
template <class R>
MANSARD_DEVICE bool is_reserved(R value) {
  return bits_of(value) == Reserved<R>::WORD;
}
// `value`, with another NaN in place of the reserved one.
template <class R>
MANSARD_DEVICE R publishable(R value) {
  const typename Reserved<R>::Bits bits = is_reserved(value) ? Reserved<R>::INSTEAD : bits_of(value);
  memcpy(&value, &bits, sizeof(R));
  return value;
}

// --- Elements, word by word --------------------------------------------------------------------------------

template <class T, class Change>
MANSARD_DEVICE void each_word(T& element, Change change) {
  if constexpr (Scalar<T>::COMPLEX) {
    change(element.re, 0);
    change(element.im, 1);
  } else {
    change(element, 0);
  }
}

template <Load HOW, class T>
MANSARD_DEVICE T load_element(const T* at) {
  using R = typename Scalar<T>::Real;
  T element;
  const R* words = reinterpret_cast<const R*>(at);
  each_word(element, [&](R& word, int i) {
    if constexpr (HOW == Load::constant) word = __ldg(words + i);
    else if constexpr (HOW == Load::stale) word = load_stale(words + i);
    else word = load_relaxed(words + i);
  });
  return element;
}

// Load an element; sets `missing` if one of its words is not written yet.
template <class T>
MANSARD_DEVICE T load_checked(const T* at, bool& missing) {
  T element = load_element<Load::relaxed>(at);
  each_word(element, [&](auto& word, int) { missing |= is_reserved(word); });
  return element;
}

// Load an element, waiting for every word while patience.more() allows it.
template <class T, class Patience>
MANSARD_DEVICE T load_settled(const T* at, Patience& patience) {
  using R = typename Scalar<T>::Real;
  T element;
  const R* words = reinterpret_cast<const R*>(at);
  each_word(element, [&](R& word, int i) {
    word = load_relaxed(words + i);
    while (is_reserved(word) && patience.more()) word = load_relaxed(words + i);
  });
  return element;
}

template <class T>
MANSARD_DEVICE void store_published(T* at, T element) {
  using R = typename Scalar<T>::Real;
  R* words = reinterpret_cast<R*>(at);
  each_word(element, [&](R& word, int i) { store_relaxed(words + i, publishable(word)); });
}

template <class T>
MANSARD_DEVICE bool has_nan(T element) {
  bool found = false;
  each_word(element, [&](auto& word, int) { found |= word != word; });
  return found;
}

// --- Arithmetic --------------------------------------------------------------------------------------------

template <class R>
MANSARD_DEVICE R product(R c, R x) {
  return c * x;
}
template <class R>
MANSARD_DEVICE Complex<R> product(Complex<R> c, Complex<R> x) {
  if (c.im == R(0)) return {c.re * x.re, c.re * x.im};  // infinities do not become NaNs
  return {fma(-c.im, x.im, c.re * x.re), fma(c.im, x.re, c.re * x.im)};
}
template <class R>
MANSARD_DEVICE bool is_zero(R c) {
  return c == R(0);
}
template <class R>
MANSARD_DEVICE bool is_zero(Complex<R> c) {
  return c.re == R(0) && c.im == R(0);
}
// sum += c x; unchanged if c is zero, whatever x is.
template <class R>
MANSARD_DEVICE void add_scaled(R& sum, R c, R x) {
  if (!is_zero(c)) sum = fma(c, x, sum);
}
template <class R>
MANSARD_DEVICE void add_scaled(Complex<R>& sum, Complex<R> c, Complex<R> x) {
  if (is_zero(c)) return;
  sum = {fma(c.re, x.re, sum.re), fma(c.re, x.im, sum.im)};
  if (c.im != R(0)) sum = {fma(-c.im, x.im, sum.re), fma(c.im, x.re, sum.im)};
}
// sum += value x, fused as in mansard/gpu/sparse.cuh, so that the bits are those of its products
template <class T, class V>
MANSARD_DEVICE void add_entry(T& sum, V value, T x) {
  using R = typename Scalar<T>::Real;
  if constexpr (!Scalar<T>::COMPLEX) {
    sum = fma(static_cast<R>(value), x, sum);
  } else if constexpr (!Scalar<V>::COMPLEX) {
    sum = {fma(static_cast<R>(value), x.re, sum.re), fma(static_cast<R>(value), x.im, sum.im)};
  } else {
    const R re = static_cast<R>(value.re), im = static_cast<R>(value.im);
    sum = {fma(re, x.re, sum.re), fma(re, x.im, sum.im)};
    sum = {fma(-im, x.im, sum.re), fma(im, x.re, sum.im)};
  }
}

}  // namespace mansard
