// A X = alpha B for a batch of small triangles on CPUs; sizes are compile-time constants.
//
// Tile of TILE_M rows i and TILE_N vectors of X in registers:  R = alpha B_i - sum over known rows k of a_ik * x_k;
// then x_i = R / a_ii row by row. Rows are numbered in the order in which they become known: an upper triangle begins
// at its end. Diagonal entries are divided by, not inverted.
//
// Lanes run along the columns of X, and an entry of A is broadcast; or, for few columns, along matrices (ACROSS): then
// A is transposed into the workspace as well, and a vector holds the same entry of several matrices. Threads take
// contiguous parts of the batch.
//
// Workspace of a thread, in reals: X (X_REALS; N rows of PITCH), then with ACROSS the triangles (N * N * LANES).
//
// Params beside T, N, NRHS, UPPER, UNIT, CONJ, LAYOUT_A|B|X, STACK_A|B|X:
//   LANES           reals per vector
//   TILE_M, TILE_N  rows and vectors of X per register tile
//   ACROSS          one matrix per lane
#pragma once
#include "kernels/batched/gemm/kernel.hpp"
#include <cmath>

namespace mansard {

enum class LayoutA { row, col, any };
enum class LayoutB { row, col, any };
enum class LayoutX { row, col, any };
enum class StackX { packed, strided, shared, pointers };

template <class P>
struct TrsmShape {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  using V = Vector<R, P::LANES>;
  static constexpr int WORDS = Scalar<T>::WORDS, LANES = P::LANES;
  static constexpr int GROUP = P::ACROSS ? LANES / WORDS : 1;  // matrices at a time
  static constexpr int VECTORS = P::ACROSS ? P::NRHS : ceil_div(P::NRHS * WORDS, LANES);
  static constexpr int PITCH = VECTORS * LANES;                // reals of a row of X in the workspace
  static constexpr int LINE = CACHE_LINE / static_cast<int>(sizeof(R));
  static constexpr int X_REALS = round_up(P::N * PITCH, LINE), A_REALS = P::ACROSS ? P::N * P::N * LANES : 0;
  static constexpr int WORKSPACE = X_REALS + round_up(A_REALS, LINE);
  static_assert(LANES >= 2 && LANES >= WORDS && LANES <= larger(native_lanes<R>, WORDS));

  static constexpr int row_at(int step) { return P::UPPER ? P::N - 1 - step : step; }
};

// Addresses of an operand's matrices; strides in elements.
template <class T, auto STACK>
struct Matrices {
  using Stack = decltype(STACK);
  T* data;
  i64 matrix, row, column;

  MANSARD_INLINE T* operator[](i64 b) const {
    if constexpr (STACK == Stack::pointers) return reinterpret_cast<T* const*>(data)[b];
    else if constexpr (STACK == Stack::shared) return data;
    else return data + b * matrix;
  }
};

// ---- division ---------------------------------------------------------------------------------------------

// v / (re + i im) by Smith's method: division by the larger part avoids overflow.
template <class S, class V = typename S::V, class R = typename S::R>
MANSARD_INLINE V divided(V v, R re, R im) {
  if constexpr (S::WORDS == 1) return v / re;
  else {
    if (std::abs(re) < std::abs(im)) {
      v = -times_i<R, S::LANES>(v);
      const R larger_part = im;
      im = -re, re = larger_part;
    }
    const R ratio = im / re;
    return minus_product(v, ratio, times_i<R, S::LANES>(v)) / plus_product(re, im, ratio);
  }
}

// ---- entries of A -----------------------------------------------------------------------------------------

// Entries of one matrix A, broadcast to all lanes.
template <class P>
struct Common {
  using S = TrsmShape<P>;
  using R = typename S::R;
  const R* data;
  i64 row, column;  // reals

  MANSARD_INLINE const R* at(int i, int k) const { return data + i * row + k * column; }
  MANSARD_INLINE R re(int i, int k) const { return at(i, k)[0]; }
  MANSARD_INLINE R im(int i, int k) const { return (P::CONJ ? -1 : 1) * at(i, k)[S::WORDS - 1]; }
  MANSARD_INLINE typename S::V divide(typename S::V v, int i) const { return divided<S>(v, re(i, i), im(i, i)); }
};

// Entries of several matrices A, one per lane.
template <class P>
struct Across {
  using S = TrsmShape<P>;
  using R = typename S::R;
  using V = typename S::V;
  static constexpr bool BY_ROWS = P::LAYOUT_A != LayoutA::col;
  const R* data;

