// Qu^H (s A) Qv = B for a batch of square A, as kernel_lanes.cuh has it; here a block of threads has one matrix, which
// stays in its registers.
//
// Team. Each warp owns chunks of eight rows over all columns (two_sided/rows.cuh). Column k and row k are published
// together. A warp forms its part of A^H x from its rows; the parts meet in shared memory. Every warp then computes t,
// row k of H_k A, and with it w of all columns itself. It applies H_k to its rows, and sums their products with w over
// lanes, which gives its own entries of z: a step has two barriers.
//
// Shared memory:
//   x      2 x LENGTH: column k below the diagonal, zeros elsewhere, of even and of odd k
//   top    2 x WIDTH: row k, likewise
//   parts  WARPS x WIDTH: the parts of A^H x
//   z      WARPS x OWN: entries of z of each warp's rows
//   keys   WARPS numbers, while loading
// Barriers:
//   A, at the start of step k  -> x[k % 2], top[k % 2]  -> all warps (column), the warp that owns row k; parts of step
//                                                          k - 1 have been read
//   B, before t                -> parts                 -> all warps; x and top of step k - 1 have been read
//   __syncwarp in step k       -> z                     -> the own warp
//
// Limits: barriers and reductions.
//
//   WARPS  per matrix and block
#pragma once
#include "kernels/factor/bidiagonal/phases.cuh"
#include "kernels/factor/two_sided/rows.cuh"

namespace mansard {

// Chunks of a warp: a power of two, as sums over lanes need it.
MANSARD_HOST_DEVICE int bidiagonal_chunks(int rows, int warps) {
  int chunks = 1;
  while (chunks * warps * 8 < rows) chunks *= 2;
  return chunks;
}

template <class P>
struct BidiagonalRows : WarpRows<P, bidiagonal_chunks(P::N, P::WARPS)> {
  using Base = WarpRows<P, bidiagonal_chunks(P::N, P::WARPS)>;
  using typename Base::R, typename Base::T;
  using Base::a, Base::column, Base::has_column, Base::lane, Base::warp;
  using Base::N, Base::WARPS, Base::OWN, Base::COLUMNS, Base::WIDTH, Base::LENGTH;
  static constexpr bool VECTORS = P::WANT == Want::vectors;
  static constexpr int ENTRIES = 2 * LENGTH + 2 * WIDTH + WARPS * (WIDTH + OWN);
  static_assert(OWN <= 32, "a warp sums products of at most 32 rows");
  static_assert(P::SHARED_BYTES == ENTRIES * int(sizeof(T)) + ceil_div(8 * WARPS, 16) * 16,
                "work.py and the kernel disagree");

  T *const x_of, *const top_of, *const parts, *const z_of;
  int* const keys;
  PhasePairs<T> phases;

  MANSARD_DEVICE explicit BidiagonalRows(T* arena)
      : x_of(arena),
        top_of(arena + 2 * LENGTH),
        parts(arena + 2 * LENGTH + 2 * WIDTH),
        z_of(parts + WARPS * WIDTH + warp * OWN),
        keys(reinterpret_cast<int*>(arena + ENTRIES)) {}

  // Zeros where the x's reach beyond the rows; nothing else writes there.
  MANSARD_DEVICE void clear() {
    constexpr int HELD = Base::CHUNKS * WARPS * Base::ROWS;  // rows of all warps
    if constexpr (LENGTH > HELD)
      for (int i = HELD + threadIdx.x; i < LENGTH; i += 32 * WARPS) x_of[i] = x_of[LENGTH + i] = zero<T>();
  }

  // Publish column k below the diagonal and row k.
  MANSARD_DEVICE void publish(int k) {
    this->with_row(k, [&](int c, T entry) { top_of[k % 2 * WIDTH + column(c)] = entry; });
    if (lane == k % 32) publish_column<0>(k, x_of + k % 2 * LENGTH);
  }
  template <int C>
  MANSARD_DEVICE void publish_column(int k, T* x) {
    if constexpr (C < COLUMNS) {
      if (k / 32 == C) {
        MANSARD_UNROLL
        for (int r = 0; r < OWN; ++r) {
          const T entry = hidden<C>(a[C][r]);
          x[this->row(r)] = either(this->row(r) > k, entry, zero<T>());
        }
      }
      publish_column<C + 1>(k, x);
    }
  }

