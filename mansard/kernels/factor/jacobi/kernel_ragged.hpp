// Eigenvalues and -vectors of Hermitian matrices, or singular values and vectors, of a ragged batch on CPUs: every
// matrix has sizes of its own, known at run time, and one kernel does them all.
//
//   [A 0]   [Z 0] [W 0] [Z 0]^H         [A 0]   [U 0] [S 0] [V 0]^H
//   [0 0] = [0 I] [0 0] [0 I]     and   [0 0] = [0 I] [0 0] [0 I]
//
// Team. A thread takes one group of LANES matrices after the other, the largest first; the host sorts them, so that the
// orders of a group are alike. Smaller ones are padded with zeros to the order of the first. Reflections and rotations of
// the padding are identities, exactly; its values are set apart before all values are sorted, and come last. Results do
// not depend on the other matrices.
//
// A tall matrix of m rows is padded to order m, which completes U; a wide one is read as its adjoint.
//
// Workspace of a thread, method, limits: see symmetric.hpp and singular.hpp.
//
// Params beside T and WANT:
//   LANES   reals per vector: matrices at a time
//   SWEEPS  steps per row after which a matrix counts as not converged
#pragma once
#include "kernels/factor/jacobi/singular.hpp"
#include "kernels/factor/jacobi/symmetric.hpp"

namespace mansard {

// Where one matrix and its results are, in elements; the host makes the table (two_sided/ragged_lanes.py).
struct LanesItem {
  i64 rows, columns;                    // rows >= columns
  i64 index;                            // of the matrix in the batch
  i64 values;                           // where its values begin
  i64 a, a_row, a_column;               // entry (i, j) is read at a + i a_row + j a_column
  i64 left, left_row, left_column;      // Z, or U: `rows` rows, `vectors` columns
  i64 right, right_row, right_column;   // V: `columns` rows and columns
  i64 vectors, exchanged;               // of a wide matrix, left vectors go to VH
  i64 conjugated;                       // conjugates of A are read
};

template <class P>
struct RaggedLanes {
  using T = typename P::T;
  using G = std::conditional_t<JacobiGroup<P>::SVD, SingularGroup<P>, SymmetricGroup<P>>;
  using R = typename G::R;
  using V = typename G::V;
  static constexpr int LANES = P::LANES, WORDS = G::WORDS;
  const LanesItem* items;  // of the group's matrices
  int count;

  MANSARD_INLINE const LanesItem& item(int lane) const { return items[smaller(lane, count - 1)]; }

  MANSARD_INLINE void read(const G& group, const T* A) const {
    const int order = group.N;
    for (int j = 0; j < order; ++j)
      for (int i = 0; i < (G::SVD ? order : j + 1); ++i) G::Entry::real(V{}).to(group.entry(i, j));
    for (int lane = 0; lane < LANES; ++lane) {
      const LanesItem& own = item(lane);
      const R* const from = reinterpret_cast<const R*>(A + own.a);
      for (int j = 0; j < own.columns; ++j)
        for (int i = 0; i < (G::SVD ? own.rows : j + 1); ++i) {
          const R* const x = from + (i * own.a_row + j * own.a_column) * WORDS;
          R* const place = group.entry(i, j) + lane;
          place[0] = x[0];
          if constexpr (WORDS == 2) place[LANES] = own.conjugated ? -x[1] : x[1];
        }
    }
  }
  // Values of the padding, which sort puts last.
  MANSARD_INLINE void set_apart(const G& group) const {
    for (int lane = 0; lane < LANES; ++lane)
      for (i64 j = item(lane).columns; j < group.N; ++j)
        group.value(static_cast<int>(j))[lane] = G::SVD ? R(-1) : std::numeric_limits<R>::max();
  }
  // Vectors of a side to `to`, one lane; `width` of them; conjugates where they are rows of VH.
  MANSARD_INLINE void write_vectors(const G& group, int side, int lane, T* to, i64 height, i64 width, i64 row,
                                    i64 column, bool conjugated, bool finite) const {
    constexpr R NOTHING = std::numeric_limits<R>::quiet_NaN();
    for (int j = 0; j < width; ++j) {
      const i64 place = group.order(j)[lane];  // in a row of the workspace, with the lane
      for (int i = 0; i < height; ++i) {
        R* const y = reinterpret_cast<R*>(to + (i * row + j * column));
        const R* const x = group.row(side, i) + place;
        y[0] = finite ? x[0] : NOTHING;
        if constexpr (WORDS == 2) y[1] = finite ? (conjugated ? -x[LANES] : x[LANES]) : NOTHING;
      }
    }
  }
  template <class Arguments>
  MANSARD_INLINE void write(const Arguments& a, const G& group, typename G::Lane active) const {
    constexpr R SCALE = G::SVD ? 1 / Format<R>::SINGULAR_SCALE : R(1);
    const V one = G::all(1), finite = select<R, LANES>(group.finite, one, V{});
    const V left = select<R, LANES>(active, one, V{}), back = 1 / group.scale;
    for (int lane = 0; lane < count; ++lane) {
      const LanesItem& own = items[lane];
      const bool is_finite = finite[lane] != 0;
      for (int j = 0; j < own.columns; ++j)
        a.W[own.values + j] =
            is_finite ? group.value(j)[lane] * SCALE * back[lane] : std::numeric_limits<R>::quiet_NaN();
      a.INFO[own.index] = static_cast<int>(!is_finite ? own.columns + 1 : left[lane] != 0 ? own.columns : 0);
      if constexpr (G::HAS_VECTORS) {
        T* const first = own.exchanged ? a.VH : a.Z;
        write_vectors(group, 0, lane, first + own.left, own.rows, own.vectors, own.left_row, own.left_column,
                      own.exchanged != 0, is_finite);
        T* const second = own.exchanged ? a.Z : a.VH;
        if constexpr (G::SVD)
          write_vectors(group, 1, lane, second + own.right, own.columns, own.columns, own.right_row, own.right_column,
                        own.exchanged == 0, is_finite);
      }
    }
  }
};

template <class P, class Arguments>
int jacobi_ragged(const Arguments& a) {
  using Lanes = RaggedLanes<P>;
  using R = typename Lanes::R;
  constexpr int LANES = P::LANES;
  const auto* const items = reinterpret_cast<const LanesItem*>(a.ITEMS);
  const i64 groups = ceil_div(a.BATCH, i64(LANES)), threads = larger<i64>(1, smaller(a.threads, groups));
  const i64 reals = Lanes::G::reals(static_cast<int>(items[0].rows));  // of the largest matrix
#pragma omp parallel for schedule(dynamic, 1) num_threads(static_cast<int>(threads))
  for (i64 g = 0; g < groups; ++g) {
    const Lanes lanes{items + g * LANES, static_cast<int>(smaller<i64>(LANES, a.BATCH - g * LANES))};
    typename Lanes::G group;
    group.workspace = static_cast<R*>(a.partials) + thread_index() * reals;
    group.N = static_cast<int>(lanes.items[0].rows);
    lanes.read(group, a.A);
    group.begin();
    const auto active = group.iterate();
    group.settle();
    lanes.set_apart(group);
    group.sort();
    lanes.write(a, group, active);
  }
  return 0;
}

}  // namespace mansard
