// A = L L^H in the registers of a team of LANES lanes: row i is in slot i / LANES of lane i % LANES.
//
// In step k column k goes to all lanes through shared memory, unscaled, so that one barrier per step suffices:
//   a_ij += conj(a_jk) * (-a_ik / a_kk),  l_ik = a_ik / sqrt(a_kk).
// Entries of a row above the diagonal hold arbitrary numbers and are never read. Right-hand sides lie in registers as
// further columns and are eliminated in the same steps.
// Barrier: __syncwarp in `publish` -> place k % 2 of `columns` -> lanes that own rows of column k. The place is written
// again in step k + 2, after the barrier of step k + 1, when all lanes have read it.
#pragma once
#include "kernels/factor/cholesky/pivots.cuh"

namespace mansard {

template <class T, int N, int LANES, int NRHS>
struct Rows {
  using Real = typename Scalar<T>::Real;
  static constexpr int TEAM = LANES, SLOTS = ceil_div(N, LANES), COLUMNS = NRHS > 0 ? NRHS : 1;
  static constexpr int VECTOR = 16 / int(sizeof(T));
  static constexpr int WIDTH = ceil_div(N, VECTOR) * VECTOR;  // of a published column; right-hand sides follow it
  static constexpr int PLACES = 2;  // places for published columns, used in turn
  int rank, info;
  T a[SLOTS][N], b[SLOTS][COLUMNS];

  MANSARD_DEVICE explicit Rows(int lane) : rank(LANES == 1 ? 0 : lane), info(0) {}

  // Row of a slot; the last row for slots without one.
  MANSARD_DEVICE int row_of(int slot) const {
    const int row = slot * LANES + rank;
    return N % LANES == 0 || slot + 1 < SLOTS ? row : min(row, N - 1);
  }
  MANSARD_DEVICE bool has(int slot) const {
    return N % LANES == 0 || slot + 1 < SLOTS || slot * LANES + rank < N;
  }
  // Upper bound of the columns that rows of a slot have on or below the diagonal.
  static MANSARD_DEVICE constexpr int reach(int slot) { return (slot + 1) * LANES < N ? (slot + 1) * LANES : N; }

  template <Layout LAYOUT, class Image>
  MANSARD_DEVICE void load(const T* A) {
    constexpr int READ = LAYOUT == Layout::col ? 1 : Image::READ;
    MANSARD_UNROLL
    for (int slot = 0; slot < SLOTS; ++slot)
      MANSARD_UNROLL
      for (int j = 0; j < N; j += READ)
        if (j < reach(slot)) read_entries<LAYOUT, Image::PITCH, READ>(&a[slot][j], A, row_of(slot), j);
  }
  // Write the rows of L, with zeros above the diagonal.
  template <Layout LAYOUT, class Image>
  MANSARD_DEVICE void store(T* F) const {
    constexpr int READ = LAYOUT == Layout::col ? 1 : Image::READ;
    const T nothing[READ] = {};
    MANSARD_UNROLL
    for (int slot = 0; slot < SLOTS; ++slot)
      if (has(slot)) MANSARD_UNROLL
        for (int j = 0; j < N; j += READ)
          write_entries<LAYOUT, Image::PITCH, READ>(F, j < reach(slot) ? &a[slot][j] : nothing, row_of(slot), j);
  }

  // Calls visit(row, column, entry, has) for the lane's entries of the right-hand sides; `has` is false for a copy of
  // the last row in a slot without one.
  template <class Visit>
  MANSARD_DEVICE void for_right(Visit visit) {
    MANSARD_UNROLL
    for (int slot = 0; slot < SLOTS; ++slot)
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) visit(row_of(slot), c, b[slot][c], has(slot));
  }

  // Steps K .. N - 1. `columns` points to the team's two places, STRIDE apart. For solves the diagonal holds 1 / l_kk.
  // Recursive templates, since the compiler does not unroll so long a loop.
  template <int STRIDE, int K = 0>
  MANSARD_DEVICE void factor(T* columns) {
    if constexpr (K < N) {
      step<K>(columns + K % 2 * STRIDE);
      factor<STRIDE, K + 1>(columns);
    }
  }

