// Basics of CPU kernels: scalars, SIMD vectors by GCC's vector extensions, pieces of a range.
//
// Compiles with g++ and clang++ for any target; the widest vector is chosen from the target's macros.
#pragma once
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>
#ifdef _OPENMP
#include <omp.h>
#endif

// Full unrolling: arrays become registers only if every index is a constant.
#if defined(__clang__)
#define MANSARD_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MANSARD_UNROLL _Pragma("GCC unroll 128")
#endif
// Partial unrolling, where vectors are so short that loop overhead counts.
#if defined(__aarch64__) && defined(__clang__)
#define MANSARD_UNROLL_SHORT _Pragma("clang loop unroll_count(4)")
#elif defined(__aarch64__)
#define MANSARD_UNROLL_SHORT _Pragma("GCC unroll 4")
#else
#define MANSARD_UNROLL_SHORT
#endif
#define MANSARD_INLINE inline __attribute__((always_inline))
// A function whose instructions are already in a good order. GCC for ARM schedules them before register allocation, by
// latencies that the hardware hides anyway, and then runs out of registers; on x86 it omits that pass.
#if defined(__aarch64__) && !defined(__clang__)
#define MANSARD_AS_WRITTEN __attribute__((optimize("no-schedule-insns")))
#else
#define MANSARD_AS_WRITTEN
#endif

