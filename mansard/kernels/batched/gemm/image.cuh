// Groups of consecutive matrices of a stack: how they are copied between global and shared memory, and lie there.
//
// An image holds an operand in the layout of global memory: LINES lines (rows, or columns for column-major matrices) of
// LENGTH adjacent elements. In shared memory lines are PITCH and matrices MATRIX elements apart, so that reads avoid
// bank conflicts. FEED says how it is copied:
//
//   flat      a packed stack: a group is one run of bytes, moved 16 at a time wherever it begins. If it does not begin
//             on a 16-byte boundary, neither does its image (SHIFTED); other elements in its first and last 16 bytes
//             are not used
//   matrices  matrices without gaps inside, each on a 16-byte boundary
//   lines     lines on 16-byte boundaries
//   elements  anything else, one element at a time
#pragma once
#include "mansard/gpu/async.cuh"
#include "mansard/gpu/complex.cuh"

namespace mansard {

enum class Layout { row, col, any };
using LayoutA = Layout;
using LayoutB = Layout;
enum class Feed { flat, linear, matrices, lines, elements };  // linear: window.cuh
using FeedA = Feed;
using FeedB = Feed;
using FeedC = Feed;
enum class Out { direct, own, back };  // C leaves from registers; through a place of its own; through A's (and B's)

// N elements that are loaded and stored at once.
template <class T, int N>
struct alignas(N * sizeof(T)) Pack {
  T e[N];
};

// Store a pack with one instruction; 16 bytes with a streaming hint (evict first).
template <class T, int N>
MANSARD_DEVICE void store_pack(T* to, const Pack<T, N>& pack) {
  if constexpr (sizeof(pack) == 16) __stcs(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(&pack));
  else *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// Addresses of an operand's matrices: `base` is the first one's address, or that of an array of addresses.
template <class Pointer>
struct Place {
  Pointer base;
  i64 matrix, line, step;  // strides in elements: between matrices, between lines, inside a line
};
template <class T>
MANSARD_DEVICE T* matrix_at(T* base, i64 stride, i64 index) {
  return base + index * stride;
}
template <class T>
MANSARD_DEVICE T* matrix_at(T* const* base, i64, i64 index) {
  return base[index];
}

template <class Pointer>
MANSARD_DEVICE Place<Pointer> place_of(Pointer base, Layout layout, i64 matrix, i64 row, i64 column) {
  return layout == Layout::col ? Place<Pointer>{base, matrix, column, row} : Place<Pointer>{base, matrix, row, column};
}

// alpha and beta; beta is used only with ACCUMULATE, where C is read.
struct Scales {
  double alpha_re, alpha_im, beta_re, beta_im;
  template <class T>
  MANSARD_DEVICE T product(T sum) const {
    return scaled<T>(sum, alpha_re, alpha_im, 0.0, 0.0, static_cast<const T*>(nullptr));
  }
  template <class T>
  MANSARD_DEVICE T with_old(T product, T old) const {
    return scaled<T>(product, 1.0, 0.0, beta_re, beta_im, &old);
  }
};

template <class T_, int LINES_, int LENGTH_, int GROUP_, Feed FEED_, bool ALIGNED_, int PITCH_, int MATRIX_>
struct Image {
  using T = T_;
  static constexpr int LINES = LINES_, LENGTH = LENGTH_, GROUP = GROUP_, PITCH = PITCH_, MATRIX = MATRIX_;
  static constexpr Feed FEED = FEED_;
  static constexpr int VECTOR = 16 / int(sizeof(T)), SIZE = LINES * LENGTH;
  static constexpr bool SHIFTED = FEED == Feed::flat && (!ALIGNED_ || GROUP * SIZE % VECTOR != 0);
  static constexpr int LINE_PAD = PITCH - LENGTH, MATRIX_PAD = GROUP > 1 ? MATRIX - LINES * PITCH : 0;
  static constexpr int ELEMENTS = (GROUP - 1) * MATRIX + LINES * PITCH + (SHIFTED ? VECTOR : 0);
  static constexpr int BYTES = ceil_div(ELEMENTS, VECTOR) * 16;
  static constexpr int PIECES = ceil_div(GROUP * SIZE + (SHIFTED ? VECTOR - 1 : 0), VECTOR);  // per group
  // elements of a line that can be loaded at once: adjacent, and aligned to their common size
  static constexpr int BEGINS = !SHIFTED ? VECTOR : ALIGNED_ ? gcd(GROUP * SIZE, VECTOR) : 1;
  static constexpr int READ = gcd(gcd(LENGTH, PITCH), gcd(GROUP > 1 ? MATRIX : VECTOR, BEGINS));
  static_assert(LINE_PAD >= 0 && MATRIX_PAD >= 0, "lines or matrices overlap");
  static_assert(!SHIFTED || LINE_PAD == 0 && MATRIX_PAD == 0, "a run that begins anywhere has no padding");
  static constexpr bool WHOLE_LINES = PITCH % VECTOR == 0 && (LENGTH % VECTOR == 0 || FEED == Feed::lines);
  static constexpr bool WHOLE_MATRICES =
      (GROUP == 1 || MATRIX % VECTOR == 0) && (SIZE % VECTOR == 0 || FEED != Feed::flat);
  static_assert(FEED == Feed::elements || (LINE_PAD == 0 && FEED != Feed::lines || WHOLE_LINES) &&
                    (MATRIX_PAD == 0 && FEED == Feed::flat || WHOLE_MATRICES), "pieces of 16 bytes stay whole");

  // Offset in the image of element e of the group, in the order of global memory.
  static MANSARD_DEVICE int position(int e) {
    return e + (LINE_PAD == 0 ? 0 : e / LENGTH * LINE_PAD) + (MATRIX_PAD == 0 ? 0 : e / SIZE * MATRIX_PAD);
  }
  // Elements from the 16-byte boundary before `at` to `at`.
  static MANSARD_DEVICE int shift(const T* at) {
    return SHIFTED ? static_cast<int>(reinterpret_cast<u64>(at) % 16 / sizeof(T)) : 0;
  }
  // Address of the group's first element in the image.
  template <class Pointer>
  static MANSARD_DEVICE T* origin(T* memory, const Place<Pointer>& place, i64 first) {
    if constexpr (SHIFTED) return memory + shift(place.base + first * SIZE);
    else return memory;
  }

  // Calls step(i, j) for the share of thread `rank` of THREADS in i = 0 .. COUNT - 1, with i = rank + j.
  template <int COUNT, int THREADS, class Step>
  static MANSARD_DEVICE void deal(int rank, Step step) {
MANSARD_UNROLL_BY(16)
    for (int j = 0; j < COUNT; j += THREADS)
      if (j + THREADS <= COUNT || rank + j < COUNT) step(rank + j, j);
  }

  // Copy matrices first .. first + count - 1 of `batch`; asynchronous copies may still be in flight when it returns.
  template <int THREADS, class Pointer>
  static MANSARD_DEVICE void fill(T* memory, const Place<Pointer>& place, i64 first, int count, i64 batch, int rank) {
    if constexpr (FEED == Feed::flat) fill_flat<THREADS>(memory, place.base + first * SIZE, first, count, batch, rank);
    else if constexpr (FEED == Feed::elements) fill_elements<THREADS>(memory, place, first, count, rank);
    else fill_runs<THREADS>(memory, place, first, count, rank);
  }

  template <int THREADS>
  static MANSARD_DEVICE void fill_flat(T* memory, const T* from, i64 first, int count, i64 batch, int rank) {
    const int skip = shift(from);
    const bool whole = !SHIFTED || first * SIZE >= skip && (first + GROUP) * SIZE + VECTOR - 1 <= batch * SIZE;
    if (count == GROUP && whole) {
      const T* pieces = from - skip + rank * VECTOR;
      deal<PIECES, THREADS>(rank, [&](int i, int j) {
        if (!SHIFTED || i + 1 < PIECES || i * VECTOR < skip + GROUP * SIZE)
          cp_async16(memory + position(i * VECTOR), pieces + j * VECTOR);
      });
    } else {  // at the ends of the stack, where 16-byte pieces would reach beyond it
MANSARD_UNROLL_BY(1)
      for (int e = rank; e < count * SIZE; e += THREADS) memory[skip + position(e)] = from[e];
    }
  }

  template <int THREADS, class Pointer>
  static MANSARD_DEVICE void fill_runs(T* memory, const Place<Pointer>& place, i64 first, int count, int rank) {
    constexpr int RUN = FEED == Feed::lines ? LENGTH : SIZE, RUNS = GROUP * SIZE / RUN, OF_MATRIX = SIZE / RUN;
    constexpr int PIECES = RUN / VECTOR, REST = RUN % VECTOR;
    const auto run = [&](int r) {
      return matrix_at(place.base, place.matrix, first + r / OF_MATRIX) + r % OF_MATRIX * place.line;
    };
    if constexpr (PIECES > 0)
      deal<RUNS * PIECES, THREADS>(rank, [&](int i, int) {
        const int r = i / PIECES, e = i % PIECES * VECTOR;
        if (r / OF_MATRIX < count) cp_async16(memory + position(r * RUN + e), run(r) + e);
      });
    if constexpr (REST > 0)
      deal<RUNS * REST, THREADS>(rank, [&](int i, int) {
        const int r = i / REST, e = PIECES * VECTOR + i % REST;
        if (r / OF_MATRIX < count) memory[position(r * RUN + e)] = run(r)[e];
      });
  }

  template <int THREADS, class Pointer>
  static MANSARD_DEVICE void fill_elements(T* memory, const Place<Pointer>& place, i64 first, int count, int rank) {
    constexpr int AT_ONCE = sizeof(T) == 16 ? 2 : 4;
MANSARD_UNROLL_BY(1)
    for (int begin = rank; begin < count * SIZE; begin += AT_ONCE * THREADS) {
      T some[AT_ONCE];
      MANSARD_UNROLL
      for (int j = 0; j < AT_ONCE; ++j)
        if (begin + j * THREADS < count * SIZE) some[j] = *element(place, first, begin + j * THREADS);
      MANSARD_UNROLL
      for (int j = 0; j < AT_ONCE; ++j)
        if (begin + j * THREADS < count * SIZE) memory[position(begin + j * THREADS)] = some[j];
    }
  }
  template <class Pointer>
  static MANSARD_DEVICE auto element(const Place<Pointer>& place, i64 first, int e) {
    const i64 inside = e % SIZE / LENGTH * place.line + e % LENGTH * place.step;
    return matrix_at(place.base, place.matrix, first + e / SIZE) + inside;
  }

  // Store an image to global memory: `memory` holds products; with ACCUMULATE, beta times the old entries are added.
  template <int THREADS, bool ACCUMULATE, class Pointer>
  static MANSARD_DEVICE void store(const T* memory, const Place<Pointer>& place, i64 first, int count,
                                   const Scales& scales, int rank) {
    const auto one = [&](T* to, T product) {
      if constexpr (ACCUMULATE) product = scales.with_old(product, *to);
      *to = product;
    };
    const auto piece = [&](T* to, const T* from) {
      auto pack = *reinterpret_cast<const Pack<T, VECTOR>*>(from);
      if constexpr (ACCUMULATE) {
        const auto old = *reinterpret_cast<const Pack<T, VECTOR>*>(to);
        MANSARD_UNROLL
        for (int i = 0; i < VECTOR; ++i) pack.e[i] = scales.with_old(pack.e[i], old.e[i]);
      }
      store_pack(to, pack);
    };
    if constexpr (FEED == Feed::flat) {
      store_flat<THREADS>(memory, place.base + first * SIZE, count, rank, piece, one);
    } else if constexpr (FEED == Feed::elements) {
MANSARD_UNROLL_BY(4)
      for (int e = rank; e < count * SIZE; e += THREADS) one(element(place, first, e), memory[position(e)]);
    } else {
      store_runs<THREADS>(memory, place, first, count, rank, piece, one);
    }
  }

  template <int THREADS, class Piece, class One>
  static MANSARD_DEVICE void store_flat(const T* memory, T* to, int count, int rank, Piece piece, One one) {
    const int skip = shift(to), end = skip + count * SIZE;
    T* pieces = to - skip + rank * VECTOR;
    if (!SHIFTED && count == GROUP) {
      deal<PIECES, THREADS>(rank, [&](int i, int j) { piece(pieces + j * VECTOR, memory + position(i * VECTOR)); });
    } else {  // the first and the last 16 bytes may contain elements of other matrices
      deal<PIECES, THREADS>(rank, [&](int i, int j) {
        if (i * VECTOR >= skip && (i + 1) * VECTOR <= end) piece(pieces + j * VECTOR, memory + position(i * VECTOR));
        else
MANSARD_UNROLL_BY(1)
          for (int e = max(skip, i * VECTOR); e < min(end, (i + 1) * VECTOR); ++e)
            one(to - skip + e, memory[position(e)]);
      });
    }
  }

  template <int THREADS, class Pointer, class Piece, class One>
  static MANSARD_DEVICE void store_runs(const T* memory, const Place<Pointer>& place, i64 first, int count, int rank,
                                        Piece piece, One one) {
    constexpr int RUN = FEED == Feed::lines ? LENGTH : SIZE, RUNS = GROUP * SIZE / RUN, OF_MATRIX = SIZE / RUN;
    constexpr int PIECES = RUN / VECTOR, REST = RUN % VECTOR;
    const auto run = [&](int r) {
      return matrix_at(place.base, place.matrix, first + r / OF_MATRIX) + r % OF_MATRIX * place.line;
    };
    if constexpr (PIECES > 0)
      deal<RUNS * PIECES, THREADS>(rank, [&](int i, int) {
        const int r = i / PIECES, e = i % PIECES * VECTOR;
        if (r / OF_MATRIX < count) piece(run(r) + e, memory + position(r * RUN + e));
      });
    if constexpr (REST > 0)
      deal<RUNS * REST, THREADS>(rank, [&](int i, int) {
        const int r = i / REST, e = PIECES * VECTOR + i % REST;
        if (r / OF_MATRIX < count) one(run(r) + e, memory[position(r * RUN + e)]);
      });
  }
};

}  // namespace mansard
