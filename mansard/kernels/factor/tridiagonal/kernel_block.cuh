// Q^H (s A) Q = T for a batch of Hermitian A, as kernel_lanes.cuh has it; here a block of threads has one matrix, which
// stays in its registers.
//
// Team. Each warp owns chunks of eight rows over all columns (two_sided/rows.cuh). Row k is x^H of step k and row k + 1
// is (A e_1)^H: the warps that own them publish both. A warp forms its part of y = A x from its rows; the parts meet in
// shared memory. Many warps (FOLDED) take the products of their rows with x instead and sum them over lanes: a warp then
// has its entries of y, and the others need not add WARPS parts. Every warp computes u and q of all columns itself, so
// that a step has two barriers.
//
// Shared memory:
//   x       LENGTH entries: column k below the diagonal, zeros elsewhere
//   next    2 x LENGTH: row k + 1, of even and of odd k
//   parts   WARPS x WIDTH: the parts of y; FOLDED: LENGTH, y itself
//   pairs   WARPS x 2 LENGTH: u_i, q_i side by side, a copy per warp
//   sums    WARPS reals: the parts of x^H y; while loading, keys of the largest entries
// Barriers:
//   A, at the start of step k   -> x, next[k % 2]  -> the warps that own rows k and k + 1; sums and parts of step k - 1
//                                                     have been read
//   B, before u and q           -> parts, sums     -> all warps; x has been read, and is written again for step k + 1
//   __syncwarp in step k        -> pairs           -> the own warp; again before the next step writes them
//
// Limits: barriers and reductions (a multiprocessor waits half of the time), hence as many blocks as registers allow.
//
//   WARPS  per matrix and block
#pragma once
#include "kernels/factor/tridiagonal/hermitian.cuh"
#include "kernels/factor/two_sided/rows.cuh"

namespace mansard {

template <class P>
struct TridiagonalRows : WarpRows<P, ceil_div(ceil_div(P::N, 8), P::WARPS)> {
  using Base = WarpRows<P, ceil_div(ceil_div(P::N, 8), P::WARPS)>;
  using typename Base::R, typename Base::T;
  using Base::a, Base::column, Base::has_column, Base::lane, Base::warp;
  using Base::N, Base::WARPS, Base::OWN, Base::COLUMNS, Base::WIDTH, Base::LENGTH;
  static constexpr bool VECTORS = P::WANT == Want::vectors;
  // Six warps and more would read more parts of y than entries of A. Halves of numbers need a power of two of them.
  static constexpr bool FOLDED = WARPS >= 6 && OWN <= 32 && (OWN & (OWN - 1)) == 0;
  static constexpr int PARTS = FOLDED ? 1 : WARPS, ROOM = FOLDED ? LENGTH : WARPS * WIDTH;
  static constexpr int ENTRIES = 3 * LENGTH + ROOM + WARPS * 2 * LENGTH;
  static_assert(P::SHARED_BYTES == ENTRIES * int(sizeof(T)) + ceil_div(8 * WARPS, 16) * 16,
                "work.py and the kernel disagree");

  T *const x_of, *const next_of, *const parts, *const pairs;
  R* const sums;

  MANSARD_DEVICE explicit TridiagonalRows(T* arena)
      : x_of(arena),
        next_of(arena + LENGTH),
        parts(arena + 3 * LENGTH),
        pairs(parts + ROOM + warp * 2 * LENGTH),
        sums(reinterpret_cast<R*>(arena + ENTRIES)) {}

  // Zeros where vectors reach beyond the columns; nothing else writes there.
  MANSARD_DEVICE void clear() {
    if constexpr (LENGTH > WIDTH) {
      for (int i = WIDTH + threadIdx.x; i < LENGTH; i += 32 * WARPS) x_of[i] = zero<T>();
      for (int i = 2 * WIDTH + lane; i < 2 * LENGTH; i += 32) pairs[i] = zero<T>();
    }
  }

  // Publish column k below the diagonal and row k + 1; `d` receives diagonal entry k.
  MANSARD_DEVICE void publish(int k, R* d) {
    this->with_row(k, [&](int c, T entry) {
      x_of[column(c)] = either(column(c) > k, conjugate(entry), zero<T>());
      if (column(c) == k) d[k] = real_part(entry);
    });
    this->with_row(k + 1, [&](int c, T entry) { next_of[k % 2 * LENGTH + column(c)] = entry; });
  }

