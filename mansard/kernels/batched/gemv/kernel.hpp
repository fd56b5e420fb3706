// y_b = alpha A_b x_b + beta y_b for a batch of matrices on CPUs; sizes are compile-time constants.
//
// Lanes run along the lines of A. Row-major: a tile of rows is multiplied with vectors of x, and the sums of its rows
// are added across lanes at the end, all at once. Column-major: a tile of y stays in registers from the first column to
// the last.
//
// Complex entries are two reals. Products with x and with i x (or with its real and imaginary parts) are summed
// separately, so that nothing is shuffled before the sums are complete; conjugations, alpha and beta are applied then.
//
// Threads take runs of matrices dynamically, so that a delayed thread does not delay the others. The products of an
// entry are added in the same order in every thread.
//
// Params beside T, M, K, ROW_MAJOR_A, CONJ_A|B, ACCUMULATE, STACK_A|B|C, UNIT_B|C (whether entries are adjacent):
//   LANES     reals per vector; the last vector of a line may have fewer
//   TILE_M    rows, or vectors of rows, per register tile
//   PREFETCH  cache (1, 2) to which the tiles bring later matrices; 0 leaves it to the hardware
//   AHEAD     distance of the prefetch in bytes
#pragma once
#include "kernels/batched/gemm/kernel.hpp"

namespace mansard {

template <class P>
struct GemvShape {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  using V = Lanes<R, P::LANES>;
  static constexpr int WORDS = Scalar<T>::WORDS, LANES = P::LANES, LINE = CACHE_LINE / static_cast<int>(sizeof(R));
  static constexpr int LENGTH = WORDS * (P::ROW_MAJOR_A ? P::K : P::M);  // reals of a line of A
  static constexpr int VECTORS = ceil_div(LENGTH, LANES), LAST = LENGTH - (VECTORS - 1) * LANES;
  static constexpr int SPACE = P::UNIT_B ? 0 : round_up(WORDS * P::K, LINE);  // a thread's copy of x
  static constexpr int FAR = P::AHEAD / static_cast<int>(sizeof(R));

  static MANSARD_INLINE void fetch(const R* at, int reals) {
    if constexpr (P::PREFETCH > 0)
      for (int i = 0; i < reals; i += LINE) prefetch<P::PREFETCH>(at + FAR + i);
  }
  static_assert(LANES >= WORDS && LANES <= larger(native_lanes<R>, WORDS));
};

// ---- y ------------------------------------------------------------------------------------------------------

// A vector y; `step` counts reals.
template <class P>
struct Entry {
  using S = GemvShape<P>;
  using R = typename S::R;
  R* data;
  i64 step;
  R alpha_re, alpha_im, beta_re, beta_im;

