// Eigenvalues and -vectors of Hermitian matrices, or singular values and vectors, for a batch: one matrix per thread.
//
//   eigh:  A = Z diag(W) Z^H, W ascending     svd:  A = Z diag(W) VH, W descending
//
// Team. A thread owns a matrix, in registers. A block of BLOCK threads owns a tile of BLOCK consecutive matrices.
//
// Shared memory, reals (R):
//   tile    BLOCK slots of N * N entries, odd length   A, then VH, then Z; a thread works in its own slot
//   values  BLOCK slots of N reals, odd length         W
//
// Phases: the block stages A in `tile` (packed stacks), barrier; every thread reads its matrix, scales it by a power of
// two and iterates until all lanes of its warp have converged; vectors go to the slot in the order of their values,
// values to `values`, barrier; the block writes both. svd writes VH first, then Z, with a barrier before each reuse.
//
// INFO: 0, N where SWEEPS sweeps did not suffice, N + 1 where A holds an infinity or a NaN; W, Z and VH are NaN there.
//
// Limits: memory at N = 2 and 3, FP64 arithmetic from 4 on, latency of a few warps where registers are full (7, 8).
//
// Params beside T, N, WANT, UPLO (triangle that eigh reads), STAGED (A is packed; else read by strides), TRANSPOSED
// (columns of the packed A are adjacent), POINTERS (A is an array of addresses):
//   BLOCK          threads per block
//   VECTORS        where rotations are accumulated: registers, or the slot (shared)
//   SHEARS         rotate real numbers by three shears instead of two sums of products
//   SWEEPS         sweeps after which a matrix counts as not converged
#pragma once
#include "mansard/gpu/platform.cuh"

namespace mansard {

enum class Want { eigh, eigvalsh, svd, svdvals };
enum class Uplo { lower, upper };
enum class Vectors { registers, shared };

}  // namespace mansard

#include "kernels/factor/jacobi/singular.cuh"
#include "kernels/factor/jacobi/symmetric.cuh"
#include "kernels/factor/jacobi/tile.cuh"

namespace mansard {

template <class P>
struct JacobiShape {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N;
  static constexpr bool SVD = P::WANT == Want::svd || P::WANT == Want::svdvals;
  static constexpr bool HAS_VECTORS = P::WANT == Want::svd || P::WANT == Want::eigh;
  using Matrices = Tile<R, N * N * Scalar<T>::WORDS, P::BLOCK>;
  using Values = Tile<R, N, P::BLOCK>;
  static_assert((Matrices::REALS + Values::REALS) * sizeof(R) <= P::SHARED_BYTES);
};

template <class T, int N>
MANSARD_DEVICE void fill_nan(T* slot) {
  using R = typename Scalar<T>::Real;
  R* reals = reinterpret_cast<R*>(slot);
  MANSARD_UNROLL_BY(1)
  for (int i = 0; i < N * N * Scalar<T>::WORDS; ++i) reals[i] = R(0) / R(0);
}

// One entry of A, by strides.
template <class P, class Arguments>
MANSARD_DEVICE typename P::T strided_entry(const Arguments& a, i64 matrix, int i, int j) {
  if constexpr (P::POINTERS) return a.A[matrix][i * a.a_row + j * a.a_col];
  else return a.A[matrix * a.a_matrix + i * a.a_row + j * a.a_col];
}

// Put vectors into the slot, row-major, vector j in column ranks[j], or (ADJOINT) conjugated in row ranks[j]. They may
// come from the slot itself, by rows or (ADJOINT) by columns.
template <bool ADJOINT, class T, int N, class Vectors>
MANSARD_DEVICE void sort_vectors(T* slot, const Vectors& vectors, const int (&ranks)[N]) {
  MANSARD_UNROLL
  for (int i = 0; i < N; ++i) {
    T entries[N];
    MANSARD_UNROLL
    for (int j = 0; j < N; ++j) entries[j] = ADJOINT ? conjugate(vectors.get(i, j)) : vectors.get(i, j);
    MANSARD_UNROLL
    for (int j = 0; j < N; ++j) slot[ADJOINT ? ranks[j] * N + i : i * N + ranks[j]] = entries[j];
  }
}

// The thread's place in the block, and what it leaves there.
template <class P>
struct JacobiThread {
  using S = JacobiShape<P>;
  using T = typename S::T;
  using R = typename S::R;
  static constexpr int N = P::N;
  T* slot;
  R* values;
  int* info;     // of its matrix
  bool present;  // whether it has one

