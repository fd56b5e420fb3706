// X = alpha A B for a batch of small triangles A on CPUs; sizes are compile-time constants.
//
// Tile of TILE_M rows i and TILE_N vectors of X in registers:  X_i = sum over k of a_ik * (alpha B_k), with k <= i for a
// lower triangle and k >= i for an upper one. Tiles begin with the rows that need all others, and replace rows of B that
// no later tile needs. Rows are numbered by steps, as for triangular systems: an upper triangle begins at its end.
//
// Lanes run along the columns of X, and an entry of A is broadcast; or, for few columns, along matrices (ACROSS). What
// that means for A, B and X, and the workspace of a thread, is told in trsm/kernel.hpp, whose operands these are.
//
// Params beside T, N, NRHS, UPPER, UNIT, CONJ, LAYOUT_A|B|X, STACK_A|B|X:
//   LANES           reals per vector
//   TILE_M, TILE_N  rows and vectors of X per register tile
//   ACROSS          one matrix per lane
#pragma once
#include "kernels/batched/trsm/kernel.hpp"

namespace mansard {

// Multiply rows of steps [first, first + ROWS) of VECTORS vectors of x.
template <class P, int ROWS, int VECTORS, class A, class R = typename TrsmShape<P>::R>
MANSARD_INLINE void trmm_tile(const A& a, R* x, int first) {
  using S = TrsmShape<P>;
  using V = typename S::V;
  V sums[ROWS][VECTORS] = {}, turned[ROWS][VECTORS] = {};  // turned: sums with im, still to be multiplied by i
  const auto at = [&](int step, int n) __attribute__((always_inline)) {
    return x + S::row_at(step) * S::PITCH + n * S::LANES;
  };
  // sums of row m += a * known, for the entry of A in the column of `step`
  const auto add = [&](int m, int step, const V (&known)[VECTORS]) __attribute__((always_inline)) {
    const auto re = a.re(S::row_at(first + m), S::row_at(step));
    MANSARD_UNROLL
    for (int n = 0; n < VECTORS; ++n) add_product(sums[m][n], re, known[n]);
    if constexpr (S::WORDS == 2) {
      const auto im = a.im(S::row_at(first + m), S::row_at(step));
      MANSARD_UNROLL
      for (int n = 0; n < VECTORS; ++n) add_product(turned[m][n], im, known[n]);
    }
  };
  const auto load_row = [&](int step, V (&known)[VECTORS]) __attribute__((always_inline)) {
    MANSARD_UNROLL
    for (int n = 0; n < VECTORS; ++n) known[n] = in_register(load<S::LANES>(at(step, n)));
  };
  for (int step = 0; step < first; ++step) {
    V known[VECTORS];
    load_row(step, known);
    MANSARD_UNROLL
    for (int m = 0; m < ROWS; ++m) add(m, step, known);
  }
  MANSARD_UNROLL
  for (int k = 0; k < ROWS; ++k) {
    V known[VECTORS];
    load_row(first + k, known);
    MANSARD_UNROLL
    for (int m = k + P::UNIT; m < ROWS; ++m) add(m, first + k, known);
    if constexpr (P::UNIT) {
      MANSARD_UNROLL
      for (int n = 0; n < VECTORS; ++n) sums[k][n] += known[n];
    }
  }
  MANSARD_UNROLL
  for (int m = 0; m < ROWS; ++m) {
    MANSARD_UNROLL
    for (int n = 0; n < VECTORS; ++n) {
      if constexpr (S::WORDS == 2)
        sums[m][n] = complex_product<false, false, S::LANES, R>(sums[m][n], turned[m][n]);
      store<S::LANES>(at(first + m, n), sums[m][n]);
    }
  }
}

template <class P, class A, class R = typename TrsmShape<P>::R>
MANSARD_INLINE void multiply_in_place(const A& a, R* x) {
  using S = TrsmShape<P>;
  Pieces<S::VECTORS, P::TILE_N>::for_each([&](int n, auto vectors) __attribute__((always_inline)) {
    Pieces<P::N, P::TILE_M>::for_each([&](int done, auto rows) __attribute__((always_inline)) {
      trmm_tile<P, rows, vectors>(a, x + n * S::LANES, P::N - done - rows);
    });
  });
}

template <class P, class Arguments>
struct TrmmOperands : TrsmOperands<P, Arguments> {
  using S = TrsmShape<P>;
  using Base = TrsmOperands<P, Arguments>;
  using T = typename P::T;
  using R = typename S::R;
  using Base::A, Base::B, Base::X, Base::alpha_re, Base::alpha_im;
  using Base::Base;

