// Q^H (s A) Q = T for a batch of Hermitian A, as kernel_lanes.cuh has it; here a block of threads has one matrix, in
// global memory, and reduces it by panels (two_sided/panels.cuh).
//
//   A = M - sum_t u_t q_t^H - sum_t q_t u_t^H,   q = A u / h - K u,   K = u^H A u / (2 h^2)
//
// M is the lower triangle of V: row k of V above the diagonal receives u_k when column k is done, and 1 / h_k replaces
// its diagonal entry. An entry of M serves two products, with u_j for row i and with u_i for row j.
//
// Team. Warps take chunks of eight rows in turn (sums over lanes), and have parts of the products with columns, which
// meet in shared memory. Outside of these products a thread has entries i = thread, thread + THREADS, ... of vectors.
//
// Shared memory:
//   u, q    PANEL x WIDTH: vectors of the panel
//   x       WIDTH: column k below the diagonal, zeros elsewhere; then u
//   rows    WIDTH: M u, of each row its part left of and on the diagonal
//   parts   WARPS x WIDTH: parts of M u from entries above the diagonal
//   dots    2 x PANEL: u_t^H u, q_t^H u
//   head    the first entry of x, and one of padding
//   sums    2 x WARPS reals: parts of |x|^2 and of u^H M u; while loading, keys of the largest entries
// Barriers of column k:
//   A  -> x, head, sums    -> all threads;  and again -> x -> the thread, or threads, that make it u
//   B  -> rows, parts, dots, sums  -> all warps
//   C  -> u, q             -> all threads; x, rows, parts, dots and sums have been read
//   after a panel -> M     -> all warps
//
// Limits: reading M from the second-level cache, N^3 / 6 entries, and the latency of four barriers per column.
//
//   PANEL  columns; WARPS  per matrix and block
#pragma once
#include "kernels/factor/tridiagonal/hermitian.cuh"
#include "kernels/factor/two_sided/panels.cuh"

namespace mansard {

template <class P>
struct TridiagonalPanels : PanelTeam<P> {
  using Base = PanelTeam<P>;
  using typename Base::R, typename Base::T;
  using Base::lane, Base::warp, Base::m;
  using Base::N, Base::PANEL, Base::WARPS, Base::THREADS, Base::ROWS, Base::COLUMNS, Base::WIDTH;
  static constexpr bool VECTORS = P::WANT == Want::vectors;
  static constexpr int ENTRIES = (2 * PANEL + 2 + WARPS) * WIDTH + 2 * PANEL + 2;
  static_assert(P::SHARED_BYTES == ENTRIES * int(sizeof(T)) + 16 * WARPS, "work.py and the kernel disagree");

  T *const u_of, *const q_of, *const x_of, *const rows, *const parts, *const dots, *const head;
  R* const sums;

  MANSARD_DEVICE TridiagonalPanels(T* matrix, T* arena)
      : Base(matrix),
        u_of(arena),
        q_of(u_of + PANEL * WIDTH),
        x_of(q_of + PANEL * WIDTH),
        rows(x_of + WIDTH),
        parts(rows + WIDTH),
        dots(parts + WARPS * WIDTH),
        head(dots + 2 * PANEL),
        sums(reinterpret_cast<R*>(arena + ENTRIES)) {}

  // Column k of A by the `count` vectors of the panel so far; `d` receives diagonal entry k.
  MANSARD_DEVICE void form_column(int k, int count, R* d) {
    R squares = 0;
    MANSARD_UNROLL
    for (int e = 0; e < Base::EACH; ++e) {
      const int i = threadIdx.x + e * THREADS;
      T entry = this->ahead[e];
      if (i >= k && i < N) {
        this->template subtract<true>(entry, i, u_of, q_of + k, q_of, u_of + k, WIDTH, count);
      }
      if (i == k) d[k] = real_part(entry);
      if (i == k + 1) *head = entry;
      if (i < WIDTH) x_of[i] = either(i > k, entry, zero<T>());
      if (i > k + 1) squares += modulus_square(entry);
    }
    if (k + 1 < N) this->fetch_column(k + 1);
    squares = team_sum<32>(squares);
    if (lane == 0) sums[warp] = squares;
  }

