// P A = L U of a batch of small matrices on CPUs, one matrix per SIMD lane; sizes, layouts, strides and what is wanted of
// the factors (solutions, inverses, determinants) are arguments, so that one kernel of a dtype serves all systems whose
// work does not earn a kernel of their own.
//
// Step k:  p = argmax |a_ik| for i >= k;  exchange rows k and p;  l_ik = a_ik / a_kk;  a_ij -= l_ik * a_kj for i, j > k.
//
// Team. A vector holds the same entry of LANES matrices, which lie row after row in the workspace. The pivot row is
// another one in every lane: it is gathered, and row k is scattered to where it was. Right-hand sides (the unit matrix
// for inverses) take part in the steps. Where pivots are ordinary numbers, factors, solutions and inverses have the
// bits that kernel_small.hpp gives.
//
// Workspace of a thread, vectors of LANES reals:
//   entries  M * N      A, then L and U
//   right    N * RIGHT  right-hand sides, then X or the inverse
//   places   K          pivot index of step k
//
// Phases: read a group into lanes; factor; substitute backward (solve, inverse); write.
//
// Limits: loads and stores of the entries that a step updates (one of each per multiply-add); exchanges, about twelve
// cycles per column and step.
//
// Params beside T: none.
#pragma once
#include "kernels/factor/lu/results.hpp"
#include "mansard/cpu/first_lanes.hpp"

namespace mansard {

// Params of results.hpp: pivots are noted, and numbers written, by what is wanted.
template <class Type, Want WANTED>
struct LuRuntimeParams {
  using T = Type;
  static constexpr int M = 1, N = 1, NRHS = 1, LANES = native_lanes<typename Scalar<T>::Real>;
  static constexpr int PANEL = 1, TILE_N = 1, STEPS = 1;
  static constexpr bool PIVOT = true;
  static constexpr Want WANT = WANTED;
};

// Scatter: base[at[l]] gets lane l.
template <class R, int LANES>
MANSARD_INLINE void scatter(R* base, Vector<IndexOf<R>, LANES> at, Vector<R, LANES> v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(R) == 8 && LANES == 8) return _mm512_i64scatter_pd(base, reinterpret_cast<__m512i>(at), v, 8);
  else if constexpr (sizeof(R) == 4 && LANES == 16)
    return _mm512_i32scatter_ps(base, reinterpret_cast<__m512i>(at), v, 4);
  else
#endif
    for (int lane = 0; lane < LANES; ++lane) base[at[lane]] = v[lane];
}

// Matrices of a batch, of which a group is made; strides count elements.
template <class T>
struct LuMatrices {
  T* data;
  i64 matrix, row, column;
  MANSARD_INLINE T* operator[](i64 b) const { return data + b * matrix; }
};

// ---- reading and writing ----------------------------------------------------------------------------------

// Lines of a matrix that are adjacent in memory, and the places of their entries in lanes: row after row, `columns`
// entries each.
struct LuLines {
  i64 lines, length, line;  // number of lines, their entries, elements from one to the next
  i64 down, along;          // entries in lanes from one line to the next, and along a line

  LuLines(i64 rows, i64 columns, i64 row, i64 column) {
    if (column == 1 && row == columns) *this = {1, rows * columns, 0, 0, 1};
    else if (column == 1) *this = {rows, columns, row, columns, 1};
    else if (row == 1) *this = {columns, rows, column, 1, columns};
    else if (columns == 1) *this = {rows, 1, row, 1, 1};
    else *this = {columns, 1, column, 1, columns};  // a single row
  }

 private:
  LuLines(i64 lines, i64 length, i64 line, i64 down, i64 along)
      : lines(lines), length(length), line(line), down(down), along(along) {}
};

template <class T>
struct LuRuntime {
  using R = typename Scalar<T>::Real;
  static constexpr int LANES = native_lanes<R>, WORDS = Scalar<T>::WORDS;
  using V = Vector<R, LANES>;
  using Index = Vector<IndexOf<R>, LANES>;
  using Entry = Number<T, LANES>;
  using P = LuRuntimeParams<T, Want::factor>;
  static constexpr int REALS = Entry::REALS, TILE = WORDS == 2 ? 2 : 4;
  static constexpr int FEW = 8;  // rows: of more, selecting among all takes longer than a gather and a scatter

