// P A = L U of a batch of small matrices on CPUs with short vectors: one matrix at a time, vectors along the rows.
//
// Step k:  p = argmax |a_ik| for i >= k;  exchange the pointers of rows k and p;  l_ik = a_ik / a_kk for i > k;
// a_ij -= l_ik * a_kj for i, j > k, with the vectors of row k in registers.
//
// Team. A thread factors MATRICES matrices in turn: while one waits for its pivot, the other eliminates.
// Workspace of a matrix: M rows of PITCH reals; N columns, then from FIRST on RIGHT right-hand sides (the unit matrix
// for inverses). Rows begin on a vector; RIGHT > 1 begins on one, too. PITCH is padded by a cache line where rows would
// otherwise share few sets of the cache (CROWDED).
//
// Phases: copy the rows; all steps, unrolled for small matrices (UNROLLED), otherwise by panels (panels.hpp);
// substitute backward; write rows in pivot order.
//
// Limits (Neoverse N1, float64): the pivot search at small sizes (LU of 12 rows takes 1600 clocks, 1030 without
// pivoting). Solves reach 27, 41, 56 % of the multiply-add rate at 32, 64, 128 rows.
//
// Params beside T, M, N, NRHS, WANT, PIVOT, LAYOUT_A|F|B|X, STACK_A|F|B|X:
//   LANES     reals per vector
//   TILE_N    vectors of pivot rows that stay in registers
//   MATRICES  matrices factored in turn by a thread
#pragma once
#include "kernels/factor/lu/panels.hpp"
#include "kernels/factor/lu/results.hpp"

namespace mansard {

template <class P>
struct LuRowwise {
  using R = typename P::T;
  using V = Vector<R, P::LANES>;
  using Bits = std::conditional_t<sizeof(R) == 8, unsigned long long, u32>;
  static constexpr int LANES = P::LANES, M = P::M, N = P::N, K = smaller(M, N);
  static constexpr int RIGHT = P::WANT == Want::solve ? P::NRHS : P::WANT == Want::inverse ? N : 0;
  static constexpr int FIRST = RIGHT > 1 ? round_up(N, LANES) : N;  // column of the first right-hand side
  static constexpr int LENGTH = round_up(FIRST + RIGHT, LANES);  // reals of a row, to the end of its last vector
  static constexpr bool CROWDED = M > 64 && LENGTH * sizeof(R) % 512 == 0;  // rows would share few sets of a cache
  static constexpr int PITCH = LENGTH + (CROWDED ? CACHE_LINE / int(sizeof(R)) : 0);
  static constexpr int WORKSPACE = round_up(M * PITCH, 128 / int(sizeof(R)));  // threads share no line
  static constexpr bool PIVOT = P::PIVOT, KEEPS_F = P::WANT == Want::factor;
  static constexpr bool UNROLLED = M <= (RIGHT > 1 ? 10 : KEEPS_F ? 15 : 18) && LENGTH <= 32;  // beyond, panels win
  static constexpr int TILE_N = P::TILE_N;
  static constexpr R LEAST = 4 * std::numeric_limits<R>::min();
  static_assert(std::is_floating_point_v<R> && (RIGHT == 0 || M == N));

  using Rows = std::array<R*, M>;
  Rows rows;
  R reciprocals[K];
  int pivots[K], info = 0;
  bool extreme = false;  // whether the reciprocal of a pivot was not an ordinary number

  // ---- a step -----------------------------------------------------------------------------------------------

  // |x| as bits: the bit patterns of non-negative numbers are ordered as the numbers are.
  static MANSARD_INLINE Bits size_of(const R* entry) {
    Bits bits;
    std::memcpy(&bits, entry, sizeof bits);
    return bits & (~Bits(0) >> 1);
  }
  // |x| as bits, with 0 for a NaN, which never wins a comparison then.
  static MANSARD_INLINE Bits countable(const R* entry) {
    const R infinite = std::numeric_limits<R>::infinity();
    const Bits size = size_of(entry);
    return size > size_of(&infinite) ? 0 : size;
  }
  // Exchange the pointers of rows k and `place`. rows[k] is stored last, so that the next load of it is
  // served by the latest store.
  MANSARD_INLINE void exchange(int k, i64 place) {
    R* const pivot = rows[place];
    pivots[k] = static_cast<int>(place);
    rows[place] = rows[k];
    rows[k] = pivot;
  }

