// Q^H (s A) Q = T for a batch of Hermitian A: s a power of two, T real and tridiagonal, Q = H_0 H_1 ... H_(N-3)
// diag(PHASE). A few lanes of a warp per matrix, which stays in their registers.
//
// Step k, with x = A(k+1:, k), y = A x, and u, beta, h of the reflector of x (two_sided/reflector.cuh):
//   A u = y - beta A e_1,  K = u^H A u / (2 h^2),  q = A u / h - K u,  A -= u q^H + q u^H
// y starts before |x| is known, so that |x|^2 and x^H y are summed together: one reduction over lanes per step.
//
// Team. LANES lanes per matrix; lane r owns the whole columns r, r + LANES, ...: a[s][i] = A(i, r + s LANES). Teams
// beyond the batch repeat its last matrix and write nothing.
//
// Shared memory of a team: image (N rows of PITCH, while loading); later, in its place:
//   x, q  PADDED entries each (x of even steps, x of odd steps, q), which all lanes read in chunks of 16 bytes
//   d, e  N reals each: diagonal and off-diagonal of T, written to global memory at the end
// Barriers (__syncwarp):
//   after the image is written  -> image         -> the lanes that hold the stored triangle
//   before x is written first   -> image         -> read by the lanes whose entries are mirrored
//   A: after x is written       -> x[k % 2]      -> all lanes; x of step k - 1 is still read by slower lanes
//   B: after q is written       -> q             -> all lanes; the readers of the last q have passed A
//
// Limits: reads of shared memory (two vectors of 16-byte broadcasts per update) and the latency of the reduction.
//
//   LANES  lanes per matrix, a power of two
//   WARPS  per block
#pragma once
#include "kernels/factor/tridiagonal/hermitian.cuh"

namespace mansard {

template <class P>
struct TridiagonalColumns {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N, LANES = P::LANES, SLOTS = ceil_div(N, LANES);
  static constexpr int PITCH = N | 1, PADDED = padded<T>(N), SIZE = Chunk<T>::SIZE;
  static constexpr int LATER = 3 * PADDED + ceil_div(2 * N, Scalar<T>::WORDS);  // entries of x, q, d and e
  static constexpr int ROOM = padded<T>(N * PITCH > LATER ? N * PITCH : LATER);  // entries of a team
  static constexpr bool VECTORS = P::WANT == Want::vectors;
  static_assert(P::SHARED_BYTES == P::WARPS * 32 / LANES * ROOM * int(sizeof(T)), "work.py and the kernel disagree");

  const int rank;   // of this lane in its team
  T* const shared;  // of the team
  T a[SLOTS][N];    // columns rank + s LANES

  MANSARD_DEVICE TridiagonalColumns(int rank, T* shared) : rank(rank), shared(shared) {}

  MANSARD_DEVICE R* diagonal() const { return reinterpret_cast<R*>(shared + 3 * PADDED); }
  MANSARD_DEVICE R* off_diagonal() const { return diagonal() + N; }

  MANSARD_DEVICE int column(int s) const { return rank + s * LANES; }
  MANSARD_DEVICE bool has_column(int s) const { return N % LANES == 0 || s + 1 < SLOTS || column(s) < N; }