  i64 m, n, right, steps;
  R *entries, *beside, *places;

  LuRuntime(i64 m, i64 n, i64 right, R* workspace)
      : m(m), n(n), right(right), steps(smaller(m, n)), entries(workspace), beside(entries + m * n * REALS),
        places(beside + n * right * REALS) {}

  MANSARD_INLINE R* entry(i64 i, i64 j) const { return entries + (i * n + j) * REALS; }

  // Calls visit(first real in memory, number of reals, place(i)) for every vector of all lines; place(i) is where the lanes
  // of its real i are.
  template <class Visit>
  static MANSARD_INLINE void for_vectors(const LuLines& all, R* lanes, Visit visit) {
    for (i64 l = 0; l < all.lines; ++l)
      for (i64 word = 0; word < all.length * WORDS; word += LANES)
        visit(l * all.line * WORDS + word, static_cast<int>(smaller<i64>(LANES, all.length * WORDS - word)),
              [&](int i) __attribute__((always_inline)) {
                const i64 at = word + i;
                return lanes + (l * all.down + at / WORDS * all.along) * REALS + at % WORDS * LANES;
              });
  }

  // Read rows x columns matrices of a group to `to`; write those at `from`.
  static void read(R* to, const Group<const T, LANES>& group, i64 rows, i64 columns) {
    for_vectors(LuLines(rows, columns, group.row, group.column), to, [&](i64 word, int count, auto place) {
      const FirstLanes<R> part(count);
      V square[LANES];
      MANSARD_UNROLL
      for (int i = 0; i < LANES; ++i) square[i] = part.load(reinterpret_cast<const R*>(group.matrices[i]) + word);
      transpose<1, R, LANES>(square);
      MANSARD_UNROLL
      for (int i = 0; i < LANES; ++i)
        if (i < count) store<LANES>(place(i), square[i]);
    });
  }
  static void write(const Group<T, LANES>& group, R* from, i64 rows, i64 columns) {
    for_vectors(LuLines(rows, columns, group.row, group.column), from, [&](i64 word, int count, auto place) {
      const FirstLanes<R> part(count);
      V square[LANES] = {};
      MANSARD_UNROLL
      for (int i = 0; i < LANES; ++i)
        if (i < count) square[i] = load<LANES>(place(i));
      transpose<1, R, LANES>(square);
      MANSARD_UNROLL
      for (int i = 0; i < LANES; ++i)
        if (i < group.count) part.store(reinterpret_cast<R*>(group.matrices[i]) + word, square[i]);
    });
  }

  // ---- elimination ------------------------------------------------------------------------------------------

  // Index of the row with the largest entry of column k, from row k on; of equal entries the first wins. As in LAPACK,
  // a NaN is the pivot only if it stands in row k already.
  V largest(i64 k) const {
    V best = Entry::at(entry(k, k)).magnitude(), place = all_lanes<R, LANES>(static_cast<R>(k));
    for (i64 i = k + 1; i < m; ++i) {
      const V size = Entry::at(entry(i, k)).magnitude();
      const auto larger = greater<R, LANES>(size, best);
      best = select<R, LANES>(larger, size, best);
      place = select<R, LANES>(larger, all_lanes<R, LANES>(static_cast<R>(i)), place);
    }
    return place;
  }