  // Backward substitution L^H x = y where one lane holds the matrix; x replaces y.
  MANSARD_DEVICE void substitute_alone() {
    static_assert(LANES == 1);
    MANSARD_UNROLL
    for (int k = N - 1; k >= 0; --k)
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) {
        b[k][c] = by_real(b[k][c], real_part(a[k][k]));
        MANSARD_UNROLL
        for (int i = 0; i < k; ++i) multiply_subtract<true>(b[i][c], a[k][i], b[k][c]);
      }
  }

 private:
  template <int K>
  MANSARD_DEVICE void step(T* column) {
    constexpr int FIRST = K / LANES;  // slot of the pivot row
    if constexpr (LANES > 1) publish(column, K);
    const Real pivot = real_part(LANES > 1 ? column[K] : a[FIRST][K]);
    const Real inverse = inverse_of_diagonal(pivot, K + 1, info);
    T minus[SLOTS], known[N];
    if constexpr (LANES == 1) MANSARD_UNROLL
      for (int j = K + 1; j < N; ++j) known[j] = a[j][K];
    MANSARD_UNROLL
    for (int slot = FIRST; slot < SLOTS; ++slot) {
      a[slot][K] = by_real(a[slot][K], inverse);
      minus[slot] = by_real(a[slot][K], -inverse);
    }
    if (NRHS > 0 && rank == K % LANES) a[FIRST][K] = from_real<T>(inverse);
    subtract(minus, column, known, K);
    if constexpr (NRHS > 0) eliminate(minus, column, inverse, K);
  }

  // Write column k, and the right-hand sides of row k, to shared memory.
  MANSARD_DEVICE void publish(T* column, int k) const {
    MANSARD_UNROLL
    for (int slot = 0; slot < SLOTS; ++slot)
      if (k < reach(slot) && has(slot)) column[slot * LANES + rank] = a[slot][k];
    if constexpr (NRHS > 0)
      if (rank == k % LANES) MANSARD_UNROLL
        for (int c = 0; c < NRHS; ++c) column[WIDTH + c] = b[k / LANES][c];
    __syncwarp();  // `column` is complete, written by all lanes of the team
  }

  // a_ij += conj(a_jk) * minus_i for j > k.
  MANSARD_DEVICE void subtract(const T (&minus)[SLOTS], const T* column, const T (&known)[N], int k) {
    MANSARD_UNROLL
    for (int run = 0; run < N; run += VECTOR) {
      if (run + VECTOR <= k + 1) continue;
      T some[VECTOR];
      MANSARD_UNROLL
      for (int j = 0; j < VECTOR; ++j)
        if (LANES == 1 && run + j < N) some[j] = known[run + j];
      if constexpr (LANES > 1) {
        const auto pack = *reinterpret_cast<const Pack<T, VECTOR>*>(column + run);
        MANSARD_UNROLL
        for (int j = 0; j < VECTOR; ++j) some[j] = pack.e[j];
      }
      MANSARD_UNROLL
      for (int j = 0; j < VECTOR; ++j)
        MANSARD_UNROLL
        for (int slot = 0; slot < SLOTS; ++slot)
          if (run + j > k && run + j < reach(slot)) {
            multiply_add<true>(a[slot][run + j], some[j], minus[slot]);
            if (LANES > 1) renew(a[slot][run + j]);
          }
    }
  }

  // b_i += minus_i * b_k for i > k, and y_k = b_k / l_kk.
  MANSARD_DEVICE void eliminate(const T (&minus)[SLOTS], const T* column, Real inverse, int k) {
    const int first = k / LANES;
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      const T known = LANES > 1 ? column[WIDTH + c] : b[first][c];
      MANSARD_UNROLL
      for (int slot = 0; slot < SLOTS; ++slot)
        if (slot > first || (slot == first && rank > k % LANES)) multiply_add<false>(b[slot][c], minus[slot], known);
      if (rank == k % LANES) b[first][c] = by_real(known, inverse);
    }
  }
};

}  // namespace mansard
