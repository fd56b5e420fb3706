// Blocked two-sided reductions of a matrix that is larger than a multiprocessor's registers: a block of threads per
// matrix, which stays in global memory (the second-level cache) while panels of PANEL columns are reduced.
//
//   Inside a panel nothing is written to the matrix M. With the vectors of the panel so far the reduced matrix is
//       A = M - sum_t l_t r_t^H - sum_t n_t s_t^H
//   and a product A v is M v less products with these vectors. After the panel the sums are subtracted from the rest of
//   M at once. M is read once or twice per column, and written once per panel.
//
// Panel vectors lie in shared memory, [PANEL][WIDTH], zero outside of their entries: rows of a matrix in chunks of
// ROWS, which the warps take in turn, columns in tiles of 32, one of each per lane.
#pragma once
#include "kernels/factor/two_sided/exchange.cuh"
#include "kernels/factor/two_sided/reflector.cuh"
#include "kernels/factor/two_sided/scaling.cuh"

namespace mansard {

template <class P>
struct PanelTeam {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N, PANEL = P::PANEL, WARPS = P::WARPS, THREADS = 32 * WARPS, ROWS = 8;
  static constexpr int COLUMNS = ceil_div(N, 32), WIDTH = 32 * COLUMNS;

  static constexpr int EACH = ceil_div(WIDTH, THREADS);  // entries of a vector that a thread has

  T* const m;    // row-major, N x N
  T ahead[EACH];  // this thread's entries of the next column of m: its rows are far apart, and take long to come
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  MANSARD_DEVICE explicit PanelTeam(T* matrix) : m(matrix) {}

  // m = the scaled entries read(i, j) for which is_read(i, j); returns the key of the largest one. `keys`: a number per
  // warp in shared memory.
  template <class Read, class IsRead>
  MANSARD_DEVICE int load(int* keys, Read read, IsRead is_read) const {
    Magnitude<R> largest;
    for (int at = threadIdx.x; at < N * N; at += THREADS)
      if (is_read(at / N, at % N)) largest.add(read(at / N, at % N));
    int key = team_max<32>(largest.key());
    if (lane == 0) keys[warp] = key;
    __syncthreads();  // keys are complete, written by lane 0 of each warp
    for (int w = 0; w < WARPS; ++w) key = max(key, keys[w]);
    const R factor = Magnitude<R>::factor(key);
    for (int at = threadIdx.x; at < N * N; at += THREADS)
      if (is_read(at / N, at % N)) m[at] = by_real(read(at / N, at % N), factor);
    __syncthreads();  // m is complete, written by all threads; keys have been read
    return key;
  }

  // Load this thread's entries of column k, on and below the diagonal.
  MANSARD_DEVICE void fetch_column(int k) {
    MANSARD_UNROLL
    for (int e = 0; e < EACH; ++e) {
      const int i = threadIdx.x + e * THREADS;
      ahead[e] = i >= k && i < N ? m[i * N + k] : zero<T>();
    }
  }

  // Sum over the block of what its warps have left in `sums`, one number each.
  static MANSARD_DEVICE R sum_of(const R* sums) {
    R sum = 0;
    MANSARD_UNROLL_BY(4)
    for (int w = 0; w < WARPS; ++w) sum += sums[w];
    return sum;
  }

  // The reflector of a vector x, whose first entry is a copy of x[at], from `sums` of the squares of the others; x
  // becomes its vector u.
  MANSARD_DEVICE Reflector<T> reflector(T* x, int at, T first, const R* sums) const {
    const Reflector<T> h(first, sum_of(sums));
    if (h.inverse == 0) {
      for (int i = threadIdx.x; i < WIDTH; i += THREADS) x[i] = zero<T>();
    } else if (threadIdx.x == 0) {
      x[at] = h.first;
    }
    __syncthreads();  // x is complete, changed by all threads or by one
    return h;
  }

  // entry -= sum_t a_t[i] op(s_t) + b_t[i] op(z_t) with `count` vectors of two kinds, s_t and z_t being `step` apart;
  // op is the conjugate if CONJ.
  template <bool CONJ>
  static MANSARD_DEVICE void subtract(T& entry, int i, const T* a, const T* s, const T* b, const T* z, int step,
                                      int count) {
    T other = zero<T>();
    MANSARD_UNROLL_BY(2)
    for (int t = 0; t < count; ++t) {
      multiply_subtract<CONJ>(entry, s[t * step], a[t * WIDTH + i]);
      multiply_subtract<CONJ>(other, z[t * step], b[t * WIDTH + i]);
    }
    add_to(entry, other);
  }

  // dots[t] = a_t^H v of `count` panel vectors, and dots[PANEL + t] = b_t^H v of `more`; entries from `first` on.
  MANSARD_DEVICE void multiply_panel(const T* a, int count, const T* b, int more, const T* v, int first, T* dots) const {
    MANSARD_UNROLL_BY(1)
    for (int n = warp; n < count + more; n += WARPS) {
      const int t = n < count ? n : n - count;
      const T* vector = (n < count ? a : b) + t * WIDTH;
      T sum = zero<T>();
      MANSARD_UNROLL_BY(2)
      for (int i = first / 32 * 32 + lane; i < WIDTH; i += 32) multiply_add<true>(sum, vector[i], v[i]);
      MANSARD_UNROLL
      for (int step = 16; step > 0; step /= 2) add_to(sum, lane_across(sum, step));
      if (lane == 0) dots[n < count ? t : PANEL + t] = sum;
    }
  }