  // This warp's part of A^H x, and the sum of squares of x.
  MANSARD_DEVICE R multiply_columns(int k, const T* x) {
    T t[COLUMNS][2];  // two independent sums
    R squares = 0;
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) t[c][0] = t[c][1] = zero<T>();
    this->template live_rows<1>(k, x, [&](int r, const T* entry) {
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) multiply_add<true>(t[c][r % 2], *entry, a[c][r]);
    });
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      add_to(t[c][0], t[c][1]);
      parts[warp * WIDTH + column(c)] = t[c][0];
      squares += modulus_square(x[column(c)]);
    }
    return team_sum<32>(squares);
  }

  // The reflector of y, the conjugate of row k right of column k; y becomes its vector w.
  MANSARD_DEVICE Reflector<T> reflect_row(int k, T (&y)[COLUMNS]) {
    R squares = 0;
    T head = hidden(y[0]);
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      squares += column(c) > k + 1 ? modulus_square(y[c]) : R(0);
      if (c > 0) head = either((k + 1) / 32 == c, hidden(y[c]), head);
    }
    const Reflector<T> g(lane_value<32>(head, (k + 1) % 32), team_sum<32>(squares));
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c)
      y[c] = either(g.inverse != 0, column(c) == k + 1 ? g.first : y[c], zero<T>());
    return g;
  }

  template <class Arguments>
  MANSARD_DEVICE void step(int k, const Arguments& given, i64 matrix) {
    __syncthreads();  // A: x[k % 2] and top[k % 2] are complete, written by all warps and by the owner of row k
    const T *const x = x_of + k % 2 * LENGTH, *const top = top_of + k % 2 * WIDTH;
    const R squares = multiply_columns(k, x);
    const Reflector<T> h(top[k], squares);
    __syncthreads();  // B: parts are complete, written by all warps
    T t[COLUMNS], w[COLUMNS];
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      const int j = column(c);
      T own = top[j];
      T sum = product_of<true>(h.first, own);
      MANSARD_UNROLL
      for (int v = 0; v < WARPS; ++v) add_to(sum, parts[v * WIDTH + j]);
      const bool is_right = j > k && has_column(c);
      t[c] = either(is_right, by_real(sum, -h.inverse), zero<T>());
      multiply_add<false>(own, h.first, t[c]);
      w[c] = either(is_right, conjugate(own), zero<T>());
    }
    const Reflector<T> g = reflect_row(k, w);
    if (warp == WARPS - 1) store(k, given, matrix, h, g, x, w);
    T z[OWN];
    MANSARD_UNROLL
    for (int r = 0; r < OWN; ++r) z[r] = zero<T>();
    this->template live_rows<1>(k, x, [&](int r, const T* entry) {
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) {
        multiply_add<false>(a[c][r], *entry, t[c]);
        multiply_add<false>(z[r], a[c][r], w[c]);
      }
    });
    const T sum = team_fold<32>(z, lane);
    if (lane % (32 / OWN) == 0) z_of[lane / (32 / OWN)] = by_real(sum, -g.inverse);
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) w[c] = conjugate(w[c]);
    __syncwarp();  // z is complete, written by the lanes of this warp
    subtract_rows(k, w);
  }

  // A += z w^H in the rows of this warp.
  MANSARD_DEVICE void subtract_rows(int k, const T (&w)[COLUMNS]) {
    constexpr int SIZE = Chunk<T>::SIZE;
    MANSARD_UNROLL
    for (int q = 0; q < Base::CHUNKS; ++q)
      if (this->is_live(q, k))
        MANSARD_UNROLL
        for (int r = q * Base::ROWS; r < (q + 1) * Base::ROWS; r += SIZE) {
          const Chunk<T> z = Chunk<T>::read(z_of + r);
          MANSARD_UNROLL
          for (int n = 0; n < SIZE; ++n)
            MANSARD_UNROLL
            for (int c = 0; c < COLUMNS; ++c) multiply_add<false>(a[c][r + n], z.entry[n], w[c]);
        }
  }

  // Results of step k, by one warp.
  template <class Arguments>
  MANSARD_DEVICE void store(int k, const Arguments& given, i64 matrix, const Reflector<T>& h, const Reflector<T>& g,
                            const T* x, const T (&w)[COLUMNS]) {
    const i64 at = matrix * N + k;
    if (lane == 0) {
      given.D[at] = h.off_diagonal();
      given.E[at] = g.off_diagonal();
      if (VECTORS) given.TAU_U[at] = h.inverse, given.TAU_V[at] = g.inverse;
    }
    if constexpr (VECTORS) {
      phases.left(h);
      if (lane == 0) phases.store_left(given, at);
      phases.right(g);
      if (lane == 0) phases.store_right(given, at + 1);
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c)
        if (has_column(c)) {
          const int j = column(c);
          given.U[at * N + j] = j == k ? h.first : either(j > k && h.inverse != 0, x[j], zero<T>());
          given.V[at * N + j] = w[c];
        }
    }
  }

  // The last diagonal entry, of which only the phase is left.
  template <class Arguments>
  MANSARD_DEVICE void finish(const Arguments& given, i64 matrix) {
    if (warp != WARPS - 1 || lane != 0) return;
    const Reflector<T> h(top_of[(N - 1) % 2 * WIDTH + N - 1], R(0));
    const i64 at = matrix * N + N - 1;
    given.D[at] = h.off_diagonal();
    given.E[at] = 0;
    if constexpr (VECTORS) {
      given.TAU_U[at] = given.TAU_V[at] = 0;
      phases.left(h);
      phases.store_left(given, at);
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void bidiagonal_block(const Arguments& a) {
  using Rows = BidiagonalRows<P>;
  using R = typename Rows::R;
  constexpr int N = P::N;
  MANSARD_SHARED_ARENA(typename P::T, arena);
  Rows rows(arena);
  const i64 matrix = blockIdx.x;
  const Entries<P> A(a, matrix);
  rows.load([&](int i, int j) { return A(i, j); });
  rows.clear();
  const int key = rows.scale(rows.keys);
  if (threadIdx.x == 0) {
    a.SCALE[matrix] = Magnitude<R>::scale(key);
    a.INFO[matrix] = Magnitude<R>::is_finite(key) ? 0 : N + 1;
    if (Rows::VECTORS) rows.phases.store_right(a, matrix * N);
  }
  rows.publish(0);
MANSARD_UNROLL_BY(1)
  for (int k = 0; k < N - 1; ++k) {
    rows.step(k, a, matrix);
    rows.publish(k + 1);
  }
  __syncthreads();  // top[(N - 1) % 2] is complete, written by the warp that owns the last row
  rows.finish(a, matrix);
}

}  // namespace mansard