  void multiply_one(i64 b, R* workspace) const {
    const auto entry = [&](int i, int j) __attribute__((always_inline)) {
      return reinterpret_cast<T*>(workspace + i * S::PITCH) + j;
    };
    const T* const right = B[b];
    for_each_entry<P, Base::B_ROWS>([&](int i, int j) __attribute__((always_inline)) {
      *entry(i, j) = times(alpha_re, alpha_im, right[i * B.row + j * B.column]);
    });
    const Common<P> a{reinterpret_cast<const R*>(A[b]), A.row * S::WORDS, A.column * S::WORDS};
    multiply_in_place<P>(a, workspace);
    T* const out = X[b];
    for_each_entry<P, Base::X_ROWS>(
        [&](int i, int j) __attribute__((always_inline)) { out[i * X.row + j * X.column] = *entry(i, j); });
  }

  // Multiply matrices [b, b + count); lanes without a matrix repeat the last one.
  void multiply_group(i64 b, int count, R* workspace) const {
    const T *a[S::GROUP], *right[S::GROUP];
    T* out[S::GROUP];
    for (int i = 0; i < S::GROUP; ++i) {
      const i64 index = b + smaller(i, count - 1);
      a[i] = A[index], right[i] = B[index], out[i] = X[index];
    }
    constexpr bool A_ROWS = Base::A_ROWS, B_ROWS = Base::B_ROWS, X_ROWS = Base::X_ROWS;
    R* const triangles = workspace + S::X_REALS;
    const Transposition<P, P::N> of_a{A_ROWS ? A.row : A.column, A_ROWS ? A.column : A.row, P::N, 1};
    of_a.gather(triangles, a, P::N, [](int line) {
      return A_ROWS != P::UPPER ? std::pair(0, line + 1) : std::pair(line, P::N);
    });
    constexpr int B_LENGTH = B_ROWS ? P::NRHS : P::N, X_LENGTH = X_ROWS ? P::NRHS : P::N;
    const Transposition<P, B_LENGTH> of_b{B_ROWS ? B.row : B.column, B_ROWS ? B.column : B.row,
                                          B_ROWS ? P::NRHS : 1, B_ROWS ? 1 : P::NRHS};
    of_b.gather(workspace, right, B_ROWS ? P::N : P::NRHS, [=](int) { return std::pair(0, B_LENGTH); });
    if (alpha_re != 1 || alpha_im != 0)
      for (int i = 0; i < P::N * S::PITCH; i += S::LANES)
        store<S::LANES>(workspace + i, scaled<S::WORDS, S::LANES>(static_cast<R>(alpha_re), static_cast<R>(alpha_im),
                                                                  load<S::LANES>(workspace + i)));
    multiply_in_place<P>(Across<P>{triangles}, workspace);
    const Transposition<P, X_LENGTH> of_x{X_ROWS ? X.row : X.column, X_ROWS ? X.column : X.row,
                                          X_ROWS ? P::NRHS : 1, X_ROWS ? 1 : P::NRHS};
    of_x.scatter(out, workspace, X_ROWS ? P::N : P::NRHS, count);
  }
};

template <class P, class Arguments>
int trmm_simd(const Arguments& a) {
  using S = TrsmShape<P>;
  using R = typename S::R;
  const TrmmOperands<P, Arguments> operands(a);
  R* const workspaces = reinterpret_cast<R*>(a.partials);
  const i64 products = a.BATCH * P::N * (P::N + 1) / 2 * P::NRHS;
  in_parts(ceil_div(a.BATCH, i64(S::GROUP)), a.threads, products, [&](i64 begin, i64 end, i64 part) {
    R* const workspace = workspaces + part * S::WORKSPACE;
    if (operands.vanishes()) return operands.clear(begin * S::GROUP, smaller(end * S::GROUP, a.BATCH));
    std::memset(workspace, 0, S::X_REALS * sizeof(R));
    for (i64 item = begin; item < end; ++item) {
      const i64 b = item * S::GROUP;
      const int count = static_cast<int>(smaller<i64>(S::GROUP, a.BATCH - b));
      if constexpr (P::ACROSS) operands.multiply_group(b, count, workspace);
      else operands.multiply_one(b, workspace);
    }
  });
  return 0;
}

}  // namespace mansard
