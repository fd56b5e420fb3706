// Reads and writes groups of matrices with one matrix per SIMD lane: a vector holds the same word of the same entry of
// all of them.
#pragma once
#include "kernels/batched/trsm/kernel.hpp"
#include "mansard/cpu/lanes.hpp"

namespace mansard {

enum class LayoutF { row, col, any };
enum class LayoutQ { row, col, any };
enum class StackF { packed, strided, shared, pointers };
enum class StackQ { packed, strided, shared, pointers };

template <bool UNROLLED, class Visit>
MANSARD_INLINE void for_range(int begin, int end, Visit visit) {
  if constexpr (UNROLLED) {
    MANSARD_UNROLL
    for (int i = begin; i < end; ++i) visit(i);
  } else {
#pragma GCC unroll 1
    for (int i = begin; i < end; ++i) visit(i);
  }
}

// Calls visit(begin, Int<columns>) for the columns [begin, end): tiles of LIMIT, then of LIMIT / 2, and so on.
template <int LIMIT, class Visit>
MANSARD_INLINE void for_tiles(int begin, int end, Visit visit) {
  for (; begin + LIMIT <= end; begin += LIMIT) visit(begin, Int<LIMIT>());
  if constexpr (LIMIT > 1) for_tiles<LIMIT / 2>(begin, end, visit);
}

// Addresses of the matrices of a group, and their number; lanes beyond it repeat the last matrix.
template <class T, int LANES>
struct Group {
  T* matrices[LANES];
  i64 row, column;  // elements
  int count;

  template <class Stack>
  Group(const Stack& stack, i64 b, int count) : row(stack.row), column(stack.column), count(count) {
    for (int lane = 0; lane < LANES; ++lane) matrices[lane] = stack[b + smaller(lane, count - 1)];
  }
};

// Reads and writes lines of LENGTH entries, adjacent in memory (`dense`) or strided (`spread`).
template <class T, int LANES_, int LENGTH>
struct Lines {
  using R = typename Scalar<std::remove_const_t<T>>::Real;
  using V = Vector<R, LANES_>;
  static constexpr int LANES = LANES_;
  static constexpr int WORDS = Scalar<std::remove_const_t<T>>::WORDS, LONG = LENGTH * WORDS, REST = LONG % LANES;
  static constexpr int VECTORS = ceil_div(LONG, LANES);
  static constexpr bool SHORT = LONG <= 16 * LANES;  // unrolled: offsets are then compile-time constants

  // Calls visit(word, Int<words>) for the vectors [begin, end) of a line.
  template <class Visit>
  static MANSARD_INLINE void for_vectors(int begin, int end, Visit visit) {
    constexpr int WHOLE = LONG / LANES;
    for_range<SHORT>(begin, smaller(end, WHOLE),
                     [&](int i) __attribute__((always_inline)) { visit(i * LANES, Int<LANES>()); });
    if constexpr (REST > 0)
      if (begin <= WHOLE && end > WHOLE) visit(LONG - REST, Int<REST>());
  }

  // Read vectors [begin, end) of a line; to(entry) is the destination of an entry.
  template <class To>
  static MANSARD_INLINE void read_dense(T* const (&from)[LANES], int begin, int end, i64 offset, To to) {
    for_vectors(begin, end, [&](int word, auto words) __attribute__((always_inline)) {
      V rows[LANES];
      MANSARD_UNROLL
      for (int i = 0; i < LANES; ++i)
        rows[i] = load_part<LANES, words>(reinterpret_cast<const R*>(from[i] + offset) + word);
      transpose<1, R, LANES>(rows);
      MANSARD_UNROLL
      for (int i = 0; i < words; ++i) store<LANES>(to((word + i) / WORDS) + (word + i) % WORDS * LANES, rows[i]);
    });
  }
  template <class To>
  static MANSARD_INLINE void read_spread(T* const (&from)[LANES], i64 offset, i64 step, To to) {
    for (int e = 0; e < LENGTH; ++e)
      for (int i = 0; i < LANES; ++i)
        for (int word = 0; word < WORDS; ++word)
          to(e)[word * LANES + i] = reinterpret_cast<const R*>(from[i] + offset + e * step)[word];
  }

