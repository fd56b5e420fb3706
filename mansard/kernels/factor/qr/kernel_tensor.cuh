// A = Q R of a batch in double precision: WARPS warps hold a matrix in registers as tensor-core fragments.
//
// Panel p of eight columns: eight reflections with vectors u = (alpha - beta, x), combined as Q_p = I - U T U^H; then
// A -= U T^H (U^H A) for the columns behind it, as products of fragments. Q is formed backwards: Q -= U T (U^H Q).
//
// Team. A thread block per matrix. Columns come in strips of 16, strip s in warp s % WARPS; lane (g, t) = (lane / 4,
// lane % 4) holds rows 2 t, 2 t + 1 of every block of eight rows in columns g and g + 8 of a strip (fragments.cuh). A
// panel is factored by the warp that holds its columns.
//
// Shared memory, in doubles:
//   vectors   VECTORS   u of all reflections, column after column, PITCH apart; written by the panel's warp
//   factors   FACTORS   8 x 8 per panel: products of vectors, then T; written by the panel's warp
//   tau       K         written by the panel's warp
// `again` uses vectors as a plain column-major matrix and tau as its tau.
//
// Phases, with barriers as barrier -> buffer -> writer:
//   1  load A from global memory into registers
//   2  per panel p: __syncthreads -> vectors, factors of panel p -> its warp. Then all warps update their strips; the
//      warp of panel p + 1 updates that strip first and factors the panel while the others update
//      inside a panel: __syncwarp, see fragments.cuh
//   3  after the last panel: __syncthreads -> vectors, factors -> `again`, which overwrites them if squares of a column
//      left the range (careful.cuh)
//   4  store R or the vectors; form Q from vectors and factors, which are not written any more; store Q
//
// Limits: 27, 20, 11 % of a copy at 64, 96, 128 rows (H200). A panel is a chain of eight reflections in one warp.
#pragma once
#include "kernels/factor/qr/fragments.cuh"
#include "kernels/factor/qr/unit.cuh"

namespace mansard {

// Params for careful.cuh, which factors the few matrices whose squares leave the range: one column per thread, in
// shared memory.
template <class P>
struct Plain : P {
  static constexpr int LANES_M = 1, LANES_N = 32 * P::WARPS, PITCH_A = TensorShape<P>::PITCH;
  static constexpr Layout LAYOUT_A = Layout::col;
};

template <class P, class Arguments>
struct TensorQr {
  using S = TensorShape<P>;
  static constexpr int M = P::M, N = P::N, K = S::K;
  static constexpr bool FORMS_Q = P::WANT == Want::reduced || P::WANT == Want::complete;
  static constexpr int R_HEIGHT = P::WANT == Want::raw || P::WANT == Want::complete ? M : K;
  static_assert(P::WANT != Want::solve && P::WANT != Want::panel, "R, and Q in one way or another");
  static_assert(P::WANT != Want::complete || M <= N, "Q has no more columns than A");
  const Arguments& x;
  const i64 index;

  template <Layout LAYOUT>
  static MANSARD_DEVICE i64 offset(i64 row_step, i64 column_step, int row, int column) {
    if constexpr (LAYOUT == Layout::row) return row * row_step + column;
    else if constexpr (LAYOUT == Layout::col) return column * column_step + row;
    else return row * row_step + column * column_step;
  }
  MANSARD_DEVICE const double* a(int row, int column) const {
    return matrix_at(x.A, x.a_matrix, index) + offset<P::LAYOUT_A>(x.a_row, x.a_col, row, column);
  }
  MANSARD_DEVICE double* f(int row, int column) const {
    return matrix_at(x.F, x.f_matrix, index) + offset<P::LAYOUT_F>(x.f_row, x.f_col, row, column);
  }
  MANSARD_DEVICE double* q(int row, int column) const {
    return matrix_at(x.Q, x.q_matrix, index) + offset<P::LAYOUT_Q>(x.q_row, x.q_col, row, column);
  }
  // Entry of F: zero below the diagonal, unless vectors are stored there (raw).
  static MANSARD_DEVICE double of_f(int row, int column, double entry) {
    return P::WANT != Want::raw && row > column ? 0 : entry;
  }

