// Qu^H (s A) Qv = B for a batch of square A, as kernel_lanes.cuh has it; here a block of threads has one matrix, in global
// memory, and reduces it by panels (two_sided/panels.cuh; LAPACK's LABRD).
//
//   A = M - sum_t u_t y_t^H - sum_t x_t w_t^H,   y = tau_u A^H u,   x = tau_w A w
//
// u annihilates column k below the diagonal, w row k beyond the entry right of it. M lies in U, of which row k receives
// u_k when it is done. M is read twice per column: by columns for y, by rows for x.
//
// Team. Warps take chunks of eight rows of M in turn: the parts of y meet in shared memory, entries of x are sums over
// lanes. Outside of these products a thread has entries i = thread, thread + THREADS, ... of vectors.
//
// Shared memory:
//   u, y, x, w   PANEL x WIDTH each: vectors of the panel
//   column, row  WIDTH each: column k of A from the diagonal on; the conjugate of row k right of it; zeros elsewhere.
//                Then u and w
//   parts        WARPS x WIDTH: parts of M^H u; its first WIDTH entries then are M w
//   dots         2 x PANEL: products of panel vectors with u, or with w
//   heads        the first entries of column and row
//   sums         2 x WARPS reals: parts of the squares of column and row; while loading, keys of the largest entries
// Barriers of column k:
//   A  -> column, heads, sums  -> all threads;  and again -> column -> the thread, or threads, that make it u
//   B  -> parts, dots     -> all warps
//   C  -> u, y, row, heads, sums  -> all threads; parts and dots have been read;  and again -> row -> as column
//   D  -> M w, dots       -> all warps
//   E  -> x, w            -> all threads; everything else has been read
//   after a panel -> M    -> all warps
//
// Limits: reading M from the second-level cache or from memory, 2/3 N^3 entries, and the latency of seven barriers per
// column.
//
//   PANEL  columns; WARPS  per matrix and block
#pragma once
#include "kernels/factor/bidiagonal/phases.cuh"
#include "kernels/factor/two_sided/panels.cuh"

namespace mansard {

template <class P>
struct BidiagonalPanels : PanelTeam<P> {
  using Base = PanelTeam<P>;
  using typename Base::R, typename Base::T;
  using Base::lane, Base::warp, Base::m;
  using Base::N, Base::PANEL, Base::WARPS, Base::THREADS, Base::ROWS, Base::COLUMNS, Base::WIDTH;
  static constexpr bool VECTORS = P::WANT == Want::vectors;
  static constexpr int ENTRIES = (4 * PANEL + 2 + WARPS) * WIDTH + 2 * PANEL + 2;
  static_assert(P::SHARED_BYTES == ENTRIES * int(sizeof(T)) + 16 * WARPS, "work.py and the kernel disagree");

  T *const u_of, *const y_of, *const x_of, *const w_of, *const column, *const row, *const parts, *const dots, *const heads;
  R* const sums;
  PhasePairs<T> phases;

  MANSARD_DEVICE BidiagonalPanels(T* matrix, T* arena)
      : Base(matrix),
        u_of(arena),
        y_of(u_of + PANEL * WIDTH),
        x_of(y_of + PANEL * WIDTH),
        w_of(x_of + PANEL * WIDTH),
        column(w_of + PANEL * WIDTH),
        row(column + WIDTH),
        parts(row + WIDTH),
        dots(parts + WARPS * WIDTH),
        heads(dots + 2 * PANEL),
        sums(reinterpret_cast<R*>(arena + ENTRIES)) {}

  // Column k of A from the diagonal on, by the `count` vectors of the panel so far.
  MANSARD_DEVICE void form_column(int k, int count) {
    R squares = 0;
    MANSARD_UNROLL
    for (int e = 0; e < Base::EACH; ++e) {
      const int i = threadIdx.x + e * THREADS;
      T entry = this->ahead[e];
      if (i >= k && i < N) {
        this->template subtract<true>(entry, i, u_of, y_of + k, x_of, w_of + k, WIDTH, count);
      }
      if (i < WIDTH) column[i] = entry;
      if (i == k) heads[0] = entry;
      if (i > k) squares += modulus_square(entry);
    }
    if (k + 1 < N) this->fetch_column(k + 1);
    squares = team_sum<32>(squares);
    if (lane == 0) sums[warp] = squares;
  }

  // This warp's part of M^H u.
  MANSARD_DEVICE void multiply_columns(int k) {
    T* const y = parts + warp * WIDTH;
    MANSARD_UNROLL_BY(1)
    for (int j = (k + 1) / 32 * 32 + lane; j < WIDTH; j += 32) y[j] = zero<T>();
    this->own_chunks(k, [&](int first) {
      T own[ROWS];
      this->read_entries(own, column + first);
      this->tiles(first, k + 1, N, is_inside, [&](int j, const T (&entry)[ROWS]) {
        T sum = y[j];
        MANSARD_UNROLL
        for (int r = 0; r < ROWS; ++r) multiply_add<true>(sum, entry[r], own[r]);
        y[j] = sum;
      });
    });
  }