  template <int PART>
  MANSARD_INLINE V part(int i, int k) const {
    const V entries = load<S::LANES>(data + (BY_ROWS ? i * P::N + k : k * P::N + i) * S::LANES);
    if constexpr (S::WORDS == 1) return entries;
    else return part_twice<PART, R, S::LANES>(entries, std::make_integer_sequence<int, S::LANES>());
  }
  MANSARD_INLINE V re(int i, int k) const { return part<0>(i, k); }
  MANSARD_INLINE V im(int i, int k) const { return (P::CONJ ? R(-1) : R(1)) * part<1>(i, k); }
  MANSARD_INLINE V divide(V v, int i) const {
    if constexpr (S::WORDS == 1) return v / re(i, i);
    else {
      const V real = re(i, i), imaginary = im(i, i);
      V result = v;
      for (int lane = 0; lane < S::LANES; lane += 2) {
        const V quotient = divided<S>(v, real[lane], imaginary[lane]);
        result[lane] = quotient[lane], result[lane + 1] = quotient[lane + 1];
      }
      return result;
    }
  }
};

// ---- one system, or a group of them -----------------------------------------------------------------------

// Solve for rows [first, first + ROWS), in the order in which they become known, of VECTORS vectors of X.
template <class P, int ROWS, int VECTORS, class A, class R = typename TrsmShape<P>::R>
MANSARD_INLINE void trsm_tile(const A& a, R* x, int first) {
  using S = TrsmShape<P>;
  using V = typename S::V;
  V rows[ROWS][VECTORS], turned[ROWS][VECTORS] = {};  // turned: sums with im, still to be multiplied by i
  const auto at = [&](int step, int n) __attribute__((always_inline)) {
    return x + S::row_at(step) * S::PITCH + n * S::LANES;
  };
  MANSARD_UNROLL
  for (int m = 0; m < ROWS; ++m) {
    MANSARD_UNROLL
    for (int n = 0; n < VECTORS; ++n) rows[m][n] = load<S::LANES>(at(first + m, n));
  }
  for (int step = 0; step < first; ++step) {
    V known[VECTORS];
    MANSARD_UNROLL
    for (int n = 0; n < VECTORS; ++n) known[n] = in_register(load<S::LANES>(at(step, n)));
    MANSARD_UNROLL
    for (int m = 0; m < ROWS; ++m) {
      const auto re = a.re(S::row_at(first + m), S::row_at(step));
      MANSARD_UNROLL
      for (int n = 0; n < VECTORS; ++n) subtract_product(rows[m][n], re, known[n]);
      if constexpr (S::WORDS == 2) {
        const auto im = a.im(S::row_at(first + m), S::row_at(step));
        MANSARD_UNROLL
        for (int n = 0; n < VECTORS; ++n) subtract_product(turned[m][n], im, known[n]);
      }
    }
  }
  MANSARD_UNROLL
  for (int m = 0; m < ROWS; ++m) {
    const int row = S::row_at(first + m);
    MANSARD_UNROLL
    for (int n = 0; n < VECTORS; ++n) {
      MANSARD_UNROLL
      for (int before = 0; before < m; ++before) {
        subtract_product(rows[m][n], a.re(row, S::row_at(first + before)), rows[before][n]);
        if constexpr (S::WORDS == 2)
          subtract_product(turned[m][n], a.im(row, S::row_at(first + before)), rows[before][n]);
      }
      if constexpr (S::WORDS == 2)
        rows[m][n] = complex_product<false, false, S::LANES, R>(rows[m][n], turned[m][n]);
      if constexpr (!P::UNIT) rows[m][n] = a.divide(rows[m][n], row);
      store<S::LANES>(at(first + m, n), rows[m][n]);
    }
  }
}

template <class P, class A, class R = typename TrsmShape<P>::R>
MANSARD_INLINE void solve_in_place(const A& a, R* x) {
  using S = TrsmShape<P>;
  Pieces<S::VECTORS, P::TILE_N>::for_each([&](int n, auto vectors) __attribute__((always_inline)) {
    Pieces<P::N, P::TILE_M>::for_each([&](int first, auto rows) __attribute__((always_inline)) {
      trsm_tile<P, rows, vectors>(a, x + n * S::LANES, first);
    });
  });
}

// ---- reading and writing ----------------------------------------------------------------------------------

// Calls use(row, column) for all entries of X, in the order of memory.
template <class P, bool BY_ROWS, class Use>
MANSARD_INLINE void for_each_entry(Use use) {
#pragma GCC unroll 1  // unrolled, it would take longer to compile than everything else
  for (int line = 0; line < (BY_ROWS ? P::N : P::NRHS); ++line)
    for (int e = 0; e < (BY_ROWS ? P::NRHS : P::N); ++e) BY_ROWS ? use(line, e) : use(e, line);
}

// Transposes lines of LENGTH entries of GROUP matrices into vectors with the same entry of all of them, and back.
// between(line) is the range of entries to copy; `to_line` and `to_entry` are strides in vectors.
template <class P, int LENGTH>
struct Transposition {
  using S = TrsmShape<P>;
  using T = typename P::T;
  using R = typename S::R;
  using V = typename S::V;
  i64 line, step;  // elements
  int to_line, to_entry;