  // Values by rank, scaled back in two factors.
  MANSARD_DEVICE void put_values(const R (&found)[N], const int (&ranks)[N], R scale, R raise, bool finite) const {
    MANSARD_UNROLL
    for (int j = 0; j < N; ++j) values[ranks[j]] = finite ? found[j] * scale * raise : R(0) / R(0);
  }
  MANSARD_DEVICE void put_info(bool finite, bool converged) const {
    if (present) *info = !finite ? N + 1 : converged ? 0 : N;
  }
};

template <class P, class Entry, class Vectors, class Write>
MANSARD_DEVICE void solve_symmetric(const JacobiThread<P>& thread, Entry entry, Vectors& vectors, Write write) {
  constexpr int N = P::N;
  using R = typename JacobiThread<P>::R;
  Symmetric<P> matrix;
  bool finite = thread.present;
  const R back = power_of_two<R>(-matrix.read(entry, finite));
  vectors.begin();
  thread.put_info(finite, matrix.iterate(vectors));
  int ranks[N];
  MANSARD_UNROLL
  for (int j = 0; j < N; ++j) ranks[j] = rank_of<false>(matrix.diagonal, j);
  thread.put_values(matrix.diagonal, ranks, back, R(1), finite);
  if constexpr (JacobiShape<P>::HAS_VECTORS) {
    sort_vectors<false>(thread.slot, vectors, ranks);
    if (!finite) fill_nan<typename P::T, N>(thread.slot);
  }
  write(true);
}

template <class P, class Entry, class Vectors, class Write>
MANSARD_DEVICE void solve_singular(const JacobiThread<P>& thread, Entry entry, Vectors& vectors, Write write) {
  constexpr int N = P::N;
  using T = typename P::T;
  using R = typename JacobiThread<P>::R;
  Singular<P> matrix;
  bool finite = thread.present;
  const R back = power_of_two<R>(-matrix.read(entry, finite));
  vectors.begin();
  thread.put_info(finite, matrix.iterate(vectors));
  int ranks[N], known = 0;
  R lengths[N];
  MANSARD_UNROLL
  for (int j = 0; j < N; ++j) {
    ranks[j] = rank_of<true>(matrix.squares, j);
    const R square = matrix.squares[j];
    const bool ordinary = rootable(square), nonzero = square > Singular<P>::NULL_SQUARE;
    const R inverse = quick_inverse_root(ordinary ? square : R(1));
    lengths[j] = ordinary ? quick_root(square, inverse) : R(0);
    known += nonzero;
    if constexpr (JacobiShape<P>::HAS_VECTORS) {
      MANSARD_UNROLL
      for (int i = 0; i < N; ++i) matrix.entries[i][j] = by_real(matrix.entries[i][j], inverse);
    }
  }
  thread.put_values(lengths, ranks, back, R(1) / matrix.raise, finite);
  if constexpr (JacobiShape<P>::HAS_VECTORS) {
    sort_vectors<true>(thread.slot, vectors, ranks);
    if (!finite) fill_nan<T, N>(thread.slot);
    write(false);
    sort_vectors<false>(thread.slot, matrix, ranks);
    if (known < N) complete_basis<N>(thread.slot, known);
    if (!finite) fill_nan<T, N>(thread.slot);
  }
  write(true);
}

template <class P, class Arguments>
MANSARD_DEVICE void jacobi_threads(const Arguments& a) {
  using S = JacobiShape<P>;
  using T = typename S::T;
  using R = typename S::R;
  constexpr int N = P::N;
  MANSARD_SHARED_ARENA(R, tile);
  R* const values = tile + S::Matrices::REALS;
  const i64 first = static_cast<i64>(blockIdx.x) * P::BLOCK;
  const int count = static_cast<int>(min(a.BATCH - first, static_cast<i64>(P::BLOCK)));
  if (count <= 0) return;
  const int lane = static_cast<int>(threadIdx.x);
  T* const slot = reinterpret_cast<T*>(tile + lane * S::Matrices::SLOT);
  const JacobiThread<P> thread{slot, values + lane * S::Values::SLOT, a.INFO + first + lane, lane < count};

  if constexpr (P::STAGED) {
    S::Matrices::load(tile, reinterpret_cast<const R*>(a.A + first * (N * N)), count);
    __syncthreads();  // tile holds A; from here on a thread touches its own slot alone
  }
  const i64 matrix = first + min(lane, count - 1);
  const auto entry = [&](int i, int j) {
    if constexpr (P::STAGED) return slot[P::TRANSPOSED ? j * N + i : i * N + j];
    else return strided_entry<P>(a, matrix, i, j);
  };
  // Write the tile to Z or VH, and (the last time) the values to W.
  const auto write = [&](bool last) {
    __syncthreads();  // tile and values hold the results of all threads
    if constexpr (S::HAS_VECTORS) {
      T* const to = last || !S::SVD ? a.Z : a.VH;
      S::Matrices::store(tile, reinterpret_cast<R*>(to + first * (N * N)), count);
    }
    if (last) S::Values::store(values, a.W + first * N, count);
    if (!last) __syncthreads();  // tile was read by all threads, and takes Z next
  };
  if constexpr (!S::HAS_VECTORS) {
    NoVectors<T, N> none;
    if constexpr (S::SVD) solve_singular(thread, entry, none, write);
    else solve_symmetric(thread, entry, none, write);
  } else if constexpr (P::VECTORS == Vectors::shared) {
    SlotVectors<T, N, S::SVD> vectors{slot};
    if constexpr (S::SVD) solve_singular(thread, entry, vectors, write);
    else solve_symmetric(thread, entry, vectors, write);
  } else {
    RegisterVectors<T, N> vectors;
    if constexpr (S::SVD) solve_singular(thread, entry, vectors, write);
    else solve_symmetric(thread, entry, vectors, write);
  }
}

}  // namespace mansard
