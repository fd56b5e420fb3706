// Shared by kernels over sparse matrices: loads of entries, sums of a row, and the result of a row.
//
// Kernels that use these functions and add a row's entries from first to last agree bit for bit.
#pragma once
#include "mansard/gpu/complex.cuh"

namespace mansard {

enum class Format { sell, ell, csr };
enum class Index { int32, int64, delta16 };
// Cache hints of matrix loads: none; streaming (evict first); no allocation in L1.
enum class Cache { normal, streaming, once };

// N elements that are loaded and stored at once.
template <class T, int N>
struct alignas(N * sizeof(T)) Together {
  T e[N];
};

template <Index INDEX>
struct ColumnOf {
  using Type = int;  // type in memory
  using Full = int;  // type of a complete column index
};
template <>
struct ColumnOf<Index::int64> {
  using Type = i64;
  using Full = i64;
};
template <>
struct ColumnOf<Index::delta16> {
  using Type = unsigned short;
  using Full = int;
};

// Byte offsets of the parts of a SELL-C-sigma chunk: its bases (delta16) and its columns.
template <class V, Index INDEX, int C>
struct Parts {
  static MANSARD_DEVICE i64 bases(int width) { return ceil_div(static_cast<i64>(width) * C * sizeof(V), 16) * 16; }
  static MANSARD_DEVICE i64 columns(int width) {
    return bases(width) + (INDEX == Index::delta16 ? ceil_div(width * 4, 16) * 16 : 0);
  }
};

// ---- loads --------------------------------------------------------------------------------------------------

template <int BYTES>
struct WordOf;
template <>
struct WordOf<2> {
  using Type = unsigned short;
};
template <>
struct WordOf<4> {
  using Type = u32;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};
template <>
struct WordOf<16> {
  using Type = uint4;
};

#if defined(MANSARD_EMULATED)
template <class W>
inline W load_once(const W* p) {
  return *p;
}
#else
MANSARD_DEVICE unsigned short load_once(const unsigned short* p) {
  unsigned short v;
  asm("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=h"(v) : "l"(p));
  return v;
}
MANSARD_DEVICE u32 load_once(const u32* p) {
  u32 v;
  asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
MANSARD_DEVICE uint2 load_once(const uint2* p) {
  uint2 v;
  asm("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
  return v;
}
MANSARD_DEVICE uint4 load_once(const uint4* p) {
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(p));
  return v;
}
#endif

// Load one element of 2 to 16 bytes with one instruction; it must be aligned to its size.
template <Cache CACHE, class V>
MANSARD_DEVICE V load_entry(const V* p) {
  using Word = typename WordOf<int(sizeof(V))>::Type;
  const Word* at = reinterpret_cast<const Word*>(p);
  Word word;
  if constexpr (CACHE == Cache::streaming) word = __ldcs(at);
  else if constexpr (CACHE == Cache::once) word = load_once(at);
  else word = __ldg(at);
  V value;
  memcpy(&value, &word, sizeof(V));
  return value;
}

// ---- sums ---------------------------------------------------------------------------------------------------

// sum += value * x, with the conjugate of the value if CONJ. Values may be narrower than x, and real where it is
// complex.
template <bool CONJ, class V>
MANSARD_DEVICE void add_entry(float& sum, V value, float x) {
  sum = fmaf(static_cast<float>(value), x, sum);
}
template <bool CONJ, class V>
MANSARD_DEVICE void add_entry(double& sum, V value, double x) {
  sum = fma(static_cast<double>(value), x, sum);
}
template <bool CONJ, class V, class R>
MANSARD_DEVICE void add_entry(Complex<R>& sum, V value, Complex<R> x) {
  add_entry<false>(sum.re, value, x.re);
  add_entry<false>(sum.im, value, x.im);
}
template <bool CONJ, class Q, class R>
MANSARD_DEVICE void add_entry(Complex<R>& sum, Complex<Q> value, Complex<R> x) {
  const Q im = CONJ ? -value.im : value.im;
  add_entry<false>(sum.re, value.re, x.re);
  add_entry<false>(sum.im, value.re, x.im);
  add_entry<false>(sum.re, -im, x.im);
  add_entry<false>(sum.im, im, x.re);
}

// sum += (re + i im) * x; zero factors are not multiplied, so that infinities of x do not become NaNs.
template <class R>
MANSARD_DEVICE void add_scaled(R& sum, double re, double, R x) {
  if (re != 0.0) add_entry<false>(sum, static_cast<R>(re), x);
}
template <class R>
MANSARD_DEVICE void add_scaled(Complex<R>& sum, double re, double im, Complex<R> x) {
  add_scaled(sum.re, re, 0.0, x.re);
  add_scaled(sum.im, re, 0.0, x.im);
  add_scaled(sum.re, -im, 0.0, x.im);
  add_scaled(sum.im, im, 0.0, x.re);
}

// The result of a row: alpha sum + beta y, or (RECURRENCE) alpha sum + beta x + gamma z with the row's own entries of x
// and z; z is not read where gamma is zero.
template <bool ACCUMULATE, bool RECURRENCE, class T, class Arguments>
MANSARD_DEVICE T row_result(const Arguments& a, T sum, const T* x, const T* y, const T* z) {
  T result = scaled<T>(sum, a.alpha_re, a.alpha_im, 0.0, 0.0, static_cast<const T*>(nullptr));
  if constexpr (RECURRENCE) {
    if (a.beta_re != 0.0 || a.beta_im != 0.0) add_scaled(result, a.beta_re, a.beta_im, *x);
    if (a.gamma_re != 0.0 || a.gamma_im != 0.0) add_scaled(result, a.gamma_re, a.gamma_im, *z);
  } else if constexpr (ACCUMULATE) {
    add_scaled(result, a.beta_re, a.beta_im, *y);
  }
  return result;
}

// Value of v in another lane: `lane` is its index, or (xor) the bits in which it differs.
template <class T>
MANSARD_DEVICE T from_lane(T v, int lane) {
  return __shfl_sync(~0u, v, lane);
}
template <class R>
MANSARD_DEVICE Complex<R> from_lane(Complex<R> v, int lane) {
  return {__shfl_sync(~0u, v.re, lane), __shfl_sync(~0u, v.im, lane)};
}
template <class T>
MANSARD_DEVICE T from_across(T v, int bits) {
  return __shfl_xor_sync(~0u, v, bits);
}
template <class R>
MANSARD_DEVICE Complex<R> from_across(Complex<R> v, int bits) {
  return {__shfl_xor_sync(~0u, v.re, bits), __shfl_xor_sync(~0u, v.im, bits)};
}
// Sum over the lanes that differ in the bits FIRST, 2 FIRST, ... below END, in all of them.
template <int FIRST, int END, class T>
MANSARD_DEVICE T sum_across(T sum) {
  MANSARD_UNROLL
  for (int bit = END / 2; bit >= FIRST; bit /= 2) add_to(sum, from_across(sum, bit));
  return sum;
}

}  // namespace mansard