  template <class Between>
  void gather(R* to, const T* const (&from)[S::GROUP], int lines, Between between) const {
    for (int l = 0; l < lines; ++l) {
      const auto [begin, end] = between(l);
      const auto target = [&](int e) { return to + (l * to_line + e * to_entry) * S::LANES; };
      int e = begin;
      if (step == 1)
        for (; e + S::GROUP <= end; e += S::GROUP) {
          V square[S::GROUP];
          MANSARD_UNROLL
          for (int i = 0; i < S::GROUP; ++i)
            square[i] = load<S::LANES>(reinterpret_cast<const R*>(from[i] + l * line + e));
          transpose<S::WORDS, R, S::LANES>(square);
          MANSARD_UNROLL
          for (int i = 0; i < S::GROUP; ++i) store<S::LANES>(target(e + i), square[i]);
        }
      for (; e < end; ++e)
        for (int i = 0; i < S::GROUP; ++i)
          std::memcpy(target(e) + i * S::WORDS, from[i] + l * line + e * step, sizeof(T));
    }
  }
  // Write vectors back to the first `count` matrices.
  void scatter(T* const (&to)[S::GROUP], const R* from, int lines, int count) const {
    for (int l = 0; l < lines; ++l) {
      const auto source = [&](int e) { return from + (l * to_line + e * to_entry) * S::LANES; };
      int e = 0;
      if (step == 1 && count == S::GROUP)
        for (; e + S::GROUP <= LENGTH; e += S::GROUP) {
          V square[S::GROUP];
          MANSARD_UNROLL
          for (int i = 0; i < S::GROUP; ++i) square[i] = load<S::LANES>(source(e + i));
          transpose<S::WORDS, R, S::LANES>(square);
          MANSARD_UNROLL
          for (int i = 0; i < S::GROUP; ++i) store<S::LANES>(reinterpret_cast<R*>(to[i] + l * line + e), square[i]);
        }
      for (; e < LENGTH; ++e)
        for (int i = 0; i < count; ++i) std::memcpy(to[i] + l * line + e * step, source(e) + i * S::WORDS, sizeof(T));
    }
  }
};

// ---- the batch --------------------------------------------------------------------------------------------

template <class P, class Arguments>
struct TrsmOperands {
  using S = TrsmShape<P>;
  using T = typename P::T;
  using R = typename S::R;
  static constexpr bool A_ROWS = P::LAYOUT_A != LayoutA::col, B_ROWS = P::LAYOUT_B != LayoutB::col;
  static constexpr bool X_ROWS = P::LAYOUT_X != LayoutX::col;
  Matrices<const T, P::STACK_A> A;
  Matrices<const T, P::STACK_B> B;
  Matrices<T, P::STACK_X> X;
  double alpha_re, alpha_im;

  explicit TrsmOperands(const Arguments& a)
      : A{a.A, a.a_matrix, a.a_row, a.a_col}, B{a.B, a.b_matrix, a.b_row, a.b_col},
        X{a.X, a.x_matrix, a.x_row, a.x_col}, alpha_re(a.alpha_re), alpha_im(a.alpha_im) {}

