// Rows of a SELL matrix times vectors, and the recurrence of a power:
//
//   v_k = alpha A v_(k-1) + beta v_(k-1) + gamma v_(k-2)
//
// A row's products are added in the order they are stored, with one sum per row, in every kernel: all executions give
// the same bits. A word of v_1 .. v_(P-1) that is not written yet holds a reserved NaN, so a word is its own flag. It
// is a signalling NaN, which no arithmetic returns; x may contain it, and is never waited for.
//
// Params: T vectors, V stored values, INDEX of columns, C rows per chunk, NVECS adjacent vectors, P powers, SHIFTED
// (some beta is not zero), THREE_TERM (some gamma is not zero), OUTPUT, SETS combinations, RAGGED (rows of a chunk
// differ in length).
#pragma once
#include "kernels/sparse/powers/words.cuh"

namespace mansard {

enum class Index { int32, int64, delta16 };
enum class Output { all, last, combination };
enum class Ends { nowhere, padded, anywhere };  // row ends among UNROLL entries: none; in stored padding; anywhere

// --- Rows --------------------------------------------------------------------------------------------------

template <Index INDEX>
struct Stored {
  using Column = int;
};
template <>
struct Stored<Index::int64> {
  using Column = i64;
};
template <>
struct Stored<Index::delta16> {
  using Column = unsigned short;
};

// A lane's row of a chunk; pointers include the lane. ONCE: the matrix is loaded with a streaming hint.
template <class P, bool ONCE = false>
struct Line {
  using V = typename P::V;
  using Column = typename Stored<P::INDEX>::Column;
  static constexpr bool DELTA = P::INDEX == Index::delta16;
  const V* values;
  const Column* columns;
  const int* bases;

  MANSARD_DEVICE void point(const unsigned char* chunk, int width, int lane) {
    const int to_bases = ceil_div(width * (P::C * static_cast<int>(sizeof(V))), 16) * 16;
    const int to_columns = to_bases + (DELTA ? ceil_div(width * 4, 16) * 16 : 0);
    values = reinterpret_cast<const V*>(chunk) + lane;
    bases = reinterpret_cast<const int*>(chunk + to_bases);
    columns = reinterpret_cast<const Column*>(chunk + to_columns) + lane;
  }
  MANSARD_DEVICE auto column(int j) const {
    if constexpr (DELTA) return bases[j] + static_cast<int>(fetch(columns + j * P::C));
    else return fetch(columns + j * P::C);
  }
  // COUNT columns from entry j on, all of them stored. ALIGNED: j is a multiple of four, and bases are loaded four at a
  // time; they are the same for all lanes, and memory behind the last one still belongs to the chunk.
  template <bool ALIGNED, class Result, int COUNT>
  MANSARD_DEVICE void columns_from(int j, Result (&column)[COUNT]) const {
    MANSARD_UNROLL
    for (int u = 0; u < COUNT; ++u) column[u] = static_cast<Result>(fetch(columns + (j + u) * P::C));
    if constexpr (DELTA && ALIGNED) {
      MANSARD_UNROLL
      for (int u = 0; u < COUNT; u += 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(bases + j + u);
        const u32 base[4] = {four.x, four.y, four.z, four.w};
        MANSARD_UNROLL
        for (int i = 0; i < 4 && u + i < COUNT; ++i) column[u + i] += static_cast<int>(base[i]);
      }
    } else if constexpr (DELTA) {
      MANSARD_UNROLL
      for (int u = 0; u < COUNT; ++u) column[u] += bases[j + u];
    }
  }
  MANSARD_DEVICE V value(int j) const {
    V value;
    const auto* words = reinterpret_cast<const typename Scalar<V>::Real*>(values + j * P::C);
    each_word(value, [&](auto& word, int i) { word = fetch(words + i); });
    return value;
  }

 private:
  template <class W>
  static MANSARD_DEVICE W fetch(const W* from) {
    return ONCE ? __ldcs(from) : *from;
  }
};

template <class P>
struct Rows {
  using T = typename P::T;
  static constexpr int N = P::NVECS;

  static MANSARD_DEVICE const T* at(const T* x, i64 row) { return x + row * N; }

  // sum[h] += A[row h] x for ABREAST rows of a lane, with UNROLL entries of each in flight. Between `least` and `most`
  // entries of these rows are stored, the same numbers for all lanes; no length exceeds that.
  template <Load HOW, int UNROLL, class Line, int ABREAST>
  static MANSARD_DEVICE void multiply(const Line (&lines)[ABREAST], const int (&length)[ABREAST], int least, int most,
                                      const T* x, T (&sum)[ABREAST][N]) {
    const auto idle = [] {};
    int j = 0;
MANSARD_UNROLL_BY(1)
    for (; j + UNROLL <= least; j += UNROLL)
      pass<HOW, UNROLL, Ends::padded, UNROLL % 4 == 0>(lines, length, j, x, sum, idle);
MANSARD_UNROLL_BY(1)
    for (; j < most; j += UNROLL) pass<HOW, UNROLL, Ends::anywhere, false>(lines, length, j, x, sum, idle);
  }