  // Products of this warp's rows of M with u.
  MANSARD_DEVICE void multiply(int k, const T* u) {
    T* const y = parts + warp * WIDTH;
    R quadratic = 0;
    MANSARD_UNROLL_BY(1)
    for (int j = (k + 1) / 32 * 32 + lane; j < WIDTH; j += 32) y[j] = zero<T>();
    this->own_chunks(k + 1, [&](int first) {
      T own[ROWS], sum[ROWS];
      this->read_entries(own, u + first);
      MANSARD_UNROLL
      for (int r = 0; r < ROWS; ++r) sum[r] = zero<T>();
      const auto is_lower = [](int i, int j) { return j <= i; };
      this->tiles(first, k + 1, first + ROWS, is_lower, [&](int j, const T (&entry)[ROWS]) {
        const T across = u[j];
        T below = y[j];
        MANSARD_UNROLL
        for (int r = 0; r < ROWS; ++r) {
          multiply_add<false>(sum[r], entry[r], across);
          multiply_add<true>(below, either(first + r == j, zero<T>(), entry[r]), own[r]);
        }
        y[j] = below;
      });
      const T total = team_fold<32>(sum, lane);
      const int i = first + lane / (32 / ROWS);
      if (lane % (32 / ROWS) == 0) {
        rows[i] = total;
        quadratic += real_product(u[i], total);
      }
    });
    MANSARD_UNROLL_BY(1)
    for (int j = (k + 1) / 32 * 32 + lane; j < WIDTH; j += 32) quadratic += real_product(u[j], y[j]);
    quadratic = team_sum<32>(quadratic);
    if (lane == 0) sums[WARPS + warp] = quadratic;
  }

  // u and q of column k become vector `count` of the panel; row k of V is at `v`.
  MANSARD_DEVICE void finish_column(int k, int count, const Reflector<T>& h, T* v) {
    R quadratic = this->sum_of(sums + WARPS);
    MANSARD_UNROLL_BY(2)
    for (int t = 0; t < count; ++t) quadratic -= R(2) * real_product(dots[t], dots[PANEL + t]);
    const R quotient = quadratic * h.inverse * h.inverse * R(0.5);
    MANSARD_UNROLL_BY(1)
    for (int i = threadIdx.x; i < WIDTH; i += THREADS) {
      const T own = x_of[i];
      T q = zero<T>();
      if (i > k && i < N) {
        T y = rows[i];
        MANSARD_UNROLL_BY(4)
        for (int w = 0; w < WARPS; ++w) add_to(y, parts[w * WIDTH + i]);
        this->template subtract<false>(y, i, u_of, dots + PANEL, q_of, dots, 1, count);
        q = by_real(y, h.inverse);
        add_multiple(q, -quotient, own);
      }
      u_of[count * WIDTH + i] = own;
      q_of[count * WIDTH + i] = q;
      if (VECTORS && i >= k && i < N) v[i] = either(i == k, from_real<T>(h.inverse), own);
    }
  }

  // Reflector k; `count` vectors are in the panel.
  MANSARD_DEVICE Reflector<T> step(int k, int count, T* v, R* d, R* e) {
    form_column(k, count, d);
    __syncthreads();  // A: x, head and sums are complete, written by all threads
    const Reflector<T> h = this->reflector(x_of, k + 1, k + 1 < N ? *head : zero<T>(), sums);
    if (threadIdx.x == 0) e[k] = k + 1 < N ? h.off_diagonal() : R(0);
    if (k < N - 2) {
      this->multiply_panel(u_of, count, q_of, count, x_of, k + 1, dots);
      multiply(k, x_of);
      __syncthreads();  // B: rows, parts, dots and sums are complete, written by all warps
      finish_column(k, count, h, v);
    }
    __syncthreads();  // C: u and q have their new vector, written by all threads; x, head and sums have been read
    return h;
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void tridiagonal_panels(const Arguments& a) {
  using Team = TridiagonalPanels<P>;
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  constexpr int N = P::N;
  MANSARD_SHARED_ARENA(T, arena);
  const i64 matrix = blockIdx.x;
  Team team(a.V + matrix * (N * N), arena);
  const Entries<P> A(a, matrix);
  const auto read = [&](int i, int j) {
    const T entry = P::LOWER ? A(i, j) : conjugate(A(j, i));
    return i == j ? diagonal_entry(entry) : entry;
  };
  const int key = team.load(reinterpret_cast<int*>(team.sums), read, [](int i, int j) { return j <= i; });
  const bool is_first = threadIdx.x == 0;
  if (is_first) {
    a.SCALE[matrix] = Magnitude<R>::scale(key);
    a.INFO[matrix] = Magnitude<R>::is_finite(key) ? 0 : N + 1;
  }
  Phases<T> phases;
  const bool writes_phases = Team::VECTORS && is_first;
  team.fetch_column(0);
  int count = 0;
MANSARD_UNROLL_BY(1)
  for (int k = 0; k < N; ++k) {
    if (writes_phases) phases.store(a, matrix * N + k);
    phases.advance(team.step(k, count, team.m + k * N, a.D + matrix * N, a.E + matrix * N));
    if (k < N - 2 && ++count == P::PANEL) {  // the last two columns have no reflector
      team.template update<true>(k + 1, team.u_of, team.q_of, team.q_of, team.u_of);
      count = 0;
      __syncthreads();  // M is complete, written by all warps; u and q have been read
      team.fetch_column(k + 1);
    }
  }
}

}  // namespace mansard