  MANSARD_DEVICE void run(double* memory) const {
    Fragments<P> matrix(memory);
    const int row = matrix.first_row(), column = matrix.first_column();
    matrix.set([](int, int) { return 0.0; });
    matrix.template each<M, N>([&, from = a(row, column)](int, int, int down, int across, double& entry) {
      entry = from[offset<P::LAYOUT_A>(x.a_row, x.a_col, down, across)];
    });
    matrix.factor();
    Fragments<P>::meet();  // vectors and factors may be overwritten by `again`; all warps have finished their updates
    if (Team<Plain<P>>::any(matrix.unsafe)) return again(*this, memory);
    matrix.template each<R_HEIGHT, N>([&, to = f(row, column)](int i, int j, int down, int across, double& entry) {
      to[offset<P::LAYOUT_F>(x.f_row, x.f_col, down, across)] = of_f(i, j, entry);
    });
    if constexpr (P::WANT == Want::raw)
      for (int k = threadIdx.x; k < K; k += 32 * P::WARPS) x.TAU[index * K + k] = matrix.tau[k];
    if constexpr (FORMS_Q) {
      matrix.form();
      matrix.template each<M, K>([&, to = q(row, column)](int, int, int down, int across, double& entry) {
        to[offset<P::LAYOUT_Q>(x.q_row, x.q_col, down, across)] = entry;
      });
    }
  }

  // Factor the matrix again from the beginning, with scaled norms in shared memory.
  static __device__ __noinline__ void again(TensorQr mine, double* memory) {
    constexpr int THREADS = 32 * P::WARPS;
    const Workplace<Plain<P>> place = {memory, nullptr, memory + S::VECTORS + S::FACTORS, nullptr};
    const int rank = threadIdx.x;
MANSARD_UNROLL_BY(1)
    for (int e = rank; e < M * N; e += THREADS) *place.at(e / N, e % N) = *mine.a(e / N, e % N);
    Fragments<P>::meet();  // the matrix in shared memory is complete, loaded by all threads
    Careful<Plain<P>>::run(place, rank, true);
MANSARD_UNROLL_BY(1)
    for (int e = rank; e < R_HEIGHT * N; e += THREADS)
      *mine.f(e / N, e % N) = of_f(e / N, e % N, *place.at(e / N, e % N));
    if constexpr (P::WANT == Want::raw)
      for (int k = rank; k < K; k += THREADS) mine.x.TAU[mine.index * K + k] = place.tau[k];
    if constexpr (FORMS_Q) {
MANSARD_UNROLL_BY(1)
      for (int column = rank; column < K; column += THREADS) mine.column_of_q(place, column);
    }
  }
  // Form a column of Q in global memory: H_0 H_1 ... applied to a column of the unit matrix.
  MANSARD_DEVICE void column_of_q(const Workplace<Plain<P>>& place, int column) const {
MANSARD_UNROLL_BY(1)
    for (int row = 0; row < M; ++row) *q(row, column) = row == column ? 1 : 0;
MANSARD_UNROLL_BY(1)
    for (int k = column; k >= 0; --k) {  // later reflections do not change this column
      double sum = *q(k, column);
MANSARD_UNROLL_BY(1)
      for (int row = k + 1; row < M; ++row) sum = fma(*place.at(row, k), *q(row, column), sum);
      sum *= place.tau[k];
      *q(k, column) -= sum;
MANSARD_UNROLL_BY(1)
      for (int row = k + 1; row < M; ++row) *q(row, column) = fma(-*place.at(row, k), sum, *q(row, column));
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void qr_tensor(const Arguments& arguments) {
  MANSARD_SHARED_ARENA(double, arena);
  const i64 index = blockIdx.x;
  if (index >= arguments.BATCH) return;
  TensorQr<P, Arguments>{arguments, index}.run(arena);
}

}  // namespace mansard
