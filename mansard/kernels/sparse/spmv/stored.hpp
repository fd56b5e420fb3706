// A sparse matrix as the CPU kernels see it: chunks of rows, entries of a row, and the result of a row from its sum.
#pragma once
#include <cstring>
#include "mansard/cpu/lanes.hpp"
#include "mansard/cpu/parts.hpp"

namespace mansard {

enum class Format { sell, ell, csr };
enum class Index { int32, int64, delta16 };

template <Index INDEX>
using StoredColumn = std::conditional_t<INDEX == Index::int64, i64,
                                        std::conditional_t<INDEX == Index::int32, int, unsigned short>>;

// Load COUNT adjacent columns in words of 8 bytes. Without gather instructions, loads are the bottleneck (two per clock
// on a Neoverse N1, where each entry would otherwise need three).
template <int COUNT, class Column>
struct Columns {
  static constexpr int BYTES = COUNT * int(sizeof(Column)), WORD = BYTES % 8 == 0 ? 8 : BYTES;
  static constexpr bool BY_WORD =
      sizeof(Column) < 8 && (WORD == 8 || WORD == 4) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
  using Word = std::conditional_t<BY_WORD && WORD == 8, unsigned long long, unsigned>;
  i64 at[COUNT];

  MANSARD_INLINE explicit Columns(const Column* from) {
    if constexpr (BY_WORD) {
      constexpr int EACH = int(sizeof(Word) / sizeof(Column)), BITS = 8 * int(sizeof(Column));
      MANSARD_UNROLL
      for (int i = 0; i < COUNT; i += EACH) {
        Word word;
        std::memcpy(&word, from + i, sizeof(Word));
        MANSARD_UNROLL
        for (int e = 0; e < EACH; ++e)
          at[i + e] = static_cast<std::make_unsigned_t<Column>>(word >> (e * BITS));  // no column is negative
      }
    } else {
      MANSARD_UNROLL
      for (int i = 0; i < COUNT; ++i) at[i] = static_cast<i64>(from[i]);
    }
  }
};

// A chunk: entry j of row r is at j * step + r. For a single row, step is the distance between its entries.
template <class P>
struct Stored {
  using V = typename P::V;
  using Column = StoredColumn<P::INDEX>;
  const V* values;
  const Column* columns;
  const int* bases;  // delta16
  i64 step;
  int width;
  int common;  // entries that every row has

  MANSARD_INLINE i64 base(int j) const {
    if constexpr (P::INDEX == Index::delta16) return bases[j];
    else return 0;
  }
};

// Chunk c of C rows.
template <class P, class Arguments>
MANSARD_INLINE Stored<P> chunk_of(const Arguments& a, i64 c) {
  using V = typename P::V;
  using Column = StoredColumn<P::INDEX>;
  if constexpr (P::FORMAT == Format::sell) {
    const unsigned char* base = a.MATRIX + static_cast<i64>(a.STARTS[c]) * 128;
    const int width = a.WIDTHS[c];
    const i64 bases = round_up(static_cast<i64>(width) * P::C * static_cast<i64>(sizeof(V)), i64{16});
    const i64 columns = bases + (P::INDEX == Index::delta16 ? round_up(4 * width, 16) : 0);
    return {reinterpret_cast<const V*>(base), reinterpret_cast<const Column*>(base + columns),
            reinterpret_cast<const int*>(base + bases), P::C, width, P::RAGGED ? a.COMMON[c] : width};
  } else {
    const int width = static_cast<int>(a.width);
    return {a.MATRIX + c * P::C, a.COLUMNS + c * P::C, nullptr, a.pitch, width, P::RAGGED ? 0 : width};
  }
}

// Number of threads of the parallel region, which may be fewer than were asked for.
inline int thread_count() {
#ifdef _OPENMP
  return omp_get_num_threads();
#else
  return 1;
#endif
}

// First item of piece `t` of `pieces` of [0, count), balanced by work; before(i) is the work before item i.
template <class Before>
inline i64 begin_of(i64 t, i64 pieces, i64 count, Before before) {
  if (t >= pieces) return count;
  const i64 wanted = static_cast<i64>(static_cast<double>(before(count)) * static_cast<double>(t) /
                                      static_cast<double>(pieces));
  i64 low = 0, high = count;
  while (low < high) {
    const i64 middle = (low + high) / 2;
    if (before(middle) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

// ---- results ------------------------------------------------------------------------------------------------

// i times a vector of complex numbers (re, im, re, im, ...).
template <class R, int LANES, int... L>
MANSARD_INLINE Lanes<R, LANES> turned(Lanes<R, LANES> v, std::integer_sequence<int, L...>) {
  const Vector<R, LANES> signs = {(L % 2 ? R(1) : R(-1))...};
  return exchange<1, R, LANES>(v) * signs;
}
// sum += (re + i im) * x; zero factors are not multiplied, so that infinities of x do not become NaNs.
template <int WORDS, int LANES, class R>
MANSARD_INLINE void add_scaled(Lanes<R, LANES>& sum, double re, double im, Lanes<R, LANES> x) {
  if (re != 0) add_product(sum, static_cast<R>(re), x);
  if constexpr (WORDS == 2)
    if (im != 0)
      add_product(sum, static_cast<R>(im), turned<R, LANES>(x, std::make_integer_sequence<int, LANES>()));
}

// COUNT reals of a row's results from `at` on: alpha sum + beta y, or alpha sum + beta x + gamma z.
template <class P, int LANES, int COUNT, class Arguments, class R>
MANSARD_INLINE void put(const Arguments& a, Lanes<R, LANES> sum, const R* x, R* y, const R* z) {
  constexpr int WORDS = Scalar<typename P::T>::WORDS;
  Lanes<R, LANES> result = static_cast<R>(a.alpha_re) * sum;
  if constexpr (WORDS == 2)
    if (a.alpha_im != 0) add_scaled<2, LANES, R>(result, 0, a.alpha_im, sum);
  if constexpr (P::RECURRENCE) {
    if (a.beta_re != 0 || a.beta_im != 0)
      add_scaled<WORDS, LANES, R>(result, a.beta_re, a.beta_im, load_part<LANES, COUNT>(x));
    if (a.gamma_re != 0 || a.gamma_im != 0)
      add_scaled<WORDS, LANES, R>(result, a.gamma_re, a.gamma_im, load_part<LANES, COUNT>(z));
  } else if constexpr (P::ACCUMULATE) {
    add_scaled<WORDS, LANES, R>(result, a.beta_re, a.beta_im, load_part<LANES, COUNT>(y));
  }
  store_part<LANES, COUNT>(y, result);
}

}  // namespace mansard
