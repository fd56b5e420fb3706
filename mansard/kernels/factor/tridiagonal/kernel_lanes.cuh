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
// ROLL steps share their code (two_sided/roll.cuh). Vectors in shared memory have the order of the registers.
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
//   ROLL   steps that share their code: 1 (none) or 4
#pragma once
#include "kernels/factor/tridiagonal/hermitian.cuh"
#include "kernels/factor/two_sided/roll.cuh"

namespace mansard {

template <class P>
struct TridiagonalColumns : RolledColumns<P> {
  using Base = RolledColumns<P>;
  using typename Base::R, typename Base::T;
  using Base::a, Base::column, Base::has_column, Base::rank;
  using Base::N, Base::LANES, Base::SLOTS, Base::ROLL, Base::ROWS, Base::PADDED, Base::SIZE;
  static constexpr int PITCH = N | 1;
  static constexpr int LATER = 3 * PADDED + ceil_div(2 * N, Scalar<T>::WORDS);   // entries of x, q, d and e
  static constexpr int ROOM = padded<T>(N * PITCH > LATER ? N * PITCH : LATER);  // entries of a team
  static constexpr bool VECTORS = P::WANT == Want::vectors;
  static_assert(P::SHARED_BYTES == P::WARPS * 32 / LANES * ROOM * int(sizeof(T)), "work.py and the kernel disagree");

  T* const shared;  // of the team
  Phases<T> phases;

  MANSARD_DEVICE TridiagonalColumns(int rank, T* shared) : Base(rank), shared(shared) {}

  MANSARD_DEVICE R* diagonal() const { return reinterpret_cast<R*>(shared + 3 * PADDED); }
  MANSARD_DEVICE R* off_diagonal() const { return diagonal() + N; }

  // Load the stored triangle, and the other one through shared memory.
  MANSARD_DEVICE void load(const Entries<P>& A) {
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s) {
      const int j = column(s);
      MANSARD_UNROLL
      for (int i = 0; i < ROWS; ++i) {
        a[s][i] = zero<T>();
        if (i < N && has_column(s) && is_stored<P>(i, j)) a[s][i] = A(i, j);
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

  // Steps FIRST to N - 3, ROLL of them at a time.
  template <int FIRST, class Arguments>
  MANSARD_DEVICE void run(const Arguments& given, i64 matrix, bool writes) {
    if constexpr (FIRST < N - 2) {
      constexpr int STEPS = FIRST + ROLL < N - 2 ? ROLL : N - 2 - FIRST;
MANSARD_UNROLL_BY(1)
      for (int turn = 0; turn < STEPS; ++turn) {
        step<FIRST>(turn, given, matrix, writes);
        this->template rotate<FIRST>();
      }
      run<FIRST + ROLL>(given, matrix, writes);
    }
  }

  template <int FIRST, class Arguments>
  MANSARD_DEVICE void step(int turn, const Arguments& given, i64 matrix, bool writes) {
    const int k = FIRST + turn;
    const bool ends = turn + 1 == ROLL;  // row k + 1 is the first one of the next ROLL
    T* const x_of = shared + k % 2 * PADDED;
    T* const q_of = shared + 2 * PADDED;
    T x[SLOTS], y[SLOTS][2];  // y in two independent sums
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s) {
      const int j = column(s);
      x[s] = either(j > k, conjugate(a[s][FIRST]), zero<T>());
      if (SLOTS * LANES <= PADDED || j < PADDED) x_of[Base::template place<FIRST>(j, turn)] = x[s];
      const R corner = hidden(real_part(a[s][FIRST]));
      if (j == k) diagonal()[k] = corner;
      y[s][0] = y[s][1] = zero<T>();
    }
    __syncwarp();  // A: x[k % 2] is complete, written by all lanes
    Base::template rows_below<FIRST>(x_of, [&](int p, T entry) {
      MANSARD_UNROLL
      for (int s = 0; s < SLOTS; ++s) multiply_add<true>(y[s][p % 2], a[s][p], entry);
    });
    R squares = 0, quadratic = 0;
    T next[SLOTS];  // row k + 1
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s) {
      add_to(y[s][0], y[s][1]);
      squares += column(s) > k + 1 ? modulus_square(x[s]) : R(0);
      quadratic += real_product(x[s], y[s][0]);
      next[s] = this->template row_after<FIRST>(s, ends);
    }
    squares = team_sum<LANES>(squares);
    quadratic = team_sum<LANES>(quadratic);
    const T product = this->template in_column_after<FIRST>(k, [&](int s) { return y[s][0]; });
    const R corner = this->template in_column_after<FIRST>(k, [&](int s) { return real_part(next[s]); });
    const Reflector<T> h(x_of[ends ? FIRST + ROLL : FIRST + 1], squares);
    const R quotient = half_quotient(h, quadratic, product, corner);
    T u[SLOTS], q[SLOTS];
    T* const v = VECTORS ? given.V + (matrix * N + k) * N : nullptr;
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s) {
      const int j = column(s);
      u[s] = j == k + 1 ? h.first : either(h.inverse != 0, x[s], zero<T>());
      multiply_subtract<false>(y[s][0], h.beta, conjugate(next[s]));
      T own = by_real(y[s][0], h.inverse);
      add_multiple(own, -quotient, u[s]);
      q[s] = either(j > k, own, zero<T>());
      if (SLOTS * LANES <= PADDED || j < PADDED) q_of[Base::template place<FIRST>(j, turn)] = q[s];
      if (j == k) off_diagonal()[k] = h.off_diagonal();
      if (VECTORS && writes && has_column(s)) v[j] = either(j == k, from_real<T>(h.inverse), u[s]);
      u[s] = negated(conjugate(u[s]));
      q[s] = negated(conjugate(q[s]));
    }
    __syncwarp();  // B: q is complete, written by all lanes
    update<FIRST>(ends, h.first, x_of, q_of, u, q);
    if constexpr (VECTORS) {
      phases.advance(h);
      if (writes && rank == 0) phases.store(given, matrix * N + k + 1);
    }
  }