  // Exchange row k and the row `place` of each lane, in columns from `begin` on of rows of `pitch` entries: all rows are
  // selected from where they are few, otherwise the other row is gathered, and row k scattered to its place.
  MANSARD_INLINE void exchange(R* rows, i64 pitch, i64 k, V place, i64 begin) const {
    if (m <= FEW) exchange_few(rows, pitch, k, place, begin);
    else exchange_many(rows, pitch, k, place, begin);
  }
  void exchange_few(R* rows, i64 pitch, i64 k, V place, i64 begin) const {
    for (i64 i = k + 1; i < m; ++i) {
      const auto here = equal<R, LANES>(place, all_lanes<R, LANES>(static_cast<R>(i)));
      R *const top = rows + k * pitch * REALS, *const other = rows + i * pitch * REALS;
      for (i64 real = begin * REALS; real < pitch * REALS; real += LANES) {
        const V up = load<LANES>(top + real), down = load<LANES>(other + real);
        store<LANES>(top + real, select<R, LANES>(here, down, up));
        store<LANES>(other + real, select<R, LANES>(here, up, down));
      }
    }
  }
  void exchange_many(R* rows, i64 pitch, i64 k, V place, i64 begin) const {
    Index at = __builtin_convertvector(place, Index) * static_cast<IndexOf<R>>(pitch * REALS);
    MANSARD_UNROLL
    for (int lane = 0; lane < LANES; ++lane) at[lane] += lane;
    for (i64 real = begin * REALS; real < pitch * REALS; real += LANES) {
      const V up = gathered<R, LANES>(rows + real, at), down = load<LANES>(rows + k * pitch * REALS + real);
      store<LANES>(rows + k * pitch * REALS + real, up);
      scatter<R, LANES>(rows + real, at, down);
    }
  }

  // rows i -= factor(i) * row k for rows [first, last), in the columns [begin, pitch) of rows of `pitch` entries.
  template <class Factor>
  static MANSARD_INLINE void subtract(R* rows, i64 pitch, i64 k, i64 first, i64 last, i64 begin, Factor factor) {
    for_tiles<TILE>(static_cast<int>(begin), static_cast<int>(pitch), [&](int j, auto columns)
                        __attribute__((always_inline)) {
      constexpr int COLUMNS = decltype(columns)::value;
      Entry row[COLUMNS];
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) row[c] = Entry::at(rows + (k * pitch + j + c) * REALS).kept();
      for (i64 i = first; i < last; ++i) {
        const Entry multiplier = Entry::at(factor(i)).kept();
        MANSARD_UNROLL
        for (int c = 0; c < COLUMNS; ++c) {
          R* const to = rows + (i * pitch + j + c) * REALS;
          Entry updated = Entry::at(to);
          updated.subtract(multiplier, row[c]);
          updated.to(to);
        }
      }
    });
  }

  void factor(bool pivots, bool all_columns) const {
    for (i64 k = 0; k < steps; ++k) {
      const V here = all_lanes<R, LANES>(static_cast<R>(k)), place = pivots ? largest(k) : here;
      store<LANES>(places + k * LANES, place);
      if ((!equal<R, LANES>(place, here)).any()) {
        exchange(entries, n, k, place, all_columns ? 0 : k);
        exchange(beside, right, k, place, 0);
      }
      Divisor<P>(Entry::at(entry(k, k))).use([&](auto divide) __attribute__((always_inline)) {
        for (i64 i = k + 1; i < m; ++i) divide(Entry::at(entry(i, k))).to(entry(i, k));
      });
      const auto multiplier = [&](i64 i) __attribute__((always_inline)) { return entry(i, k); };
      subtract(entries, n, k, k + 1, m, k + 1, multiplier);
      subtract(beside, right, k, k + 1, m, 0, multiplier);
    }
  }

  // Backward substitution U X = Y; X replaces Y. A pivot of zero divides.
  void substitute() const {
    constexpr R LEAST = 4 * std::numeric_limits<R>::min();
    for (i64 k = n - 1; k >= 0; --k) {
      const Entry pivot = Entry::at(entry(k, k));
      const V size = pivot.magnitude();
      const auto odd = !(greater<R, LANES>(size, all_lanes<R, LANES>(LEAST)) &
                         greater<R, LANES>(all_lanes<R, LANES>(1 / LEAST), size));
      const Entry reciprocal = Entry::real(all_lanes<R, LANES>(1)) / pivot;
      const bool any = odd.any();
      for (i64 j = 0; j < right; ++j) {
        R* const to = beside + (k * right + j) * REALS;
        const Entry y = Entry::at(to);
        Entry x = y * reciprocal;
        if (__builtin_expect(any, false)) x = pick(odd, y / pivot, x);
        x.to(to);
      }
      subtract(beside, right, k, 0, k, 0, [&](i64 i) __attribute__((always_inline)) { return entry(i, k); });
    }
  }

  // Write info and, as WANT says, determinants of a group.
  template <Want WANT, class Arguments>
  void write_numbers(const Arguments& a, i64 b, int count) const {
    using Q = LuRuntimeParams<T, WANT>;
    LuState<Q> state;
    for (i64 k = 0; k < steps; ++k) {
      const Entry pivot = Entry::at(entry(k, k));
      state.note(static_cast<int>(k), pivot, equal<R, LANES>(pivot.magnitude(), V{}), load<LANES>(places + k * LANES));
    }
    lu_write_numbers<Q>(a, LuPlaces<Q>{nullptr}, state, b, count);
  }
};