  // y, row k of A and the sum of its squares; u and y become vectors `count` of the panel.
  MANSARD_DEVICE void form_row(int k, int count, const Reflector<T>& h) {
    R squares = 0;
    MANSARD_UNROLL_BY(1)
    for (int j = threadIdx.x; j < WIDTH; j += THREADS) {
      T y = zero<T>(), entry = zero<T>();
      const T own = column[j];
      if (j > k && j < N) {
        MANSARD_UNROLL_BY(4)
        for (int w = 0; w < WARPS; ++w) add_to(y, parts[w * WIDTH + j]);
        this->template subtract<false>(y, j, y_of, dots, w_of, dots + PANEL, 1, count);
        y = by_real(y, h.inverse);
        entry = conjugate(m[k * N + j]);  // conj(A_kj) = conj(M_kj) - sum_t conj(u_t[k]) y_t[j] - conj(x_t[k]) w_t[j]
        this->template subtract<true>(entry, j, y_of, u_of + k, w_of, x_of + k, WIDTH, count);
        multiply_subtract<true>(entry, h.first, y);
      }
      u_of[count * WIDTH + j] = own;
      y_of[count * WIDTH + j] = y;
      row[j] = entry;
      if (j == k + 1) heads[1] = entry;
      if (j > k + 1) squares += modulus_square(entry);
      if (VECTORS && j >= k && j < N) m[k * N + j] = own;
    }
    squares = team_sum<32>(squares);
    if (lane == 0) sums[WARPS + warp] = squares;
  }

  // M w of this warp's rows.
  MANSARD_DEVICE void multiply_rows(int k) {
    this->own_chunks(k + 1, [&](int first) {
      T sum[ROWS];
      MANSARD_UNROLL
      for (int r = 0; r < ROWS; ++r) sum[r] = zero<T>();
      this->tiles(first, k + 1, N, is_inside, [&](int j, const T (&entry)[ROWS]) {
        const T across = row[j];
        MANSARD_UNROLL
        for (int r = 0; r < ROWS; ++r) multiply_add<false>(sum[r], entry[r], across);
      });
      const T total = team_fold<32>(sum, lane);
      if (lane % (32 / ROWS) == 0) parts[first + lane / (32 / ROWS)] = total;
    });
  }

  // x and w become vectors `count` of the panel; row k of V is at `v`.
  MANSARD_DEVICE void finish_column(int k, int count, const Reflector<T>& g, T* v) {
    MANSARD_UNROLL_BY(1)
    for (int i = threadIdx.x; i < WIDTH; i += THREADS) {
      T x = zero<T>();
      const T own = row[i];
      if (i > k && i < N) {
        x = parts[i];
        this->template subtract<false>(x, i, u_of, dots, x_of, dots + PANEL, 1, count);
        multiply_subtract<false>(x, u_of[count * WIDTH + i], dots[count]);
        x = by_real(x, g.inverse);
        if (VECTORS) v[i] = own;
      }
      x_of[count * WIDTH + i] = x;
      w_of[count * WIDTH + i] = own;
    }
  }

  // Column and row k; `count` vectors of each kind are in the panel.
  template <class Arguments>
  MANSARD_DEVICE void step(int k, int count, const Arguments& given, i64 matrix) {
    const i64 at = matrix * N + k;
    form_column(k, count);
    __syncthreads();  // A: column, its head and sums are complete, written by all threads
    const Reflector<T> h = this->reflector(column, k, heads[0], sums);
    this->multiply_panel(u_of, count, x_of, count, column, k, dots);
    multiply_columns(k);
    __syncthreads();  // B: parts and dots are complete, written by all warps
    form_row(k, count, h);
    __syncthreads();  // C: u, y, row, its head and sums are complete, written by all threads; parts, dots have been read
    const Reflector<T> g = this->reflector(row, k + 1, k + 1 < N ? heads[1] : zero<T>(), sums + WARPS);
    if (threadIdx.x == 0) store(given, at, h, g, k + 1 < N);
    if (k < N - 2) {
      this->multiply_panel(y_of, count + 1, w_of, count, row, k + 1, dots);
      multiply_rows(k);
      __syncthreads();  // D: M w and dots are complete, written by all warps
      finish_column(k, count, g, VECTORS ? given.V + at * N : nullptr);
    } else {
      for (int i = threadIdx.x; i < WIDTH; i += THREADS)
        x_of[count * WIDTH + i] = w_of[count * WIDTH + i] = zero<T>();
    }
    __syncthreads();  // E: x and w are complete, written by all threads; everything else has been read
  }

 private:
  static MANSARD_DEVICE bool is_inside(int, int j) { return j < N; }
  template <class Arguments>
  MANSARD_DEVICE void store(const Arguments& given, i64 at, const Reflector<T>& h, const Reflector<T>& g, bool right) {
    given.D[at] = h.off_diagonal();
    given.E[at] = right ? g.off_diagonal() : R(0);
    if constexpr (VECTORS) {
      given.TAU_U[at] = h.inverse;
      given.TAU_V[at] = g.inverse;
      phases.store_right(given, at);
      phases.left(h);
      phases.store_left(given, at);
      phases.right(g);
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void bidiagonal_panels(const Arguments& a) {
  using Team = BidiagonalPanels<P>;
  using R = typename Team::R;
  constexpr int N = P::N;
  MANSARD_SHARED_ARENA(typename P::T, arena);
  const i64 matrix = blockIdx.x;
  Team team(a.U + matrix * (N * N), arena);
  const Entries<P> A(a, matrix);
  const int key = team.load(
      reinterpret_cast<int*>(team.sums), [&](int i, int j) { return A(i, j); }, [](int, int) { return true; });
  if (threadIdx.x == 0) {
    a.SCALE[matrix] = Magnitude<R>::scale(key);
    a.INFO[matrix] = Magnitude<R>::is_finite(key) ? 0 : N + 1;
  }
  team.fetch_column(0);
  int count = 0;
MANSARD_UNROLL_BY(1)
  for (int k = 0; k < N; ++k) {
    team.step(k, count, a, matrix);
    if (++count == P::PANEL && k + 1 < N) {
      team.template update<false>(k + 1, team.u_of, team.y_of, team.x_of, team.w_of);
      count = 0;
      __syncthreads();  // M is complete, written by all warps; vectors of the panel have been read
      team.fetch_column(k + 1);
    }
  }
}

}  // namespace mansard