  // Divide column k by a pivot whose reciprocal is not an ordinary number; a zero pivot leaves the column as it is.
  // Takes a copy of the pointers: those whose address escapes would not stay in registers.
  static __attribute__((noinline, cold)) void divide(Rows rows, int k, R diagonal) {
    for (int i = k + 1; diagonal != 0 && i < M; ++i) rows[i][k] /= diagonal;
  }

  // Factor that turns entries below pivot k into multipliers: the reciprocal, or 1 if `divide` has divided already.
  MANSARD_INLINE R invert(int k) {
    const R diagonal = rows[k][k], size = std::abs(diagonal);
    R factor = 1 / diagonal;
    if (__builtin_expect(!(size >= LEAST && size <= 1 / LEAST), false)) {
      divide(rows, k, diagonal);
      if (diagonal == 0) info = info != 0 ? info : k + 1;
      extreme = true;
      factor = 1;
    }
    if constexpr (RIGHT > 0) reciprocals[k] = factor;
    return factor;
  }

  // Step k; it changes the vectors of a row from number BEGIN on.
  template <int BEGIN>
  MANSARD_INLINE void step(int k) {
    if constexpr (PIVOT) pivots[k] = exchange_largest(rows, k);
    const R factor = invert(k);
    R multipliers[M];
    MANSARD_UNROLL
    for (int i = k + 1; i < M; ++i) multipliers[i] = rows[i][k] * factor;
    eliminate<BEGIN>(k, multipliers);
  }

  // Update all rows below k. A row keeps its multipliers in columns 0 .. k. The one of this step is inserted into its
  // vector: a store of its own would delay the next load of that vector.
  template <int BEGIN>
  MANSARD_INLINE void eliminate(int k, const R (&multipliers)[M]) {
    constexpr int COUNT = smaller(LENGTH / LANES - BEGIN, P::TILE_N);
    if constexpr (COUNT > 0) {
      V row[COUNT];
      MANSARD_UNROLL
      for (int v = 0; v < COUNT; ++v) {
        row[v] = load<LANES>(rows[k] + (BEGIN + v) * LANES);
        MANSARD_UNROLL
        for (int lane = 0; lane < LANES; ++lane)
          if (KEEPS_F && v == 0 && (BEGIN + v) * LANES + lane <= k) row[v][lane] = 0;
      }
      MANSARD_UNROLL
      for (int i = k + 1; i < M; ++i) {
        R* const to = rows[i] + BEGIN * LANES;
        const R multiplier = multipliers[i];
        MANSARD_UNROLL
        for (int v = 0; v < COUNT; ++v) {
          V entries = load<LANES>(to + v * LANES);
          if (!(KEEPS_F && (BEGIN + v + 1) * LANES <= k + 1)) subtract_product(entries, multiplier, row[v]);
          if (KEEPS_F && k / LANES == BEGIN + v) entries[k % LANES] = multiplier;
          store<LANES>(to + v * LANES, entries);
        }
      }
      eliminate<BEGIN + COUNT>(k, multipliers);
    }
  }

  // All steps from k on, for COUNT matrices in turn.
  template <int k, int COUNT>
  static MANSARD_INLINE void steps(LuRowwise (&all)[COUNT]) {
    if constexpr (!UNROLLED) {
      for (auto& one : all) LuPanels<LuRowwise>{one}.eliminate();
    } else if constexpr (k < K) {
      constexpr int BEGIN = (KEEPS_F ? k : k + 1) / LANES;
      MANSARD_UNROLL
      for (int one = 0; one < COUNT; ++one) all[one].template step<BEGIN>(k);
      steps<k + 1>(all);
    }
  }

  // ---- right-hand sides -------------------------------------------------------------------------------------

