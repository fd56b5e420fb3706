// Eigenvalues and -vectors of Hermitian matrices, or singular values and vectors, for a batch on CPUs: one matrix per
// SIMD lane.
//
//   eigh:  A <- J^H A J, Z <- Z J  until  sum |a_ij|^2 <= (N u / 2)^2 sum a_ii^2
//   svd:   A <- A J,     V <- V J  until all columns are orthogonal; their norms are W, divided by them they are Z
//
// Team. A vector holds the same entry of LANES matrices; a thread takes one group of LANES matrices after the other. A
// lane that has converged is rotated by the identity, so that its result does not depend on its neighbours.
//
// Workspace of a thread, vectors of LANES reals:
//   matrix   N * N entries   A by columns; eigh keeps the upper triangle, its diagonal is in `values`
//   vectors  N * N entries   accumulated rotations, by columns
//   values   N               diagonal, or squares of the columns' norms; then W
//
// Phases of a group: read A and scale it by a power of two; sweeps of rounds, in each of which all angles are computed
// before any column is rotated; sort; write. Lanes with an infinity or a NaN compute with zeros and write NaN.
//
// INFO: 0, N where SWEEPS sweeps did not suffice, N + 1 where A holds an infinity or a NaN.
//
// Limits: the first cache up to N = 8, where a rotation is one load and one store per two operations.
//
// METHOD condensed: a tridiagonal or bidiagonal matrix and implicit QR instead (symmetric.hpp,
// singular.hpp); more than about 12 rows take fewer operations so.
//
// Params beside T, N, WANT, UPLO, LAYOUT_A, STACK_A:
//   LANES   reals per vector: matrices at a time
//   SWEEPS  sweeps, or steps per row, after which a matrix counts as not converged
//   METHOD  jacobi or condensed
//   RELATIVE  eigh by Jacobi's method: |a_ij|^2 <= 4 N u^2 |a_ii a_jj| for all pairs, instead of the norm
#pragma once
#include "kernels/factor/jacobi/singular.hpp"
#include "kernels/factor/jacobi/symmetric.hpp"

namespace mansard {

// ---- the batch ----------------------------------------------------------------------------------------------

template <class P>
using GroupOf =
    std::conditional_t<P::METHOD == Method::jacobi, JacobiGroup<P>,
                       std::conditional_t<JacobiGroup<P>::SVD, SingularGroup<P>, SymmetricGroup<P>>>;

template <class P, class Arguments>
MANSARD_INLINE void jacobi_read(const Arguments& a, const GroupOf<P>& group, i64 b, int count) {
  using G = GroupOf<P>;
  using T = typename P::T;
  constexpr bool TURNED = !G::SVD && P::UPLO == Uplo::lower;  // a_ij is read as the conjugate of a_ji
  const Matrices<const T, P::STACK_A> A{a.A, a.a_matrix, a.a_row, a.a_col};
  read_group<G::N, G::N, P::LAYOUT_A != LayoutA::col>(
      Group<const T, G::LANES>(A, b, count),
      [&](int i, int j) __attribute__((always_inline)) { return TURNED ? group.entry(j, i) : group.entry(i, j); });
  if constexpr (TURNED && G::Entry::COMPLEX) {
    for (int j = 0; j < G::N; ++j)
      for (int i = 0; i < j; ++i) G::Entry::at(group.entry(i, j)).conjugate().to(group.entry(i, j));
  }
}

template <class P, class Arguments>
MANSARD_INLINE void jacobi_write(const Arguments& a, const GroupOf<P>& group, typename GroupOf<P>::Lane active, i64 b,
                                 int count) {
  using G = GroupOf<P>;
  using T = typename P::T;
  using R = typename G::R;
  using V = typename G::V;
  constexpr int N = G::N, LANES = G::LANES;
  const V nothing = G::all(std::numeric_limits<R>::quiet_NaN());
  const auto shown = [&](V v) __attribute__((always_inline)) { return select<R, LANES>(group.finite, v, nothing); };
  if constexpr (G::HAS_VECTORS) {
    const Matrices<T, StackF::packed> Z{a.Z, N * N, N, 1}, VH{a.VH, N * N, N, 1};
    write_group<N, N, true>(Group<T, LANES>(Z, b, count), [&](int i, int j, int word) __attribute__((always_inline)) {
      return shown(group.vector_part(0, i, j, word));
    });
    if constexpr (G::SVD)
      write_group<N, N, true>(Group<T, LANES>(VH, b, count),
                              [&](int i, int j, int word) __attribute__((always_inline)) {
                                const V v = shown(group.vector_part(1, j, i, word));
                                return word == 0 ? v : -v;
                              });
  }
  const V back = 1 / group.scale;
  const Matrices<R, StackF::packed> W{a.W, N, N, 1};
  write_group<1, N, true>(Group<R, LANES>(W, b, count), [&](int, int j, int) __attribute__((always_inline)) {
    return shown(load<LANES>(group.value(j)) * (G::SVD ? 1 / Format<R>::SINGULAR_SCALE : R(1)) * back);
  });
  const V info = select<R, LANES>(group.finite, select<R, LANES>(active, G::all(N), V{}), G::all(N + 1));
  for (int lane = 0; lane < count; ++lane) a.INFO[b + lane] = static_cast<int>(info[lane]);
}

template <class P, class Arguments>
int jacobi_simd(const Arguments& a) {
  using G = GroupOf<P>;
  using R = typename G::R;
  const i64 products = a.BATCH * (G::N * G::N * G::N * 16 + 64);
  for_groups<G::LANES, G::reals(P::N)>(
      a.BATCH, a.threads, products, reinterpret_cast<R*>(a.partials), [&](i64 b, int count, R* workspace) {
        G group;
        group.workspace = workspace;
        jacobi_read<P>(a, group, b, count);
        group.begin();
        const auto active = group.iterate();
        group.settle(), group.sort(), group.complete();
        jacobi_write<P>(a, group, active, b, count);
      });
  return 0;
}

}  // namespace mansard