namespace mansard {

using u32 = unsigned int;
using i64 = long long;

template <int VALUE>
using Int = std::integral_constant<int, VALUE>;

// ---- scalars: a complex number is two reals ---------------------------------------------------------------

#ifndef MANSARD_SCALARS
#define MANSARD_SCALARS
template <class R>
struct Complex {  // NumPy's layout
  R re, im;
};

template <class T>
struct Scalar {
  using Real = T;
  static constexpr int WORDS = 1;  // real numbers per element
};
template <class R>
struct Scalar<Complex<R>> {
  using Real = R;
  static constexpr int WORDS = 2;
};
#endif

// (re + i im) * x; a zero imaginary part is not multiplied, so that infinities do not become NaNs.
template <class R>
constexpr R times(double re, double, R x) {
  return static_cast<R>(re) * x;
}
template <class R>
constexpr Complex<R> times(double re, double im, Complex<R> x) {
  const R r = static_cast<R>(re), i = static_cast<R>(im);
  if (im == 0) return {r * x.re, r * x.im};
  return {r * x.re - i * x.im, r * x.im + i * x.re};
}
template <class R>
constexpr Complex<R> operator+(Complex<R> a, Complex<R> b) {
  return {a.re + b.re, a.im + b.im};
}

// ---- vectors ----------------------------------------------------------------------------------------------

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64;
#elif defined(__AVX__)
constexpr int VECTOR_BYTES = 32;
#else
constexpr int VECTOR_BYTES = 16;
#endif
constexpr int CACHE_LINE = 64;

template <class R>
constexpr int native_lanes = VECTOR_BYTES / static_cast<int>(sizeof(R));

// Two types: one to compute with; one for memory, which may alias anything and need not be aligned.
template <class R, int LANES>
struct VectorOf {
  typedef R Type __attribute__((vector_size(LANES * sizeof(R))));
  typedef R Memory __attribute__((vector_size(LANES * sizeof(R)), aligned(alignof(R)), may_alias));
};
template <class R, int LANES>
using Vector = typename VectorOf<R, LANES>::Type;

template <int LANES, class R>
MANSARD_INLINE Vector<R, LANES> load(const R* p) {
  return *reinterpret_cast<const typename VectorOf<R, LANES>::Memory*>(p);
}
template <int LANES, class R>
MANSARD_INLINE void store(R* p, Vector<R, LANES> v) {
  *reinterpret_cast<typename VectorOf<R, LANES>::Memory*>(p) = v;
}

// Keeps a vector that is used several times in a register. Compilers otherwise repeat the load as an operand of every
// use, and the two loads per cycle become the limit instead of the two fmas.
template <class V>
MANSARD_INLINE V in_register(V v) {
#if defined(__x86_64__)
  if constexpr (sizeof(V) <= VECTOR_BYTES && sizeof(V) >= 16) asm("" : "+v"(v));
#endif
  return v;
}

// Makes a vector opaque to the compiler, which would otherwise move a negation to where it costs more.
template <class V>
MANSARD_INLINE V as_found(V v) {
#if defined(__aarch64__)
  if constexpr (sizeof(V) <= VECTOR_BYTES && sizeof(V) >= 8) asm("" : "+w"(v));
#endif
  return v;
}

// Lanes chosen from the concatenation of a and b.
template <class R, int LANES, int... FROM>
MANSARD_INLINE Vector<R, LANES> choose(Vector<R, LANES> a, Vector<R, LANES> b,
                                       std::integer_sequence<int, FROM...>) {
#if defined(__clang__)
  return __builtin_shufflevector(a, b, FROM...);
#else
  using Index = std::conditional_t<sizeof(R) == 8, long long, int>;
  return __builtin_shuffle(a, b, Vector<Index, LANES>{FROM...});
#endif
}

// Lane l of the result is lane l XOR DISTANCE of v: DISTANCE = 1 exchanges real and imaginary parts.
template <int DISTANCE, class R, int LANES, int... L>
MANSARD_INLINE Vector<R, LANES> exchange(Vector<R, LANES> v, std::integer_sequence<int, L...>) {
  return choose<R, LANES>(v, v, std::integer_sequence<int, (L ^ DISTANCE)...>());
}
template <int DISTANCE, class R, int LANES>
MANSARD_INLINE Vector<R, LANES> exchange(Vector<R, LANES> v) {
  return exchange<DISTANCE, R, LANES>(v, std::make_integer_sequence<int, LANES>());
}

// Lane l of the result is the sum of the lanes l, l + PERIOD, l + 2 PERIOD, ... modulo the width, as a tree.
template <int PERIOD, class R, int LANES, int DISTANCE = LANES / 2>
MANSARD_INLINE Vector<R, LANES> sum_lanes(Vector<R, LANES> v) {
  if constexpr (DISTANCE < PERIOD) return v;
  else return sum_lanes<PERIOD, R, LANES, DISTANCE / 2>(v + exchange<DISTANCE, R, LANES>(v));
}

// Exchange blocks of DISTANCE lanes: those of a with bit DISTANCE set for those of b without it.
template <int DISTANCE, class R, int LANES, int... L>
MANSARD_INLINE void exchange_blocks(Vector<R, LANES>& a, Vector<R, LANES>& b,
                                    std::integer_sequence<int, L...>) {
  const Vector<R, LANES> old = a;
  a = choose<R, LANES>(old, b, std::integer_sequence<int, (L & DISTANCE ? LANES + L - DISTANCE : L)...>());
  b = choose<R, LANES>(old, b, std::integer_sequence<int, (L & DISTANCE ? LANES + L : L + DISTANCE)...>());
}

// Transpose a square of entries of WORDS reals, in log2 steps.
template <int WORDS, class R, int LANES, int DISTANCE = LANES / 2>
MANSARD_INLINE void transpose(Vector<R, LANES> (&rows)[LANES / WORDS]) {
  if constexpr (DISTANCE >= WORDS) {
    constexpr int APART = DISTANCE / WORDS;
    MANSARD_UNROLL
    for (int i = 0; i < LANES / WORDS; ++i)
      if (!(i & APART))
        exchange_blocks<DISTANCE, R, LANES>(rows[i], rows[i + APART],
                                            std::make_integer_sequence<int, LANES>());
    transpose<WORDS, R, LANES, DISTANCE / 2>(rows);
  }
}

// Prefetch a line to cache LEVEL, 1 or 2. A prefetch never faults, so p may lie beyond the end.
template <int LEVEL>
MANSARD_INLINE void prefetch(const void* p) {
  __builtin_prefetch(p, 0, LEVEL == 1 ? 3 : 2);
}

// Prefetches a matrix in the order of its memory, PACE reals at a time.
template <int LEVEL, int PACE, class R>
struct Walk {
  static constexpr int LINE = CACHE_LINE / static_cast<int>(sizeof(R));
  const R* run;          // consecutive reals: a row, or a piece of a column
  i64 length, distance;  // reals of a run, and from one run to the next
  i64 position = 0;