  // Backward substitution with divisions, for extreme pivots.
  static __attribute__((noinline, cold)) void substitute_by_division(Rows rows) {
    for (int k = N - 1; k >= 0; --k)
      for (int j = FIRST; j < FIRST + RIGHT; ++j) {
        rows[k][j] /= rows[k][k];
        for (int i = 0; i < k; ++i) subtract_product(rows[i][j], rows[i][k], rows[k][j]);
      }
  }
  // Backward substitution U X = Y; X replaces Y in the columns from FIRST on.
  MANSARD_INLINE void substitute() {
    if (__builtin_expect(extreme, false)) substitute_by_division(rows);
    else if constexpr (!UNROLLED) LuPanels<LuRowwise>{*this}.substitute();
    else if constexpr (RIGHT == 1) {
      R y[N];
      MANSARD_UNROLL
      for (int i = 0; i < N; ++i) y[i] = rows[i][N];
      MANSARD_UNROLL
      for (int k = N - 1; k >= 0; --k) {
        const R x = y[k] * reciprocals[k];
        rows[k][N] = x;
        MANSARD_UNROLL
        for (int i = 0; i < k; ++i) subtract_product(y[i], rows[i][k], x);
      }
    } else {
      for (int k = N - 1; k >= 0; --k) {
        for (int j = 0; j < RIGHT; ++j) rows[k][FIRST + j] *= reciprocals[k];
        for (int i = 0; i < k; ++i) {
          const R factor = rows[i][k];
          MANSARD_UNROLL_SHORT
          for (int j = FIRST; j < LENGTH; j += LANES)
            store<LANES>(rows[i] + j, minus_product(load<LANES>(rows[i] + j), factor, load<LANES>(rows[k] + j)));
        }
      }
    }
  }
};

// ---- from the arrays and back -----------------------------------------------------------------------------

// Copy COUNT entries of a row with the given strides. Rows of more than 256 bytes are copied by vectors: the C
// library's memcpy makes 64 rows from memory take a quarter longer.
template <int COUNT, bool DENSE, class R>
MANSARD_INLINE void copy_line(R* to, i64 to_step, const R* from, i64 from_step) {
  constexpr int LANES = 16 / sizeof(R), VECTORS = DENSE && COUNT * sizeof(R) > 256 ? COUNT / LANES : 0;
  MANSARD_UNROLL_SHORT
  for (int v = 0; v < VECTORS; ++v) store<LANES>(to + v * LANES, load<LANES>(from + v * LANES));
  constexpr int DONE = VECTORS * LANES;
  if constexpr (DENSE || COUNT == 1) std::memcpy(to + DONE, from + DONE, (COUNT - DONE) * sizeof(R));
  else
    for (int j = 0; j < COUNT; ++j) to[j * to_step] = from[j * from_step];
}

template <class P, bool DENSE, class Arguments>
MANSARD_INLINE void lu_read_lines(const Arguments& a, LuRowwise<P>& all, i64 b, typename P::T* workspace) {
  using S = LuRowwise<P>;
  using R = typename S::R;
  const R* const A = Matrices<const R, P::STACK_A>{a.A, a.a_matrix, a.a_row, a.a_col}[b];
  const R* B = nullptr;
  if constexpr (P::WANT == Want::solve) B = Matrices<const R, P::STACK_B>{a.B, a.b_matrix, a.b_row, a.b_col}[b];
  for_range<S::UNROLLED>(0, S::M, [&](int i) __attribute__((always_inline)) {
    R* const row = all.rows[i] = workspace + i * S::PITCH;
    const R *const line = A + i * a.a_row, *const beside = B != nullptr ? B + i * a.b_row : nullptr;
    const auto entry = [&](int j) __attribute__((always_inline)) {
      if (j < S::N) return line[DENSE ? j : j * a.a_col];
      if (j < S::FIRST || j >= S::FIRST + S::RIGHT) return R(0);
      return P::WANT == Want::inverse ? R(j - S::FIRST == i) : beside[DENSE ? j - S::FIRST : (j - S::FIRST) * a.b_col];
    };
    MANSARD_UNROLL
    for (int j = 0; j < S::LENGTH; j += S::LANES) {  // whole vectors: a load that meets two stores waits for both
      typename S::V entries;
      if (DENSE && j + S::LANES <= S::N) entries = load<S::LANES>(line + j);
      else
        MANSARD_UNROLL
        for (int lane = 0; lane < S::LANES; ++lane) entries[lane] = entry(j + lane);
      store<S::LANES>(row + j, entries);
    }
  });
}

template <class P, bool DENSE, class Arguments>
MANSARD_INLINE void lu_write_lines(const Arguments& a, const LuRowwise<P>& all, i64 b) {
  using S = LuRowwise<P>;
  using R = typename S::R;
  if constexpr (P::WANT == Want::solve) {
    R* const X = Matrices<R, P::STACK_X>{a.X, a.x_matrix, a.x_row, a.x_col}[b];
    for_range<S::UNROLLED>(0, S::M, [&](int i) __attribute__((always_inline)) {
      copy_line<S::RIGHT, DENSE>(X + i * a.x_row, a.x_col, all.rows[i] + S::FIRST, 1);
    });
  } else {
    R* const F = Matrices<R, P::STACK_F>{a.F, a.f_matrix, a.f_row, a.f_col}[b];
    constexpr int SHIFT = P::WANT == Want::inverse ? S::FIRST : 0;
    for_range<S::UNROLLED>(0, S::M, [&](int i) __attribute__((always_inline)) {
      copy_line<S::N, DENSE>(F + i * a.f_row, a.f_col, all.rows[i] + SHIFT, 1);
    });
  }
}

// Write the product of the pivots; for logdet its sign and the logarithm of its size, from mantissas and exponents.
template <class P, class Arguments>
inline void lu_write_determinant(const Arguments& a, const LuRowwise<P>& all, i64 b) {
  using R = typename P::T;
  R product = 1;
  double size = 1, exponents = 0;
  for (int k = 0; k < P::N; ++k) {
    R pivot = all.rows[k][k];
    if (P::PIVOT && all.pivots[k] != k) pivot = -pivot;
    if constexpr (P::WANT == Want::logdet) {
      int exponent = 0;
      size = std::frexp(size * std::abs(static_cast<double>(pivot)), &exponent);
      exponents += exponent;
      pivot = pivot > 0 ? 1 : pivot < 0 ? -1 : pivot;
    }
    product *= pivot;
  }
  a.F[b * a.f_matrix] = product;
  if constexpr (P::WANT == Want::logdet) {
    constexpr double LOG_2 = 0.693147180559945309417232121458, INFINITE = std::numeric_limits<double>::infinity();
    if (size < 0.75) size *= 2, --exponents;  // close to 1, where the logarithm keeps all its digits
    a.X[b * a.x_matrix] = static_cast<R>(all.info != 0 ? -INFINITE : std::log(size) + exponents * LOG_2);
  }
}

// Factor matrices b .. b + count - 1. If count < MATRICES, the last one is factored again and not written.
template <class P, class Arguments>
MANSARD_INLINE void lu_some(const Arguments& a, i64 b, int count, typename P::T* workspace) {
  using S = LuRowwise<P>;
  constexpr bool SOLVES = P::WANT == Want::solve, SINGLE = S::RIGHT == 1;
  S all[P::MATRICES];
  MANSARD_UNROLL
  for (int one = 0; one < P::MATRICES; ++one) {
    typename S::R* const place = workspace + one * S::WORKSPACE;
    const i64 which = b + smaller(one, count - 1);
    if (a.a_col == 1 && (!SOLVES || SINGLE || a.b_col == 1)) lu_read_lines<P, true>(a, all[one], which, place);
    else lu_read_lines<P, false>(a, all[one], which, place);
  }
  S::template steps<0>(all);
  MANSARD_UNROLL
  for (int one = 0; one < P::MATRICES; ++one) {
    if (one >= count) return;
    if constexpr (S::RIGHT > 0) all[one].substitute();
    if constexpr (P::WANT == Want::determinant || P::WANT == Want::logdet) lu_write_determinant<P>(a, all[one], b + one);
    else if (SOLVES ? SINGLE || a.x_col == 1 : a.f_col == 1) lu_write_lines<P, true>(a, all[one], b + one);
    else lu_write_lines<P, false>(a, all[one], b + one);
    a.INFO[b + one] = all[one].info;
    if constexpr (P::WANT == Want::factor)
      for (int k = 0; k < S::K; ++k) a.PIVOTS[(b + one) * S::K + k] = P::PIVOT ? all[one].pivots[k] : k;
  }
}

template <class P, class Arguments>
int lu_rowwise(const Arguments& a) {
  using S = LuRowwise<P>;
  const i64 products = a.BATCH * S::M * (S::N + S::RIGHT) * S::K / 2;
  for_groups<P::MATRICES, P::MATRICES * S::WORKSPACE>(
      a.BATCH, a.threads, products, reinterpret_cast<typename S::R*>(a.partials),
      [&](i64 b, int count, typename S::R* workspace) { lu_some<P>(a, b, count, workspace); });
  return 0;
}

}  // namespace mansard
