// The share of a warp when a block has one matrix in its registers: chunks of eight rows, cyclic over the warps.
//
// Lane l of warp w holds a[c][r] = A(i, l + 32 c) for the rows i = ((r / 8) WARPS + w) 8 + r % 8: eight rows that follow
// each other, then the chunk that is WARPS chunks further. A chunk above row k is done and skipped as a whole.
#pragma once
#include "kernels/factor/two_sided/exchange.cuh"
#include "kernels/factor/two_sided/scaling.cuh"

namespace mansard {

template <class P, int CHUNKS_OF_WARP>
struct WarpRows {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N, WARPS = P::WARPS, ROWS = 8, CHUNKS = CHUNKS_OF_WARP, OWN = CHUNKS * ROWS;
  static constexpr int COLUMNS = ceil_div(N, 32), WIDTH = 32 * COLUMNS;
  static constexpr int LENGTH = CHUNKS * WARPS * ROWS > WIDTH ? CHUNKS * WARPS * ROWS : WIDTH;  // of shared vectors

  const int lane, warp;
  T a[COLUMNS][OWN];

  MANSARD_DEVICE WarpRows() : lane(threadIdx.x % 32), warp(threadIdx.x / 32) {}

  MANSARD_DEVICE int column(int c) const { return lane + 32 * c; }
  MANSARD_DEVICE bool has_column(int c) const { return N % 32 == 0 || c + 1 < COLUMNS || column(c) < N; }
  MANSARD_DEVICE int chunk(int q) const { return q * WARPS + warp; }
  MANSARD_DEVICE int row(int r) const { return chunk(r / ROWS) * ROWS + r % ROWS; }
  // Whether chunk q has rows below row k.
  MANSARD_DEVICE bool is_live(int q, int k) const {
    return chunk(q) * ROWS + ROWS > k + 1 && (CHUNKS * WARPS * ROWS < N + ROWS || chunk(q) * ROWS < N);
  }

  // a = read(i, j), zero beyond the matrix.
  template <class Read>
  MANSARD_DEVICE void load(Read read) {
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c)
      MANSARD_UNROLL
      for (int r = 0; r < OWN; ++r) {
        a[c][r] = zero<T>();
        if (has_column(c) && row(r) < N) a[c][r] = read(row(r), column(c));
      }
  }

  // Scale by a power of two; returns the key of the largest entry. `keys`: a number per warp in shared memory, which
  // may be overwritten after the next barrier.
  MANSARD_DEVICE int scale(int* keys) {
    Magnitude<R> largest;
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c)
      MANSARD_UNROLL
      for (int r = 0; r < OWN; ++r) largest.add(a[c][r]);
    int key = team_max<32>(largest.key());
    if (lane == 0) keys[warp] = key;
    __syncthreads();  // keys are complete, written by lane 0 of each warp
    for (int w = 0; w < WARPS; ++w) key = max(key, keys[w]);
    const R factor = Magnitude<R>::factor(key);
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c)
      MANSARD_UNROLL
      for (int r = 0; r < OWN; ++r) a[c][r] = by_real(a[c][r], factor);
    return key;
  }

  // The warp that holds row k calls visit(c, entry) for its entries in the columns of this lane.
  template <class Visit>
  MANSARD_DEVICE void with_row(int k, Visit visit) const {
    MANSARD_UNROLL
    for (int q = 0; q < CHUNKS; ++q)
      if (chunk(q) == k / ROWS)
        MANSARD_UNROLL
        for (int c = 0; c < COLUMNS; ++c) {
          T entry = zero<T>();
          MANSARD_UNROLL
          for (int r = 0; r < ROWS; ++r) entry = either(k % ROWS == r, hidden(a[c][q * ROWS + r]), entry);
          visit(c, entry);
        }
  }

  // Calls visit(r, entries) for the rows r of the warp in chunks that reach below row k, with EACH consecutive entries
  // of `vector` for each row.
  template <int EACH, class Visit>
  MANSARD_DEVICE void live_rows(int k, const T* vector, Visit visit) {
    constexpr int SIZE = Chunk<T>::SIZE, TAKEN = SIZE > EACH ? SIZE : EACH;  // entries of a turn
    MANSARD_UNROLL
    for (int q = 0; q < CHUNKS; ++q)
      if (is_live(q, k))
        MANSARD_UNROLL
        for (int at = 0; at < ROWS * EACH; at += TAKEN) {
          T entries[TAKEN];
          MANSARD_UNROLL
          for (int n = 0; n < TAKEN; n += SIZE) {
            const Chunk<T> read = Chunk<T>::read(vector + chunk(q) * ROWS * EACH + at + n);
            MANSARD_UNROLL
            for (int m = 0; m < SIZE; ++m) entries[n + m] = read.entry[m];
          }
          MANSARD_UNROLL
          for (int n = 0; n < TAKEN; n += EACH) visit(q * ROWS + (at + n) / EACH, entries + n);
        }
  }
};

}  // namespace mansard