  // Write a line to the matrices [first, last); from(entry, word) is the vector of an entry. Vectors before `begin` and
  // from `end` on become zeros.
  template <class From>
  static MANSARD_INLINE void write_dense(T* const (&to)[LANES], int first, int last, int begin, int end, i64 offset,
                                         From from) {
    const auto write = [&](int word, auto words, auto make) __attribute__((always_inline)) {
      V rows[LANES] = {};
      MANSARD_UNROLL
      for (int i = 0; i < words; ++i) rows[i] = make(word + i);
      transpose<1, R, LANES>(rows);
      MANSARD_UNROLL
      for (int i = 0; i < LANES; ++i)
        if (i >= first && i < last) store_part<LANES, words>(reinterpret_cast<R*>(to[i] + offset) + word, rows[i]);
    };
    const auto zeros = [&](int word, auto words) __attribute__((always_inline)) {
      write(word, words, [](int) __attribute__((always_inline)) { return V{}; });
    };
    for_vectors(0, begin, zeros);
    for_vectors(begin, end, [&](int word, auto words) __attribute__((always_inline)) {
      write(word, words, [&](int i) __attribute__((always_inline)) { return from(i / WORDS, i % WORDS); });
    });
    for_vectors(end, VECTORS, zeros);
  }
  template <class From>
  static MANSARD_INLINE void write_spread(T* const (&to)[LANES], int count, i64 offset, i64 step, From from) {
    for (int e = 0; e < LENGTH; ++e)
      for (int word = 0; word < WORDS; ++word) {
        const V entries = from(e, word);
        for (int i = 0; i < count; ++i) reinterpret_cast<R*>(to[i] + offset + e * step)[word] = entries[i];
      }
  }
};

// Whether lines without gaps are treated as one long line: pays if each line ends with a partial vector and is short.
// If the long line is not unrolled, finding an entry takes a division.
template <class T, int LANES, int LINES, int LENGTH>
constexpr bool as_one_line = Lines<T, LANES, LENGTH>::REST > 0 &&
                             (Lines<T, LANES, LENGTH>::LONG < 2 * LANES || Lines<T, LANES, LINES * LENGTH>::SHORT);
// Whether the loop over all lines is unrolled.
template <class T, int LANES, int LINES, int LENGTH>
constexpr bool written_out = Lines<T, LANES, LINES * LENGTH>::LONG <= 64;

// Parts of a matrix: range of vectors of line l that contain entries of the part. Everything: all vectors.
struct Everything {
  template <class Line, bool BY_ROWS>
  static constexpr std::pair<int, int> vectors(int) {
    return {0, Line::VECTORS};
  }
};
struct LowerTriangle {
  template <class Line, bool BY_ROWS>
  static constexpr std::pair<int, int> vectors(int l) {
    if (BY_ROWS) return {0, ((l + 1) * Line::WORDS - 1) / Line::LANES + 1};
    return {l * Line::WORDS / Line::LANES, Line::VECTORS};
  }
};

// Read a ROWS x COLUMNS matrix of every lane to place(i, j), line by line in the order of memory. Entries outside Part
// may or may not be read.
template <int ROWS, int COLUMNS, bool BY_ROWS, class Part = Everything, class T, int LANES, class Place>
inline void read_group(const Group<T, LANES>& group, Place place) {
  constexpr int LINES = BY_ROWS ? ROWS : COLUMNS, LENGTH = BY_ROWS ? COLUMNS : ROWS;
  using Line = Lines<T, LANES, LENGTH>;
  using Whole = Lines<T, LANES, LINES * LENGTH>;
  const i64 line = BY_ROWS ? group.row : group.column, step = BY_ROWS ? group.column : group.row;
  const auto to = [&](int l, int e) __attribute__((always_inline)) { return BY_ROWS ? place(l, e) : place(e, l); };
  if (as_one_line<T, LANES, LINES, LENGTH> && step == 1 && line == LENGTH)
    Whole::read_dense(group.matrices, 0, Whole::VECTORS, 0,
                      [&](int e) __attribute__((always_inline)) { return to(e / LENGTH, e % LENGTH); });
  else if (step == 1)
    for_range<written_out<T, LANES, LINES, LENGTH>>(0, LINES, [&](int l) __attribute__((always_inline)) {
      const auto [begin, end] = Part::template vectors<Line, BY_ROWS>(l);
      Line::read_dense(group.matrices, begin, end, l * line,
                       [&](int e) __attribute__((always_inline)) { return to(l, e); });
    });
  else
    for (int l = 0; l < LINES; ++l)
      Line::read_spread(group.matrices, l * line, step,
                        [&](int e) __attribute__((always_inline)) { return to(l, e); });
}

// Write a ROWS x COLUMNS matrix of every lane; from(i, j, word) is the vector of an entry. Vectors outside Part become
// zeros. With short vectors one matrix is written after the other, in the order of memory: otherwise the core would
// read each cache line before it is overwritten.
template <int ROWS, int COLUMNS, bool BY_ROWS, class Part = Everything, class T, int LANES, class From>
inline void write_group(const Group<T, LANES>& group, From from) {
  constexpr int LINES = BY_ROWS ? ROWS : COLUMNS, LENGTH = BY_ROWS ? COLUMNS : ROWS;
  constexpr int TOGETHER = VECTOR_BYTES <= 16 && LINES * LENGTH * sizeof(T) >= 128 ? 1 : LANES;
  using Line = Lines<T, LANES, LENGTH>;
  using Whole = Lines<T, LANES, LINES * LENGTH>;
  const i64 line = BY_ROWS ? group.row : group.column, step = BY_ROWS ? group.column : group.row;
  const auto entry = [&](int l, int e, int word) __attribute__((always_inline)) {
    return BY_ROWS ? from(l, e, word) : from(e, l, word);
  };
  if (step != 1) {
    for (int l = 0; l < LINES; ++l)
      Line::write_spread(group.matrices, group.count, l * line, step,
                         [&](int e, int word) __attribute__((always_inline)) { return entry(l, e, word); });
    return;
  }
  MANSARD_UNROLL
  for (int lane = 0; lane < LANES; lane += TOGETHER) {
    const int last = smaller(lane + TOGETHER, group.count);
    if (lane >= last) return;
    if (as_one_line<T, LANES, LINES, LENGTH> && line == LENGTH)
      Whole::write_dense(
          group.matrices, lane, last, 0, Whole::VECTORS, 0,
          [&](int e, int word) __attribute__((always_inline)) { return entry(e / LENGTH, e % LENGTH, word); });
    else
      for_range<written_out<T, LANES, LINES, LENGTH>>(0, LINES, [&](int l) __attribute__((always_inline)) {
        const auto [begin, end] = Part::template vectors<Line, BY_ROWS>(l);
        Line::write_dense(group.matrices, lane, last, begin, end, l * line,
                          [&](int e, int word) __attribute__((always_inline)) { return entry(l, e, word); });
      });
  }
}

// Calls run(first matrix, number of matrices, workspace) for all groups of LANES matrices, distributed over the
// threads.
template <int LANES, int WORKSPACE, class R, class Run>
inline void for_groups(i64 batch, i64 threads, i64 products, R* workspaces, Run run) {
  in_parts(ceil_div(batch, i64(LANES)), threads, products, [&](i64 begin, i64 end, i64 part) {
    for (i64 group = begin; group < end; ++group)
      run(group * LANES, static_cast<int>(smaller<i64>(LANES, batch - group * LANES)), workspaces + part * WORKSPACE);
  });
}

}  // namespace mansard