// ---- the batch --------------------------------------------------------------------------------------------

template <class T, class Arguments>
void lu_runtime_group(const Arguments& a, i64 b, int count, const LuRuntime<T>& all) {
  using S = LuRuntime<T>;
  const auto group = [&](auto* data, i64 matrix, i64 row, i64 column) {
    using Element = std::remove_pointer_t<decltype(data)>;
    return Group<Element, S::LANES>(LuMatrices<Element>{data, matrix, row, column}, b, count);
  };
  const auto want = static_cast<Want>(a.want);
  S::read(all.entries, group(a.A, a.a_matrix, a.a_row, a.a_col), all.m, all.n);
  if (want == Want::solve) {
    S::read(all.beside, group(a.B, a.b_matrix, a.b_row, a.b_col), all.n, all.right);
  } else if (want == Want::inverse) {
    for (i64 i = 0; i < all.n; ++i)
      for (i64 j = 0; j < all.n; ++j)
        S::Entry::real(all_lanes<typename S::R, S::LANES>(i == j)).to(all.beside + (i * all.n + j) * S::REALS);
  }
  all.factor(a.pivot != 0, want == Want::factor);
  if (want == Want::determinant) return all.template write_numbers<Want::determinant>(a, b, count);
  if (want == Want::logdet) return all.template write_numbers<Want::logdet>(a, b, count);
  all.template write_numbers<Want::solve>(a, b, count);
  if (want == Want::factor) {
    S::write(group(a.F, a.f_matrix, a.f_row, a.f_col), all.entries, all.m, all.n);
    for (int lane = 0; lane < count; ++lane)
      for (i64 k = 0; k < all.steps; ++k)
        a.PIVOTS[(b + lane) * all.steps + k] = static_cast<int>(all.places[k * S::LANES + lane]);
    return;
  }
  all.substitute();
  if (want == Want::solve) S::write(group(a.X, a.x_matrix, a.x_row, a.x_col), all.beside, all.n, all.right);
  else S::write(group(a.F, a.f_matrix, a.f_row, a.f_col), all.beside, all.n, all.right);
}

template <class P, class Arguments>
int lu_runtime(const Arguments& a) {
  using T = typename P::T;
  using S = LuRuntime<T>;
  using R = typename S::R;
  const auto want = static_cast<Want>(a.want);
  const i64 right = want == Want::solve ? a.NRHS : want == Want::inverse ? a.N : 0, steps = smaller(a.M, a.N);
  const i64 reals = (a.M * a.N + a.N * right) * S::REALS + steps * S::LANES;
  in_parts(ceil_div(a.BATCH, i64(S::LANES)), a.threads, a.BATCH * a.M * (a.N + right) * steps / 2,
           [&](i64 begin, i64 end, i64 p) {
    const S all(a.M, a.N, right, reinterpret_cast<R*>(a.partials) + p * reals);
    for (i64 group = begin; group < end; ++group)
      lu_runtime_group<T>(a, group * S::LANES,
                          static_cast<int>(smaller<i64>(S::LANES, a.BATCH - group * S::LANES)), all);
  });
  return 0;
}

}  // namespace mansard