  MANSARD_INLINE void advance() {
    if constexpr (LEVEL > 0) {
      for (int line = 0; line < PACE; line += LINE) prefetch<LEVEL>(run + position + line);
      position += PACE;
      const i64 at_end = -static_cast<i64>(position >= length);  // a mask: a branch would be mispredicted
      run += at_end & distance;
      position -= at_end & length;
    }
  }
};

// ---- pieces of a range, copies ----------------------------------------------------------------------------

template <class I>
constexpr I ceil_div(I a, I b) {
  return (a + b - 1) / b;
}
template <class I>
constexpr I round_up(I a, I b) {
  return ceil_div(a, b) * b;
}
template <class I>
constexpr I smaller(I a, I b) {
  return a < b ? a : b;
}
template <class I>
constexpr I larger(I a, I b) {
  return a < b ? b : a;
}

// Splits [0, TOTAL) into the fewest pieces of at most LIMIT; their sizes differ by at most one.
template <int TOTAL, int LIMIT>
struct Pieces {
  static constexpr int COUNT = ceil_div(TOTAL, LIMIT);
  static constexpr int SIZE = TOTAL / COUNT;    // size of the last pieces
  static constexpr int LARGER = TOTAL % COUNT;  // number of first pieces that have one more

  static constexpr int begin(int piece) { return piece * SIZE + smaller(piece, LARGER); }

  // Calls visit(first, Int<size>): the size is a type, so that it can be the size of a register tile.
  template <class Visit>
  static MANSARD_INLINE void for_each(Visit visit) {
    if constexpr (LARGER > 0)
      for (int piece = 0; piece < LARGER; ++piece) visit(begin(piece), Int<SIZE + 1>());
    for (int piece = LARGER; piece < COUNT; ++piece) visit(begin(piece), Int<SIZE>());
  }
};

inline int thread_index() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

// Copy `lines` runs of `length` reals to runs of `padded` reals that end in zeros.
template <class R>
inline void copy_padded(R* to, i64 to_stride, const R* from, i64 from_stride, i64 lines, i64 length,
                        i64 padded) {
  for (i64 line = 0; line < lines; ++line, to += to_stride, from += from_stride) {
    std::memcpy(to, from, static_cast<std::size_t>(length) * sizeof(R));
    std::memset(to + length, 0, static_cast<std::size_t>(padded - length) * sizeof(R));
  }
}

// Transpose COLUMNS columns of entries of WORDS reals, `column` reals apart, into rows of PADDED reals. The padding
// holds copies of the last column. One square of columns after the other, since the hardware prefetches few streams at
// a time.
template <int LANES, int WORDS, int COLUMNS, int PADDED, class R>
inline void columns_to_rows(R* to, const R* from, i64 column, i64 rows) {
  constexpr int SQUARE = LANES / WORDS;
  const i64 whole = rows / SQUARE * SQUARE;
  for (int c = 0; c < COLUMNS; c += SQUARE) {
    const R* columns[SQUARE];
    for (int i = 0; i < SQUARE; ++i) columns[i] = from + smaller(c + i, COLUMNS - 1) * column;
    for (i64 k = 0; k < whole; k += SQUARE) {
      Vector<R, LANES> square[SQUARE];
      MANSARD_UNROLL
      for (int i = 0; i < SQUARE; ++i) square[i] = load<LANES>(columns[i] + k * WORDS);
      transpose<WORDS, R, LANES>(square);
      MANSARD_UNROLL
      for (int i = 0; i < SQUARE; ++i) store<LANES>(to + (k + i) * PADDED + c * WORDS, square[i]);
    }
    for (i64 k = whole; k < rows; ++k)
      for (int i = 0; i < LANES; ++i)
        to[k * PADDED + c * WORDS + i] = columns[i / WORDS][k * WORDS + i % WORDS];
  }
}

}  // namespace mansard
