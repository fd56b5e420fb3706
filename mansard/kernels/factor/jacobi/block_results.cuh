// What a block of Jacobi rotations leaves: normalised columns, ranked values, vectors in their order.
#pragma once
#include "kernels/factor/jacobi/block_basis.cuh"

namespace mansard {

template <class P, class Arguments>
struct BlockResults {
  using S = BlockShape<P>;
  using T = typename S::T;
  using R = typename S::R;
  static constexpr int N = P::N, LANES = P::LANES, PITCH = S::PITCH, PAIRS = S::PAIRS, THREADS = S::THREADS;
  static constexpr R NULL_SQUARE = Format<R>::NULL_SQUARE;

  const Arguments& a;
  const BlockMemory<P>& m;
  const i64 matrix;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % LANES, team = thread / LANES;

  MANSARD_DEVICE bool is_column(int j) const { return team < PAIRS && j < N; }  // of this team

  // Normalise columns, and compute values.
  MANSARD_DEVICE void normalize() const {
    constexpr R LEAST = R(1.001) * (sizeof(R) == 8 ? R(0x1p-128) : R(0x1p-10));  // length of a column that is not null
    static_assert(LEAST * LEAST > NULL_SQUARE && LEAST * LEAST < R(1.1) * NULL_SQUARE);
    MANSARD_UNROLL_BY(1)
    for (int half = 0; half < 2; ++half) {
      const int j = team + half * PAIRS;
      Share<P> x, v;
      x.clear();
      if (is_column(j)) x.load(m.columns + j * PITCH, lane);
      const R square = x.square();
      const bool ordinary = rootable(square);
      const R inverse = quick_inverse_root(ordinary ? square : R(1));
      R length = ordinary ? quick_root(square, inverse) : R(0);
      if constexpr (S::HAS_VECTORS) {
        v.clear();
        if (is_column(j)) v.load(m.vectors + j * PITCH, lane);
        const R v_square = v.square(), stretch = quick_inverse_root(is_column(j) ? v_square : R(1));
        length *= stretch;
        v.multiply(stretch);
        if (is_column(j)) v.store(m.vectors + j * PITCH, lane);
        x.multiply(inverse);
        if (!(length > LEAST)) x.clear();
        if (is_column(j)) x.store(m.columns + j * PITCH, lane);
      }
      if (is_column(j) && lane == 0) {
        m.lengths[j] = length;
        m.squares[j] = length > LEAST ? R(1) : R(0);
      }
    }
    __syncthreads();  // columns, vectors, lengths and squares (1: not null) are complete, written by their teams
  }

  // Order of the values, which are written times both factors; returns the number of columns that are not null.
  MANSARD_DEVICE int rank_columns(R scale, R raise) const {
    int known = 0;
    MANSARD_UNROLL_BY(1)
    for (int begin = 0; begin < N; begin += THREADS) {
      const int j = begin + thread;
      const R length = j < N ? m.lengths[j] : R(0);
      int rank = 0;
      MANSARD_UNROLL_BY(4)
      for (int i = 0; i < N; ++i) rank += m.lengths[i] > length || (m.lengths[i] == length && i < j);
      if (j < N) {
        m.rank[j] = rank;
        m.source[rank] = j;
        a.W[matrix * N + rank] = length * scale * raise;
      }
      known += __syncthreads_count(j < N && m.squares[j < N ? j : 0] > R(0));  // rank and source are complete
    }
    return known;
  }

  MANSARD_DEVICE void write_vectors() const {
    T *const Z = a.Z + matrix * (N * N), *const VH = a.VH + matrix * (N * N);
    MANSARD_UNROLL_BY(4)
    for (int k = thread; k < N * N; k += THREADS)
      VH[m.rank[k / N] * N + k % N] = conjugate(m.vectors[k / N * PITCH + k % N]);
    MANSARD_UNROLL_BY(4)
    for (int k = thread; k < N * N; k += THREADS) Z[k] = m.columns[m.source[k % N] * PITCH + k / N];
  }
  MANSARD_DEVICE void write_nan() const {
    const R nan = R(0) / R(0);
    for (int k = thread; k < N; k += THREADS) a.W[matrix * N + k] = nan;
    if constexpr (S::HAS_VECTORS) {
      constexpr int REALS = N * N * Scalar<T>::WORDS;
      R* const Z = reinterpret_cast<R*>(a.Z + matrix * (N * N));
      R* const VH = reinterpret_cast<R*>(a.VH + matrix * (N * N));
      for (int k = thread; k < REALS; k += THREADS) Z[k] = VH[k] = nan;
    }
  }
};

}  // namespace mansard
