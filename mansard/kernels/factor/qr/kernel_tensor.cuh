// QR factorisations of a stack of matrices in double precision: WARPS warps per matrix, which they hold in registers;
// eight reflections at a time are applied by tensor cores (fragments.cuh).
#pragma once
#include "kernels/factor/qr/fragments.cuh"
#include "kernels/factor/qr/unit.cuh"

namespace mansard {

// The few matrices whose squares leave the range are factored in shared memory, column after column: what careful.cuh
// needs to know of it.
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
    Fragments<P>::meet();
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

  // In another way, from the beginning.
  static __device__ __noinline__ void again(TensorQr mine, double* memory) {
    constexpr int THREADS = 32 * P::WARPS;
    const Workplace<Plain<P>> place = {memory, nullptr, memory + S::VECTORS + S::FACTORS, nullptr};
    const int rank = threadIdx.x;
MANSARD_UNROLL_BY(1)
    for (int e = rank; e < M * N; e += THREADS) *place.at(e / N, e % N) = *mine.a(e / N, e % N);
    Fragments<P>::meet();
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
  // H_0 H_1 ... applied to a column of the unit matrix, where it is to be.
  MANSARD_DEVICE void column_of_q(const Workplace<Plain<P>>& place, int column) const {
MANSARD_UNROLL_BY(1)
    for (int row = 0; row < M; ++row) *q(row, column) = row == column ? 1 : 0;
MANSARD_UNROLL_BY(1)
    for (int k = column; k >= 0; --k) {  // later ones leave it alone
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
