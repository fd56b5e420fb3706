// Groups of matrices on their way to lanes and back: a vector holds the same word of the same entry of all of them.
#pragma once
#include "families/trsm/kernel.hpp"
#include "mansard/lanes.hpp"

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

// visit(begin, Int<columns>) for the columns [begin, end) in tiles of at most LIMIT.
template <int LIMIT, class Visit>
MANSARD_INLINE void for_tiles(int begin, int end, Visit visit) {
  for (; begin + LIMIT <= end; begin += LIMIT) visit(begin, Int<LIMIT>());
  if constexpr (LIMIT > 1) for_tiles<LIMIT / 2>(begin, end, visit);
}

// Where the matrices of a group are, and how many there are; lanes beyond them repeat the last one.
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

// Lines of LENGTH entries.
template <class T, int LANES, int LENGTH>
struct Lines {
  using R = typename Scalar<std::remove_const_t<T>>::Real;
  using V = Vector<R, LANES>;
  static constexpr int WORDS = Scalar<std::remove_const_t<T>>::WORDS, LONG = LENGTH * WORDS, REST = LONG % LANES;
  static constexpr bool SHORT = LONG <= 16 * LANES;  // written out: places are then known when it is compiled

  // to(entry) is where the number goes.
  template <class To>
  static MANSARD_INLINE void read(T* const (&from)[LANES], i64 offset, i64 step, To to) {
    if (step == 1) {
      const auto square = [&](int word, auto count) __attribute__((always_inline)) {
        V rows[LANES];
        MANSARD_UNROLL
        for (int i = 0; i < LANES; ++i)
          rows[i] = load_part<LANES, count>(reinterpret_cast<const R*>(from[i] + offset) + word);
        transpose<1, R, LANES>(rows);
        MANSARD_UNROLL
        for (int i = 0; i < count; ++i)
          store<LANES>(to((word + i) / WORDS) + (word + i) % WORDS * LANES, rows[i]);
      };
      for_range<SHORT>(0, LONG / LANES, [&](int i) __attribute__((always_inline)) { square(i * LANES, Int<LANES>()); });
      if constexpr (REST > 0) square(LONG - REST, Int<REST>());
    } else {
      for (int e = 0; e < LENGTH; ++e)
        for (int i = 0; i < LANES; ++i)
          for (int word = 0; word < WORDS; ++word)
            to(e)[word * LANES + i] = reinterpret_cast<const R*>(from[i] + offset + e * step)[word];
    }
  }

  // from(entry, word) is the vector to be written, to the first `count` matrices.
  template <class From>
  static MANSARD_INLINE void write(T* const (&to)[LANES], int count, i64 offset, i64 step, From from) {
    if (step == 1) {
      const auto square = [&](int word, auto words) __attribute__((always_inline)) {
        V rows[LANES] = {};
        MANSARD_UNROLL
        for (int i = 0; i < words; ++i) rows[i] = from((word + i) / WORDS, (word + i) % WORDS);
        transpose<1, R, LANES>(rows);
        MANSARD_UNROLL
        for (int i = 0; i < LANES; ++i)
          if (i < count) store_part<LANES, words>(reinterpret_cast<R*>(to[i] + offset) + word, rows[i]);
      };
      for_range<SHORT>(0, LONG / LANES, [&](int i) __attribute__((always_inline)) { square(i * LANES, Int<LANES>()); });
      if constexpr (REST > 0) square(LONG - REST, Int<REST>());
    } else {
      for (int e = 0; e < LENGTH; ++e)
        for (int word = 0; word < WORDS; ++word) {
          const V entries = from(e, word);
          for (int i = 0; i < count; ++i) reinterpret_cast<R*>(to[i] + offset + e * step)[word] = entries[i];
        }
    }
  }
};

// Whether lines without gaps are better taken as one: each has a rest that is no vector, and little before it. But what
// is where in one long line takes a division per entry, where it is not written out.
template <class T, int LANES, int LINES, int LENGTH>
constexpr bool as_one_line = Lines<T, LANES, LENGTH>::REST > 0 &&
                             (Lines<T, LANES, LENGTH>::LONG < 2 * LANES || Lines<T, LANES, LINES * LENGTH>::SHORT);

// A ROWS x COLUMNS matrix of every lane to place(i, j), by lines as they lie in memory.
template <int ROWS, int COLUMNS, bool BY_ROWS, class T, int LANES, class Place>
inline void read_group(const Group<T, LANES>& group, Place place) {
  constexpr int LINES = BY_ROWS ? ROWS : COLUMNS, LENGTH = BY_ROWS ? COLUMNS : ROWS;
  const i64 line = BY_ROWS ? group.row : group.column, step = BY_ROWS ? group.column : group.row;
  const auto to = [&](int l, int e) __attribute__((always_inline)) { return BY_ROWS ? place(l, e) : place(e, l); };
  if (as_one_line<T, LANES, LINES, LENGTH> && step == 1 && line == LENGTH)
    Lines<T, LANES, LINES * LENGTH>::read(group.matrices, 0, 1, [&](int e) __attribute__((always_inline)) {
      return to(e / LENGTH, e % LENGTH);
    });
  else
    for (int l = 0; l < LINES; ++l)
      Lines<T, LANES, LENGTH>::read(group.matrices, l * line, step,
                                    [&](int e) __attribute__((always_inline)) { return to(l, e); });
}

// And back: from(i, j, word) is the vector to be written.
template <int ROWS, int COLUMNS, bool BY_ROWS, class T, int LANES, class From>
inline void write_group(const Group<T, LANES>& group, From from) {
  constexpr int LINES = BY_ROWS ? ROWS : COLUMNS, LENGTH = BY_ROWS ? COLUMNS : ROWS;
  const i64 line = BY_ROWS ? group.row : group.column, step = BY_ROWS ? group.column : group.row;
  const auto entry = [&](int l, int e, int word) __attribute__((always_inline)) {
    return BY_ROWS ? from(l, e, word) : from(e, l, word);
  };
  if (as_one_line<T, LANES, LINES, LENGTH> && step == 1 && line == LENGTH)
    Lines<T, LANES, LINES * LENGTH>::write(
        group.matrices, group.count, 0, 1,
        [&](int e, int word) __attribute__((always_inline)) { return entry(e / LENGTH, e % LENGTH, word); });
  else
    for (int l = 0; l < LINES; ++l)
      Lines<T, LANES, LENGTH>::write(
          group.matrices, group.count, l * line, step,
          [&](int e, int word) __attribute__((always_inline)) { return entry(l, e, word); });
}

// run(first matrix, matrices, workspace) for all groups of LANES matrices, shared among the threads.
template <int LANES, int WORKSPACE, class R, class Run>
inline void for_groups(i64 batch, i64 threads, i64 products, R* workspaces, Run run) {
  in_parts(ceil_div(batch, i64(LANES)), threads, products, [&](i64 begin, i64 end, i64 part) {
    for (i64 group = begin; group < end; ++group)
      run(group * LANES, static_cast<int>(smaller<i64>(LANES, batch - group * LANES)), workspaces + part * WORKSPACE);
  });
}

}  // namespace mansard