  // Write COUNT reals of y from `first` on: alpha times `sum`, plus beta times the old ones with ACCUMULATE.
  template <int LANES, int COUNT>
  MANSARD_INLINE void put(int first, Lanes<R, LANES> sum) const {
    constexpr int WORDS = S::WORDS;
    using V = Lanes<R, LANES>;
    V value = scaled<WORDS, LANES>(alpha_re, alpha_im, sum);
    if constexpr (P::UNIT_C) {
      R* const to = data + first;
      if constexpr (P::ACCUMULATE) add_scaled<WORDS, LANES>(value, beta_re, beta_im, load_part<LANES, COUNT>(to));
      store_part<LANES, COUNT, !P::ACCUMULATE>(to, value);
    } else {
      R one[LANES], old[LANES] = {};
      const auto at = [&](int i) -> R& { return data[(first + i) / WORDS * step + (first + i) % WORDS]; };
      if constexpr (P::ACCUMULATE) {
        for (int i = 0; i < COUNT; ++i) old[i] = at(i);
        add_scaled<WORDS, LANES>(value, beta_re, beta_im, load_part<LANES, LANES>(old));
      }
      store_part<LANES, LANES>(one, value);
      for (int i = 0; i < COUNT; ++i) at(i) = one[i];
    }
  }
};

// ---- rows ---------------------------------------------------------------------------------------------------

template <int LEFT, class R, int LANES, int COUNT>
MANSARD_INLINE Lanes<R, LANES> half_as_many(Lanes<R, LANES> (&v)[COUNT]) {
  if constexpr (LEFT == 1) {
    return v[0];
  } else {
    constexpr int HALF = LEFT / 2;
    MANSARD_UNROLL
    for (int i = 0; i < HALF; ++i) {
      exchange_blocks<HALF, R, LANES>(v[i], v[i + HALF], std::make_integer_sequence<int, LANES>());
      v[i] += v[i + HALF];
    }
    return half_as_many<HALF, R, LANES>(v);
  }
}

// Lane i of the result is the sum of all lanes of vector i.
template <int COUNT, class R, int LANES>
MANSARD_INLINE Lanes<R, COUNT> sums_of_all(Lanes<R, LANES> (&v)[COUNT]) {
  if constexpr (LANES == 1) {
    return v[0];
  } else if constexpr (COUNT < LANES) {  // halves are added until there are as many vectors as lanes
    Lanes<R, LANES / 2> half[COUNT];
    MANSARD_UNROLL
    for (int i = 0; i < COUNT; ++i) {
      if constexpr (LANES == 2) half[i] = v[i][0] + v[i][1];
      else half[i] = low_half<R, LANES>(v[i]) + high_half<R, LANES>(v[i]);
    }
    return sums_of_all<COUNT, R, LANES / 2>(half);
  } else {
    return half_as_many<COUNT, R, LANES>(v);
  }
}

// y for ROWS rows from `first` on, row-major A.
template <class P, int ROWS, class R = typename GemvShape<P>::R>
MANSARD_INLINE void gemv_rows(Entries<const R> A, const R* x, const Entry<P>& y, int first) {
  using S = GemvShape<P>;
  using V = typename S::V;
  constexpr int LANES = S::LANES, WORDS = S::WORDS, COUNT = ROWS * WORDS;
  V sums[COUNT] = {};
  const R* const rows = A.data + first * A.row;
  S::fetch(rows, ROWS * S::LENGTH);
  const auto step = [&](int at, auto count) __attribute__((always_inline)) {
    const V factor = load_part<LANES, count>(x + at);
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r) {
      const V entries = load_part<LANES, count>(rows + r * A.row + at);
      add_product(sums[r * WORDS], entries, factor);
      if constexpr (WORDS == 2) add_product(sums[r * 2 + 1], entries, exchange<1, R, LANES>(factor));
    }
  };
  for (int v = 0; v + 1 < S::VECTORS; ++v) step(v * LANES, Int<LANES>());
  step((S::VECTORS - 1) * LANES, Int<S::LAST>());
  if constexpr (WORDS == 2) {
    constexpr R OF_A = P::CONJ_A ? -1 : 1, OF_X = P::CONJ_B ? -1 : 1;
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r) {
      sums[r * 2] *= alternating<R, LANES>(1, -OF_A * OF_X);
      sums[r * 2 + 1] *= alternating<R, LANES>(OF_X, OF_A);
    }
  }
  constexpr int AT_ONCE = smaller(COUNT, LANES);
  MANSARD_UNROLL
  for (int i = 0; i < COUNT; i += AT_ONCE) {
    V some[AT_ONCE];
    MANSARD_UNROLL
    for (int j = 0; j < AT_ONCE; ++j) some[j] = sums[i + j];
    y.template put<AT_ONCE, AT_ONCE>(first * WORDS + i, sums_of_all<AT_ONCE, R, LANES>(some));
  }
}

// y for the REST rows from `first` on that fill no tile: tiles of half as many rows, and so on.
template <class P, int REST, int ROWS, class R = typename GemvShape<P>::R>
MANSARD_INLINE void gemv_last_rows(Entries<const R> A, const R* x, const Entry<P>& y, int first) {
  if constexpr (REST >= ROWS) {
    gemv_rows<P, ROWS>(A, x, y, first);
    gemv_last_rows<P, REST - ROWS, ROWS>(A, x, y, first + ROWS);
  } else if constexpr (REST > 0) {
    gemv_last_rows<P, REST, ROWS / 2>(A, x, y, first);
  }
}

// ---- columns ------------------------------------------------------------------------------------------------