  // Publish this warp's part of y = A x, by the columns of its rows; returns this lane's part of x^H y.
  MANSARD_DEVICE R multiply_columns(int k, const T (&x)[COLUMNS]) {
    T y[COLUMNS][2];  // two independent sums
    R quadratic = 0;
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) y[c][0] = y[c][1] = zero<T>();
    this->template live_rows<1>(k, x_of, [&](int r, const T* entry) {
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) multiply_add<true>(y[c][r % 2], a[c][r], *entry);
    });
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      add_to(y[c][0], y[c][1]);
      quadratic += real_product(x[c], y[c][0]);
      parts[warp * WIDTH + column(c)] = y[c][0];
    }
    return quadratic;
  }
  // Publish this warp's entries of y = A x, summed over lanes; returns this lane's part of x^H y.
  MANSARD_DEVICE R multiply_rows(int k, const T (&x)[COLUMNS]) {
    T y[OWN];
    MANSARD_UNROLL
    for (int q = 0; q < Base::CHUNKS; ++q) {
      const bool live = this->is_live(q, k);
      MANSARD_UNROLL
      for (int r = q * Base::ROWS; r < (q + 1) * Base::ROWS; ++r) {
        y[r] = zero<T>();
        if (live)
          MANSARD_UNROLL
          for (int c = 0; c < COLUMNS; ++c) multiply_add<false>(y[r], a[c][r], x[c]);
      }
    }
    const T own = team_fold<32>(y, lane);
    const int i = this->row(lane / (32 / OWN));
    if (lane % (32 / OWN) != 0) return R(0);
    parts[i] = own;
    return real_product(x_of[i], own);
  }

  // Reflector k; row k of V is at `v`.
  MANSARD_DEVICE Reflector<T> step(int k, T* v, R* e) {
    __syncthreads();  // A: x and next[k % 2] are complete, written by the warps that own rows k and k + 1
    T x[COLUMNS];
    R squares = 0, quadratic;
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      x[c] = x_of[column(c)];
      squares += column(c) > k + 1 ? modulus_square(x[c]) : R(0);
    }
    if constexpr (FOLDED) quadratic = team_sum<32>(multiply_rows(k, x));
    else quadratic = team_sum<32>(multiply_columns(k, x));
    squares = team_sum<32>(squares);
    if (lane == 0) sums[warp] = quadratic;
    const Reflector<T> h(x_of[k + 1], squares);
    __syncthreads();  // B: parts and sums are complete, written by all warps
    const T* const next = next_of + k % 2 * LENGTH;
    T product = zero<T>();
    quadratic = 0;
    MANSARD_UNROLL
    for (int w = 0; w < WARPS; ++w) quadratic += sums[w];
    MANSARD_UNROLL
    for (int w = 0; w < PARTS; ++w) add_to(product, parts[w * WIDTH + k + 1]);
    const R quotient = half_quotient(h, quadratic, product, real_part(next[k + 1]));
    T u[COLUMNS], q[COLUMNS];
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      const int j = column(c);
      T sum = zero<T>();
      MANSARD_UNROLL
      for (int w = 0; w < PARTS; ++w) add_to(sum, parts[w * WIDTH + j]);
      u[c] = j == k + 1 ? h.first : either(h.inverse != 0, x[c], zero<T>());
      multiply_subtract<false>(sum, h.beta, conjugate(next[j]));
      T own = by_real(sum, h.inverse);
      add_multiple(own, -quotient, u[c]);
      q[c] = either(j > k && has_column(c), own, zero<T>());
      pairs[2 * j] = u[c];
      pairs[2 * j + 1] = q[c];
      if (warp == 0 && has_column(c)) {
        if (j == k) e[k] = h.off_diagonal();
        if (VECTORS) v[j] = either(j == k, from_real<T>(h.inverse), u[c]);
      }
      u[c] = negated(conjugate(u[c]));
      q[c] = negated(conjugate(q[c]));
    }
    __syncwarp();  // pairs are complete, written by all lanes of this warp
    this->template live_rows<2>(k, pairs, [&](int r, const T* entries) {
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) {
        multiply_add<false>(a[c][r], entries[1], u[c]);
        multiply_add<false>(a[c][r], entries[0], q[c]);
      }
    });
    return h;
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void tridiagonal_block(const Arguments& a) {
  using Rows = TridiagonalRows<P>;
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  constexpr int N = P::N;
  MANSARD_SHARED_ARENA(T, arena);
  Rows rows(arena);
  const i64 matrix = blockIdx.x;
  const Entries<P> A(a, matrix);
  rows.load([&](int i, int j) {
    const bool stored = is_stored<P>(i, j);
    const T entry = A(stored ? i : j, stored ? j : i);
    return i == j ? diagonal_entry(entry) : either(stored, entry, conjugate(entry));
  });
  rows.clear();
  const int key = rows.scale(reinterpret_cast<int*>(rows.sums));
  const bool is_first = threadIdx.x == 0;
  if (is_first) {
    a.SCALE[matrix] = Magnitude<R>::scale(key);
    a.INFO[matrix] = Magnitude<R>::is_finite(key) ? 0 : N + 1;
  }
  Phases<T> phases;
  const bool writes_phases = Rows::VECTORS && is_first;
  if (writes_phases) phases.store(a, matrix * N);
  R *const d = a.D + matrix * N, *const e = a.E + matrix * N;
  rows.publish(0, d);
MANSARD_UNROLL_BY(1)
  for (int k = 0; k < N - 2; ++k) {
    const Reflector<T> h = rows.step(k, Rows::VECTORS ? a.V + (matrix * N + k) * N : nullptr, e);
    phases.advance(h);
    if (writes_phases) phases.store(a, matrix * N + k + 1);
    rows.publish(k + 1, d);
  }
  __syncthreads();  // x and next[N % 2] are complete, written by the warps that own the last two rows
  if (is_first) {
    // the last diagonal entry, and the one left of it, of which only the phase is left
    const Reflector<T> last(rows.x_of[N - 1], R(0));
    phases.advance(last);
    if (writes_phases) phases.store(a, matrix * N + N - 1);
    e[N - 2] = last.off_diagonal();
    e[N - 1] = 0;
    d[N - 1] = real_part(rows.next_of[N % 2 * Rows::LENGTH + N - 1]);
  }
}

}  // namespace mansard