  // A -= u q^H + q u^H below row k, with -conj(u) and -conj(q) of the own columns.
  template <int FIRST>
  MANSARD_DEVICE void update(bool ends, T first, const T* x_of, const T* q_of, const T (&u)[SLOTS],
                             const T (&q)[SLOTS]) {
    MANSARD_UNROLL
    for (int at = (FIRST + 1) / SIZE * SIZE; at < ROWS; at += SIZE) {
      const Chunk<T> x = Chunk<T>::read(x_of + at), w = Chunk<T>::read(q_of + at);
      MANSARD_UNROLL
      for (int n = 0; n < SIZE; ++n) {
        const int p = at + n;
        if (p > FIRST && p < ROWS) {
          T along = x.entry[n];  // u_i: x_i, but for the first one
          if (p == FIRST + ROLL) along = either(ends, first, along);
          else if (p == FIRST + 1) along = either(ends, along, first);
          MANSARD_UNROLL
          for (int s = 0; s < SLOTS; ++s) {
            multiply_add<false>(a[s][p], w.entry[n], u[s]);
            multiply_add<false>(a[s][p], along, q[s]);
          }
        }
      }
    }
  }

  // Write d and e, after the last two diagonal entries and the entry between them, of which only the phase is left.
  template <class Arguments>
  MANSARD_DEVICE void finish(const Arguments& given, i64 matrix, bool writes) {
    constexpr int BEGIN = (N - 2) / ROLL * ROLL, LAST = N - 1 < BEGIN + ROLL ? BEGIN + 1 : N - 1;  // last two rows
    const Reflector<T> last(lane_value<LANES>(a[(N - 2) / LANES][LAST], (N - 2) % LANES), R(0));
    phases.advance(last);
    if (VECTORS && writes && rank == 0) phases.store(given, matrix * N + N - 1);
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s) {
      const R before = hidden(real_part(a[s][BEGIN])), corner = hidden(real_part(a[s][LAST]));
      if (column(s) == N - 2) diagonal()[N - 2] = before, off_diagonal()[N - 2] = last.off_diagonal();
      if (column(s) == N - 1) diagonal()[N - 1] = corner, off_diagonal()[N - 1] = 0;
    }
    __syncwarp();  // d and e are complete, each entry written by the lane of its column
    if (writes)
      for (int j = rank; j < N; j += LANES) {
        given.D[matrix * N + j] = diagonal()[j];
        given.E[matrix * N + j] = off_diagonal()[j];
      }
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
  if (Columns::VECTORS && writes && rank == 0) columns.phases.store(a, matrix * N);
  columns.template run<0>(a, matrix, writes);
  columns.finish(a, matrix, writes);
}

}  // namespace mansard