  // Load the stored triangle, and the other one through shared memory.
  MANSARD_DEVICE void load(const Entries<P>& A) {
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s) {
      const int j = column(s);
      MANSARD_UNROLL
      for (int i = 0; i < N; ++i) {
        a[s][i] = zero<T>();
        if (has_column(s) && is_stored<P>(i, j)) a[s][i] = A(i, j);
        if (Scalar<T>::COMPLEX && i == j) a[s][i] = diagonal_entry(a[s][i]);
      }
      MANSARD_UNROLL
      for (int i = 0; i < N; ++i)
        if (has_column(s) && i != j && is_stored<P>(i, j)) shared[i * PITCH + j] = a[s][i];
    }
    __syncwarp();  // image is complete, written by the lanes that hold the stored triangle
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s)
      MANSARD_UNROLL
      for (int i = 0; i < N; ++i)
        if (has_column(s) && !is_stored<P>(i, column(s))) a[s][i] = conjugate(shared[column(s) * PITCH + i]);
    __syncwarp();  // image is about to be overwritten by x; all lanes have read it
  }

  // Scale by a power of two; returns the key of the largest entry (two_sided/scaling.cuh).
  MANSARD_DEVICE int scale() {
    Magnitude<R> largest;
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s)
      MANSARD_UNROLL
      for (int i = 0; i < N; ++i) largest.add(a[s][i]);
    const int key = team_max<LANES>(largest.key());
    const R factor = Magnitude<R>::factor(key);
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s)
      MANSARD_UNROLL
      for (int i = 0; i < N; ++i) a[s][i] = by_real(a[s][i], factor);
    return key;
  }

  // Calls visit(i, entries) for the chunks of rows from `first` on; entries are x_i of each of the two vectors.
  template <class Visit>
  static MANSARD_DEVICE void rows_from(int first, const T* vector, Visit visit) {
    MANSARD_UNROLL
    for (int at = first / SIZE * SIZE; at < N; at += SIZE) {
      const Chunk<T> chunk = Chunk<T>::read(vector + at);
      MANSARD_UNROLL
      for (int n = 0; n < SIZE; ++n)
        if (at + n >= first && at + n < N) visit(at + n, chunk.entry[n]);
    }
  }

  // Reflector k: returns it; row k of V is at `v`.
  MANSARD_DEVICE Reflector<T> step(int k, T* v, bool writes) {
    T* const x_of = shared + k % 2 * PADDED;
    T* const q_of = shared + 2 * PADDED;
    T x[SLOTS], y[SLOTS][2];  // y in two independent sums
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s) {
      const int j = column(s);
      x[s] = either(j > k, conjugate(a[s][k]), zero<T>());
      if (SLOTS * LANES <= PADDED || j < PADDED) x_of[j] = x[s];
      const R corner = hidden(real_part(a[s][k]));
      if (j == k) diagonal()[k] = corner;
      y[s][0] = y[s][1] = zero<T>();
    }
    __syncwarp();  // A: x[k % 2] is complete, written by all lanes
    rows_from(k + 1, x_of, [&](int i, T entry) {
      MANSARD_UNROLL
      for (int s = 0; s < SLOTS; ++s) multiply_add<true>(y[s][i % 2], a[s][i], entry);
    });
    R squares = 0, quadratic = 0;
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s) {
      add_to(y[s][0], y[s][1]);
      squares += column(s) > k + 1 ? modulus_square(x[s]) : R(0);
      quadratic += real_product(x[s], y[s][0]);
    }
    squares = team_sum<LANES>(squares);
    quadratic = team_sum<LANES>(quadratic);
    const int slot = (k + 1) / LANES, owner = (k + 1) % LANES;
    const T product = lane_value<LANES>(y[slot][0], owner);
    const R corner = lane_value<LANES>(real_part(a[slot][k + 1]), owner);
    const Reflector<T> h(x_of[k + 1], squares);
    const R quotient = half_quotient(h, quadratic, product, corner);
    T u[SLOTS], q[SLOTS];
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s) {
      const int j = column(s);
      u[s] = j == k + 1 ? h.first : either(h.inverse != 0, x[s], zero<T>());
      multiply_subtract<false>(y[s][0], h.beta, conjugate(a[s][k + 1]));
      T own = by_real(y[s][0], h.inverse);
      add_multiple(own, -quotient, u[s]);
      q[s] = either(j > k, own, zero<T>());
      if (SLOTS * LANES <= PADDED || j < PADDED) q_of[j] = q[s];
      if (j == k) off_diagonal()[k] = h.off_diagonal();
      if (VECTORS && writes && has_column(s)) v[j] = either(j == k, from_real<T>(h.inverse), u[s]);
      u[s] = negated(conjugate(u[s]));
      q[s] = negated(conjugate(q[s]));
    }
    __syncwarp();  // B: q is complete, written by all lanes
    update(k, h.first, x_of, q_of, u, q);
    return h;
  }

  // A -= u q^H + q u^H below row k, with -conj(u) and -conj(q) of the own columns.
  MANSARD_DEVICE void update(int k, T first, const T* x_of, const T* q_of, const T (&u)[SLOTS], const T (&q)[SLOTS]) {
    MANSARD_UNROLL
    for (int at = (k + 1) / SIZE * SIZE; at < N; at += SIZE) {
      const Chunk<T> x = Chunk<T>::read(x_of + at), w = Chunk<T>::read(q_of + at);
      MANSARD_UNROLL
      for (int n = 0; n < SIZE; ++n) {
        const int i = at + n;
        if (i > k && i < N) {
          const T along = i == k + 1 ? first : x.entry[n];
          MANSARD_UNROLL
          for (int s = 0; s < SLOTS; ++s) {
            multiply_add<false>(a[s][i], w.entry[n], u[s]);
            multiply_add<false>(a[s][i], along, q[s]);
          }
        }
      }
    }
  }

  // Complete d and e.
  MANSARD_DEVICE void finish(R last) {
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s) {
      const R before = hidden(real_part(a[s][N - 2])), corner = hidden(real_part(a[s][N - 1]));
      if (column(s) == N - 2) diagonal()[N - 2] = before, off_diagonal()[N - 2] = last;
      if (column(s) == N - 1) diagonal()[N - 1] = corner, off_diagonal()[N - 1] = 0;
    }
    __syncwarp();  // d and e are complete, each entry written by the lane of its column
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void tridiagonal_lanes(const Arguments& a) {
  using Columns = TridiagonalColumns<P>;
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  constexpr int N = P::N, LANES = P::LANES, TEAMS = P::WARPS * 32 / LANES;
  MANSARD_SHARED_ARENA(T, arena);
  const int team = threadIdx.x / LANES, rank = threadIdx.x % LANES;
  const i64 wanted = static_cast<i64>(blockIdx.x) * TEAMS + team;
  const bool writes = wanted < a.BATCH;  // teams beyond the batch repeat the last matrix
  const i64 matrix = writes ? wanted : a.BATCH - 1;
  Columns columns(rank, arena + team * Columns::ROOM);
  columns.load(Entries<P>(a, matrix));
  const int key = columns.scale();
  if (writes && rank == 0) {
    a.SCALE[matrix] = Magnitude<R>::scale(key);
    a.INFO[matrix] = Magnitude<R>::is_finite(key) ? 0 : N + 1;
  }
  Phases<T> phases;
  const bool writes_phases = Columns::VECTORS && writes && rank == 0;
  if (writes_phases) phases.store(a, matrix * N);
  MANSARD_UNROLL
  for (int k = 0; k + 2 < N; ++k) {
    const Reflector<T> h = columns.step(k, Columns::VECTORS ? a.V + (matrix * N + k) * N : nullptr, writes);
    phases.advance(h);
    if (writes_phases) phases.store(a, matrix * N + k + 1);
  }
  // the last two diagonal entries and the entry between them, of which only the phase is left
  const Reflector<T> last(lane_value<LANES>(columns.a[(N - 2) / LANES][N - 1], (N - 2) % LANES), R(0));
  phases.advance(last);
  if (writes_phases) phases.store(a, matrix * N + N - 1);
  columns.finish(last.off_diagonal());
  if (writes)
    for (int j = rank; j < N; j += LANES) {
      a.D[matrix * N + j] = columns.diagonal()[j];
      a.E[matrix * N + j] = columns.off_diagonal()[j];
    }
}

}  // namespace mansard
