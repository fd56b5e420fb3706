// Results of back transformations whose rows are in registers of a block: places of the columns by the order of the
// values, and stores through shared memory.
#pragma once
#include "kernels/factor/back_transform/order.cuh"

namespace mansard {

// Base of `Own`, which has `a`, `arena`, `values()`, `places()`, `matrix()`, `first_row()` (of the block), `row()` and
// `component()` of this thread, and `column(j)` and `entry(j)` of its j-th column; `Memory` has the sizes.
template <class Own, class P, class Memory>
struct StoredRows {
  using R = typename Memory::R;
  static constexpr int N = P::N, WORDS = Memory::WORDS, THREADS = Memory::THREADS;

  MANSARD_DEVICE const Own& own() const { return static_cast<const Own&>(*this); }

  // Rank the values; the result is 0, or NaN if one of them is not finite.
  MANSARD_DEVICE R order() const {
    const auto& a = own().a;
    R* const values = own().values();
    for (int j = threadIdx.x; j < N; j += THREADS) values[j] = a.D[own().matrix() * N + j];
    __syncthreads();  // values are complete, written by all threads
    const R scale = a.SCALE != nullptr ? a.SCALE[own().matrix()] : R(1);
    R* W = own().first_row() == 0 && a.W != nullptr ? a.W + own().matrix() * N : nullptr;
    R poison = R(0);
    for (int j = threadIdx.x; j < N; j += THREADS) poison = Order<P, R>{values, own().places()}.place(j, W, scale);
    return __syncthreads_or(is_nan(poison)) ? not_a_number<R>() : R(0);
  }  // places are complete, written by all threads
  MANSARD_DEVICE void store() const {
    R poison = R(0);
    if constexpr (P::CAPACITY > 0) poison = order();
    else __syncthreads();  // reflectors have been read by all threads: image replaces them
    R* Z = reinterpret_cast<R*>(own().a.Z + own().matrix() * (N * N));
    if constexpr (Reflectors<P>::TRANSPOSED) {  // lanes of neighbouring rows write neighbouring entries
      if (own().row() < N) store_columns(Z + own().row() * WORDS + own().component(), N * WORDS, poison);
    } else {
      for (int first = 0; first < Memory::ROWS; first += Memory::AT_ONCE_Z) store_rows(Z, first, poison);
    }
  }
  // Write this lane's columns to their places, `step` apart.
  MANSARD_DEVICE void store_columns(R* to, int step, R poison) const {
    MANSARD_UNROLL
    for (int j = 0; j < Memory::COLUMNS; ++j) {
      const int column = own().column(j);
      if (column < N) {
        const int place = P::CAPACITY > 0 ? own().places()[column] : column;
        const bool negated = (place & NEGATED) != 0;
        const bool opposite = Reflectors<P>::TRANSPOSED && negated != (own().component() == 1);  // V^H is conjugate
        to[(place & (NEGATED - 1)) * step] = (opposite ? -own().entry(j) : own().entry(j)) + poison;
      }
    }
  }
  // Store rows `first` on of the block, through shared memory: a lane's row is contiguous, a warp's columns are not.
  MANSARD_DEVICE void store_rows(R* Z, int first, R poison) const {
    constexpr int LINE = N * WORDS;
    const int first_row = own().first_row(), here = own().row() - first_row - first;
    R* image = own().arena;
    if (here >= 0 && here < Memory::AT_ONCE_Z)
      store_columns(image + here * Memory::PITCH_Z + own().component(), WORDS, poison);
    __syncthreads();  // image has these rows, written by their threads
    const int rows = min(Memory::AT_ONCE_Z, min(N, first_row + Memory::ROWS) - first_row - first);
    for (int k = threadIdx.x; k < rows * LINE; k += THREADS)
      Z[static_cast<i64>(first_row + first) * LINE + k] = image[k / LINE * Memory::PITCH_Z + k % LINE];
    __syncthreads();  // image has been read by all threads
  }
};

}  // namespace mansard