// VECTORS vectors of y from real `first` on, column-major A; the last vector has LAST reals.
template <class P, int VECTORS, int LAST, class R = typename GemvShape<P>::R>
MANSARD_INLINE void gemv_columns(Entries<const R> A, const R* x, const Entry<P>& y, int first) {
  using S = GemvShape<P>;
  using V = typename S::V;
  constexpr int LANES = S::LANES, WORDS = S::WORDS;
  V sums[VECTORS][WORDS] = {};
  const R* column = A.data + first;
  for (int k = 0; k < P::K; ++k, column += A.column) {
    S::fetch(column, VECTORS * LANES);
    MANSARD_UNROLL
    for (int v = 0; v < VECTORS; ++v) {
      const R* const from = column + v * LANES;
      const V entries = v + 1 < VECTORS ? load_part<LANES, LANES>(from) : load_part<LANES, LAST>(from);
      MANSARD_UNROLL
      for (int word = 0; word < WORDS; ++word) add_product(sums[v][word], x[k * WORDS + word], entries);
    }
  }
  MANSARD_UNROLL
  for (int v = 0; v < VECTORS; ++v) {
    V sum = sums[v][0];
    if constexpr (WORDS == 2) sum = complex_product<P::CONJ_B, P::CONJ_A, LANES, R>(sum, sums[v][1]);
    if (v + 1 < VECTORS) y.template put<LANES, LANES>(first + v * LANES, sum);
    else y.template put<LANES, LAST>(first + v * LANES, sum);
  }
}

// ---- the batch ----------------------------------------------------------------------------------------------

template <class P, class R = typename GemvShape<P>::R>
MANSARD_INLINE void gemv_matrix(Entries<const R> A, const R* x, const Entry<P>& y) {
  using S = GemvShape<P>;
  if constexpr (P::ROW_MAJOR_A) {
    int row = 0;
    for (; row + P::TILE_M <= P::M; row += P::TILE_M) gemv_rows<P, P::TILE_M>(A, x, y, row);
    gemv_last_rows<P, P::M % P::TILE_M, P::TILE_M>(A, x, y, row);
  } else {
    constexpr int WHOLE = (S::VECTORS - 1) / P::TILE_M, REST = S::VECTORS - WHOLE * P::TILE_M;
    for (int tile = 0; tile < WHOLE; ++tile)
      gemv_columns<P, P::TILE_M, S::LANES>(A, x, y, tile * P::TILE_M * S::LANES);
    gemv_columns<P, REST, S::LAST>(A, x, y, WHOLE * P::TILE_M * S::LANES);
  }
}

template <class P, class Arguments>
__attribute__((noinline)) void gemv_part(const Arguments& a, i64 begin, i64 end, typename GemvShape<P>::R* space) {
  using S = GemvShape<P>;
  using T = typename P::T;
  using R = typename S::R;
  constexpr int WORDS = S::WORDS;
  const StackOf<const T, const R, P::M, P::K, P::ROW_MAJOR_A, P::TIGHT, P::STACK_A> A{
      a.A, a.a_matrix, P::ROW_MAJOR_A ? a.a_row : a.a_col};
  const StackOf<const T, const R, P::K, 1, true, false, P::STACK_B> X{a.B, a.b_matrix, a.b_row};
  const StackOf<T, R, P::M, 1, true, false, P::STACK_C> Y{a.C, a.c_matrix, a.c_row};
  Entry<P> y{nullptr, a.c_row * WORDS, static_cast<R>(a.alpha_re), static_cast<R>(a.alpha_im),
             static_cast<R>(a.beta_re), static_cast<R>(a.beta_im)};
  for (i64 b = begin; b < end; ++b) {
    const Entries<const R> from = X[b];
    const R* x = from.data;
    if constexpr (!P::UNIT_B) {
      for (int i = 0; i < P::K * WORDS; ++i) space[i] = from.data[i / WORDS * from.row + i % WORDS];
      x = space;
    }
    y.data = Y[b].data;
    gemv_matrix<P>(A[b], x, y);
  }
}

template <class P, class Arguments>
int gemv_simd(const Arguments& a) {
  using R = typename Scalar<typename P::T>::Real;
  R* const workspace = reinterpret_cast<R*>(a.partials);
  constexpr i64 RUN = larger<i64>(1, (1 << 17) / (P::M * P::K));  // matrices; about a tenth of a millisecond
  const i64 runs = ceil_div<i64>(a.BATCH, RUN), threads = smaller<i64>(a.threads, runs);
  const auto run = [&](auto params) {
    using Q = decltype(params);
    if (threads <= 1) return gemv_part<Q>(a, i64(0), a.BATCH, workspace);
#pragma omp parallel for schedule(dynamic) num_threads(static_cast<int>(threads))
    for (i64 r = 0; r < runs; ++r)
      gemv_part<Q>(a, r * RUN, smaller(a.BATCH, (r + 1) * RUN), workspace + thread_index() * GemvShape<Q>::SPACE);
  };
  if constexpr (P::STACK_A == StackA::packed) run(Tight<P>());
  else if (P::ROW_MAJOR_A ? a.a_row == P::K : a.a_col == P::M) run(Tight<P>());
  else run(Loose<P>());
  return 0;
}

}  // namespace mansard