  // Calls visit(first) for the first row of every chunk of this warp that reaches to row `from` or below.
  template <class Visit>
  MANSARD_DEVICE void own_chunks(int from, Visit visit) const {
    MANSARD_UNROLL_BY(1)
    for (int first = warp * ROWS; first < N; first += WARPS * ROWS)
      if (first + ROWS > from) visit(first);
  }

  // Entries of ROWS rows in column j, where is_read(row); zero elsewhere.
  template <class IsRead>
  MANSARD_DEVICE void read_rows(T (&entries)[ROWS], int first, int j, IsRead is_read) const {
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r) {
      const int i = first + r;
      entries[r] = zero<T>();
      if ((N % ROWS == 0 || i < N) && is_read(i)) entries[r] = m[i * N + j];
    }
  }

  // Calls visit(j, entries) for the tiles of columns from column `begin` to `end`, with this lane's column j and its
  // entries of ROWS rows. Each tile is loaded while the one before it is used: loads take longer than products.
  template <class IsRead, class Visit>
  MANSARD_DEVICE void tiles(int first, int begin, int end, IsRead is_read, Visit visit) const {
    T entry[ROWS], next[ROWS];
    int j = begin / 32 * 32 + lane;
    read_rows(next, first, j, [&](int i) { return is_read(i, j); });
    MANSARD_UNROLL_BY(1)
    for (; j < end + lane; j += 32) {
      MANSARD_UNROLL
      for (int r = 0; r < ROWS; ++r) entry[r] = next[r];
      read_rows(next, first, j + 32, [&](int i) { return is_read(i, j + 32); });
      visit(j, entry);
    }
  }
  // Consecutive entries of a vector in shared memory.
  static MANSARD_DEVICE void read_entries(T (&entries)[ROWS], const T* from) {
    constexpr int SIZE = Chunk<T>::SIZE;
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; r += SIZE) {
      const Chunk<T> chunk = Chunk<T>::read(from + r);
      MANSARD_UNROLL
      for (int n = 0; n < SIZE; ++n) entries[r + n] = chunk.entry[n];
    }
  }

  // m -= sum_t l_t r_t^H + n_t s_t^H for the rows and columns from `from` on; LOWER: on and below the diagonal alone.
  template <bool LOWER>
  MANSARD_DEVICE void update(int from, const T* l, const T* r, const T* n, const T* s) const {
    constexpr int EACH = 2;  // tiles of columns at a time
    own_chunks(from, [&](int first) {
      MANSARD_UNROLL_BY(1)
      for (int c = from / (32 * EACH) * EACH; c < COLUMNS; c += EACH) {
        if (LOWER && 32 * c >= first + ROWS) break;
        T entries[EACH][ROWS];
        MANSARD_UNROLL
        for (int e = 0; e < EACH; ++e) {
          const int j = 32 * (c + e) + lane;
          read_rows(entries[e], first, j, [&](int i) { return is_updated<LOWER>(i, j, from); });
        }
        MANSARD_UNROLL_BY(1)
        for (int t = 0; t < PANEL; ++t) {
          add_products(entries, l + t * WIDTH + first, r + t * WIDTH + 32 * c);
          add_products(entries, n + t * WIDTH + first, s + t * WIDTH + 32 * c);
        }
        MANSARD_UNROLL
        for (int e = 0; e < EACH; ++e)
          MANSARD_UNROLL
          for (int k = 0; k < ROWS; ++k) {
            const int i = first + k, j = 32 * (c + e) + lane;
            if (i < N && is_updated<LOWER>(i, j, from)) m[i * N + j] = entries[e][k];
          }
      }
    });
  }

 private:
  template <bool LOWER>
  static MANSARD_DEVICE bool is_updated(int i, int j, int from) {
    return i >= from && j >= from && (LOWER ? j <= i : j < N);
  }
  template <int EACH>
  MANSARD_DEVICE void add_products(T (&entries)[EACH][ROWS], const T* l, const T* r) const {
    constexpr int SIZE = Chunk<T>::SIZE;
    T right[EACH];
    MANSARD_UNROLL
    for (int e = 0; e < EACH; ++e) right[e] = negated(conjugate(r[32 * e + lane]));
    MANSARD_UNROLL
    for (int k = 0; k < ROWS; k += SIZE) {
      const Chunk<T> left = Chunk<T>::read(l + k);
      MANSARD_UNROLL
      for (int n = 0; n < SIZE; ++n)
        MANSARD_UNROLL
        for (int e = 0; e < EACH; ++e) multiply_add<false>(entries[e][k + n], left.entry[n], right[e]);
    }
  }
};

}  // namespace mansard