  // UNROLL entries of each row, from entry j on. All loads should be in flight before one is used, but there are only
  // seven predicate registers. Loads are therefore unconditional where UNROLL entries are stored, padding included,
  // which is not added. Elsewhere only loads are conditional: behind a row's end 0 is multiplied with -0, which leaves
  // every sum as it is. `meanwhile` is called while the loads are in flight.
  template <Load HOW, int UNROLL, Ends ENDS, bool ALIGNED, class Line, int ABREAST, class Meanwhile>
  static MANSARD_DEVICE void pass(const Line (&lines)[ABREAST], const int (&length)[ABREAST], int j, const T* x,
                                  T (&sum)[ABREAST][N], Meanwhile meanwhile) {
    constexpr bool STORED = ENDS != Ends::anywhere, WHOLE = ENDS == Ends::nowhere;
    constexpr bool IDLE = !STORED && !Scalar<T>::COMPLEX;  // complex zeros may change a sum's sign
    decltype(lines[0].column(0)) column[ABREAST][UNROLL];
    T entry[ABREAST][UNROLL][N];
    if constexpr (STORED) {
      MANSARD_UNROLL
      for (int h = 0; h < ABREAST; ++h) lines[h].template columns_from<ALIGNED>(j, column[h]);
    } else {
      each<ABREAST, UNROLL>([&](int h, int u) {
        if (j + u < length[h]) column[h][u] = lines[h].column(j + u);
      });
    }
    each<ABREAST, UNROLL>([&](int h, int u) {
      MANSARD_UNROLL
      for (int v = 0; v < N; ++v) {
        if constexpr (IDLE) entry[h][u][v] = T(-0.0);
        if (STORED || j + u < length[h]) entry[h][u][v] = load_element<HOW>(at(x, column[h][u]) + v);
      }
    });
    meanwhile();
    each<ABREAST, UNROLL>([&](int h, int u) {
      typename P::V value = {};
      if (STORED || j + u < length[h]) value = lines[h].value(j + u);
      if (WHOLE || IDLE || j + u < length[h]) {
        MANSARD_UNROLL
        for (int v = 0; v < N; ++v) add_entry(sum[h][v], value, entry[h][u][v]);
      }
    });
  }
  // sum += A[row] x for one row, checking every word of x; sets `missing` if one is not written yet.
  template <class Line>
  static MANSARD_DEVICE void multiply_checked(const Line& line, int length, const T* x, T (&sum)[N], bool& missing) {
    constexpr int TOGETHER = 8;
MANSARD_UNROLL_BY(1)
    for (int j = 0; j < length; j += TOGETHER) {
      T entry[TOGETHER][N];
      MANSARD_UNROLL
      for (int u = 0; u < TOGETHER; ++u) {
        const T* from = at(x, line.column(min(j + u, length - 1)));
        MANSARD_UNROLL
        for (int v = 0; v < N; ++v) entry[u][v] = load_checked(from + v, missing);
      }
      MANSARD_UNROLL
      for (int u = 0; u < TOGETHER; ++u) {
        if (j + u >= length) break;
        const auto value = line.value(j + u);
        MANSARD_UNROLL
        for (int v = 0; v < N; ++v) add_entry(sum[v], value, entry[u][v]);
      }
    }
  }

  // sum = alpha sum + beta x + gamma z, with coefficients = (alpha, beta, gamma).
  static MANSARD_DEVICE void recur(T (&sum)[N], const T* coefficients, const T (&x)[N], const T (&z)[N]) {
    MANSARD_UNROLL
    for (int v = 0; v < N; ++v) {
      sum[v] = product(coefficients[0], sum[v]);
      if constexpr (P::SHIFTED) add_scaled(sum[v], coefficients[1], x[v]);
      if constexpr (P::THREE_TERM) add_scaled(sum[v], coefficients[2], z[v]);
    }
  }

 private:
  template <int ABREAST, int UNROLL, class Do>
  static MANSARD_DEVICE void each(Do what) {
    MANSARD_UNROLL
    for (int u = 0; u < UNROLL; ++u) {
      MANSARD_UNROLL
      for (int h = 0; h < ABREAST; ++h) what(h, u);
    }
  }
};

// Addresses of the vectors: v_0 = x, v_1, v_2, ... one behind the other, and the result.
template <class P>
struct Vectors {
  using T = typename P::T;
  const T* x;
  const T* before;  // v_-1 of a recurrence that is continued, or null
  T* powers;
  i64 step;
  T* result;  // v_P, or the combinations, unless all powers are the output

  MANSARD_DEVICE const T* source(int k) const { return k < 0 ? before : k == 0 ? x : powers + (k - 1) * step; }
  MANSARD_DEVICE T* target(int k) const {
    return P::OUTPUT == Output::last && k == P::P ? result : powers + (k - 1) * step;
  }
};

// Write all combinations of v_0 .. v_P at a row; v_P is `newest`.
template <class P, class Arguments>
MANSARD_DEVICE void combine(const Arguments& arguments, const Vectors<P>& vectors, i64 row,
                            const typename P::T (&newest)[P::NVECS]) {
  using T = typename P::T;
  constexpr int N = P::NVECS;
MANSARD_UNROLL_BY(1)
  for (int set = 0; set < P::SETS; ++set) {
    const T* weights = arguments.COEFFICIENTS + 3 * P::P + set * (P::P + 1);
    T total[N] = {};
MANSARD_UNROLL_BY(4)
    for (int i = 0; i < P::P; ++i)
      for (int v = 0; v < N; ++v) add_scaled(total[v], weights[i], vectors.source(i)[row * N + v]);
    for (int v = 0; v < N; ++v) {
      add_scaled(total[v], weights[P::P], newest[v]);
      vectors.result[(set * arguments.ROWS + row) * N + v] = total[v];
    }
  }
}

}  // namespace mansard