  bool vanishes() const { return alpha_re == 0 && alpha_im == 0; }
  // X = 0, where alpha is zero; neither A nor B is read.
  void clear(i64 begin, i64 end) const {
    for (i64 b = begin; b < end; ++b)
      for_each_entry<P, X_ROWS>([&](int i, int j) { X[b][i * X.row + j * X.column] = T{}; });
  }

  void solve_one(i64 b, R* workspace) const {
    const auto entry = [&](int i, int j) __attribute__((always_inline)) {
      return reinterpret_cast<T*>(workspace + i * S::PITCH) + j;
    };
    const T* const right = B[b];
    for_each_entry<P, B_ROWS>([&](int i, int j) __attribute__((always_inline)) {
      *entry(i, j) = times(alpha_re, alpha_im, right[i * B.row + j * B.column]);
    });
    const Common<P> a{reinterpret_cast<const R*>(A[b]), A.row * S::WORDS, A.column * S::WORDS};
    solve_in_place<P>(a, workspace);
    T* const out = X[b];
    for_each_entry<P, X_ROWS>(
        [&](int i, int j) __attribute__((always_inline)) { out[i * X.row + j * X.column] = *entry(i, j); });
  }

  // Solve for matrices [b, b + count); lanes without a matrix repeat the last one.
  void solve_group(i64 b, int count, R* workspace) const {
    const T *a[S::GROUP], *right[S::GROUP];
    T* out[S::GROUP];
    for (int i = 0; i < S::GROUP; ++i) {
      const i64 index = b + smaller(i, count - 1);
      a[i] = A[index], right[i] = B[index], out[i] = X[index];
    }
    R* const triangles = workspace + S::X_REALS;
    const Transposition<P, P::N> of_a{A_ROWS ? A.row : A.column, A_ROWS ? A.column : A.row, P::N, 1};
    of_a.gather(triangles, a, P::N, [](int line) {
      return A_ROWS != P::UPPER ? std::pair(0, line + 1) : std::pair(line, P::N);
    });
    constexpr int B_LENGTH = B_ROWS ? P::NRHS : P::N, X_LENGTH = X_ROWS ? P::NRHS : P::N;
    const Transposition<P, B_LENGTH> of_b{B_ROWS ? B.row : B.column, B_ROWS ? B.column : B.row,
                                          B_ROWS ? P::NRHS : 1, B_ROWS ? 1 : P::NRHS};
    of_b.gather(workspace, right, B_ROWS ? P::N : P::NRHS, [=](int) { return std::pair(0, B_LENGTH); });
    for (int i = 0; i < P::N * S::PITCH; i += S::LANES)
      store<S::LANES>(workspace + i, scaled<S::WORDS, S::LANES>(static_cast<R>(alpha_re), static_cast<R>(alpha_im),
                                                                load<S::LANES>(workspace + i)));
    solve_in_place<P>(Across<P>{triangles}, workspace);
    const Transposition<P, X_LENGTH> of_x{X_ROWS ? X.row : X.column, X_ROWS ? X.column : X.row,
                                          X_ROWS ? P::NRHS : 1, X_ROWS ? 1 : P::NRHS};
    of_x.scatter(out, workspace, X_ROWS ? P::N : P::NRHS, count);
  }
};

template <class P, class Arguments>
int trsm_simd(const Arguments& a) {
  using S = TrsmShape<P>;
  using R = typename S::R;
  const TrsmOperands<P, Arguments> operands(a);
  R* const workspaces = reinterpret_cast<R*>(a.partials);
  const i64 products = a.BATCH * P::N * (P::N + 1) / 2 * P::NRHS;
  in_parts(ceil_div(a.BATCH, i64(S::GROUP)), a.threads, products, [&](i64 begin, i64 end, i64 part) {
    R* const workspace = workspaces + part * S::WORKSPACE;
    if (operands.vanishes()) return operands.clear(begin * S::GROUP, smaller(end * S::GROUP, a.BATCH));
    std::memset(workspace, 0, S::X_REALS * sizeof(R));
    for (i64 item = begin; item < end; ++item) {
      const i64 b = item * S::GROUP;
      const int count = static_cast<int>(smaller<i64>(S::GROUP, a.BATCH - b));
      if constexpr (P::ACROSS) operands.solve_group(b, count, workspace);
      else operands.solve_one(b, workspace);
    }
  });
  return 0;
}

}  // namespace mansard
