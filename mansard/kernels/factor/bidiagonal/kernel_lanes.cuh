// Qu^H (s A) Qv = B for a batch of square A: s a power of two, B real and upper bidiagonal, Qu = H_0 ... H_(N-2)
// diag(PHASE_U), Qv = G_0 ... G_(N-3) diag(PHASE_V). A few lanes of a warp per matrix, which stays in their registers.
//
// Step k, with reflectors as two_sided/reflector.cuh has them:
//   H_k = I - u u^H / h annihilates column k below the diagonal:  t = -A^H u / h,  A += u t^H
//   G_k = I - w w^H / g annihilates row k right of column k + 1:  z = -A w / g,    A += z w^H
//
// Team. LANES lanes per matrix; lane r owns the whole columns r, r + LANES, ...: products with u need no other lane,
// products with w are summed over lanes. Teams beyond the batch repeat its last matrix and write nothing.
//
// ROLL steps share their code (two_sided/roll.cuh). Vectors in shared memory have the order of the registers.
//
// Shared memory of a team:
//   x, z  PADDED entries each: column k (rows that are done: zeros), z; read by all lanes in chunks of 16 bytes
//   d, e, 1/h, 1/g  N reals each, written to global memory at the end
// Barriers (__syncwarp):
//   A: after x is written  -> x  -> the lane that owns column k; x of step k - 1 was read before B of that step
//   B: after z is written  -> z  -> all lanes; z of step k - 1 was read before A of this step
//
// Limits: latency of the reductions, and the length of the code without ROLL.
//
//   LANES  lanes per matrix, a power of two
//   WARPS  per block
//   ROLL   steps that share their code: 1 (none) or 4
#pragma once
#include "kernels/factor/bidiagonal/phases.cuh"
#include "kernels/factor/two_sided/roll.cuh"

namespace mansard {

template <class P>
struct BidiagonalColumns : RolledColumns<P> {
  using Base = RolledColumns<P>;
  using typename Base::R, typename Base::T;
  using Base::a, Base::column, Base::has_column, Base::rank;
  using Base::N, Base::LANES, Base::SLOTS, Base::ROLL, Base::ROWS, Base::PADDED;
  static constexpr int ROOM = padded<T>(2 * PADDED + ceil_div(4 * N, Scalar<T>::WORDS));  // entries of a team
  static constexpr int MOST = sizeof(T) > 8 ? 8 : 16;  // rows whose products with w are summed over lanes together
  static constexpr int GROUP = LANES < MOST ? LANES : MOST;
  static constexpr bool VECTORS = P::WANT == Want::vectors;
  static_assert(P::SHARED_BYTES == P::WARPS * 32 / LANES * ROOM * int(sizeof(T)), "work.py and the kernel disagree");

  T *const x_of, *const z_of;
  R* const numbers;  // d, e, 1/h, 1/g
  PhasePairs<T> phases;

  MANSARD_DEVICE BidiagonalColumns(int rank, T* shared)
      : Base(rank), x_of(shared), z_of(shared + PADDED), numbers(reinterpret_cast<R*>(shared + 2 * PADDED)) {}

  MANSARD_DEVICE void load(const Entries<P>& A) {
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s)
      MANSARD_UNROLL
      for (int i = 0; i < ROWS; ++i) {
        a[s][i] = zero<T>();
        if (i < N && has_column(s)) a[s][i] = A(i, column(s));
      }
  }

  // Steps FIRST to N - 2, ROLL of them at a time.
  template <int FIRST, class Arguments>
  MANSARD_DEVICE void run(const Arguments& given, i64 matrix, bool writes) {
    if constexpr (FIRST < N - 1) {
      constexpr int STEPS = FIRST + ROLL < N - 1 ? ROLL : N - 1 - FIRST;
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
    const Reflector<T> h = reflect_columns<FIRST>(k, turn);
    T w[SLOTS];
    const Reflector<T> g = reflect_rows<FIRST>(k, turn, w);
    if (rank == 0) {
      numbers[k] = h.off_diagonal(), numbers[N + k] = g.off_diagonal();
      if (VECTORS) numbers[2 * N + k] = h.inverse, numbers[3 * N + k] = g.inverse;
    }
    if constexpr (VECTORS) {
      phases.left(h);
      if (writes && rank == 0) phases.store_left(given, matrix * N + k);
      phases.right(g);
      if (writes && rank == 0) phases.store_right(given, matrix * N + k + 1);
      T *const u_to = given.U + (matrix * N + k) * N, *const w_to = given.V + (matrix * N + k) * N;
      MANSARD_UNROLL
      for (int s = 0; s < SLOTS; ++s)
        if (has_column(s) && writes) {
          const int j = column(s);
          const T below = x_of[j > k ? Base::template place<FIRST>(j, turn) : FIRST];
          u_to[j] = j == k ? h.first : either(j > k && h.inverse != 0, below, zero<T>());
          w_to[j] = w[s];
        }
    }
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s) w[s] = conjugate(w[s]);
    __syncwarp();  // B: z is complete, written by all lanes
    Base::template rows_below<FIRST>(z_of, [&](int p, T z) {
      MANSARD_UNROLL
      for (int s = 0; s < SLOTS; ++s) multiply_add<false>(a[s][p], z, w[s]);
    });
  }

  // A = H_k A, with column k published as x.
  template <int FIRST>
  MANSARD_DEVICE Reflector<T> reflect_columns(int k, int turn) {
    constexpr int SLOT = FIRST / LANES;
    if (rank == k % LANES) {
      MANSARD_UNROLL
      for (int p = FIRST; p < ROWS; ++p)
        x_of[p] = p == FIRST || Base::template is_below<FIRST>(p, turn) ? hidden(a[SLOT][p]) : zero<T>();
    }
    __syncwarp();  // A: x is complete, written by the lane that owns column k
    T t[SLOTS][2];  // x^H A below row k, in two independent sums
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s) t[s][0] = t[s][1] = zero<T>();
    Base::template rows_below<FIRST>(x_of, [&](int p, T x) {
      MANSARD_UNROLL
      for (int s = SLOT; s < SLOTS; ++s) multiply_add<true>(t[s][p % 2], x, a[s][p]);
    });
    MANSARD_UNROLL
    for (int s = SLOT; s < SLOTS; ++s) add_to(t[s][0], t[s][1]);
    const R squares = lane_value<LANES>(real_part(t[SLOT][0]), k % LANES);
    const Reflector<T> h(x_of[FIRST], squares);
    MANSARD_UNROLL
    for (int s = SLOT; s < SLOTS; ++s) {
      multiply_add<true>(t[s][0], h.first, a[s][FIRST]);
      t[s][0] = either(column(s) > k, by_real(t[s][0], -h.inverse), zero<T>());
      multiply_add<false>(a[s][FIRST], h.first, t[s][0]);
    }
    Base::template rows_below<FIRST>(x_of, [&](int p, T x) {
      MANSARD_UNROLL
      for (int s = SLOT; s < SLOTS; ++s) multiply_add<false>(a[s][p], x, t[s][0]);
    });
    return h;
  }

  // The reflector of row k, its vector w, and z = -A w / g, published.
  template <int FIRST>
  MANSARD_DEVICE Reflector<T> reflect_rows(int k, int turn, T (&w)[SLOTS]) {
    R squares = 0;
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s) {
      const int j = column(s);
      w[s] = either(j > k && has_column(s), conjugate(a[s][FIRST]), zero<T>());
      squares += j > k + 1 ? modulus_square(w[s]) : R(0);
    }
    squares = team_sum<LANES>(squares);
    const T head = this->template in_column_after<FIRST>(k, [&](int s) { return w[s]; });
    const Reflector<T> g(head, squares);
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s)
      w[s] = column(s) == k + 1 ? either(g.inverse != 0, g.first, zero<T>()) : either(g.inverse != 0, w[s], zero<T>());
    multiply_rows<FIRST, (FIRST + 1) / GROUP * GROUP>(turn, g.inverse, w);
    return g;
  }

  // z of the GROUP places from BEGIN on, and of the groups after them.
  template <int FIRST, int BEGIN>
  MANSARD_DEVICE void multiply_rows(int turn, R inverse, const T (&w)[SLOTS]) {
    if constexpr (BEGIN < ROWS) {
      T z[GROUP];
      MANSARD_UNROLL
      for (int b = 0; b < GROUP; ++b) {
        z[b] = zero<T>();
        if (BEGIN + b > FIRST && BEGIN + b < ROWS) {
          MANSARD_UNROLL
          for (int s = FIRST / LANES; s < SLOTS; ++s) multiply_add<false>(z[b], a[s][BEGIN + b], w[s]);
        }
      }
      const T sum = by_real(team_fold<LANES, FIRST + 1 - BEGIN, ROWS - BEGIN>(z, rank), -inverse);
      const int own = BEGIN + rank / (LANES / GROUP);
      if (rank % (LANES / GROUP) == 0 && (BEGIN + GROUP <= ROWS || own < ROWS))
        z_of[own] = either(Base::template is_below<FIRST>(own, turn), sum, zero<T>());
      multiply_rows<FIRST, BEGIN + GROUP>(turn, inverse, w);
    }
  }

  // Write d, e, 1/h and 1/g, after the last diagonal entry, of which only the phase is left.
  template <class Arguments>
  MANSARD_DEVICE void finish(const Arguments& given, i64 matrix, bool writes) {
    constexpr int LAST = (N - 1) / ROLL * ROLL;  // place of the last row, after the turns of the last steps
    const Reflector<T> h(lane_value<LANES>(a[(N - 1) / LANES][LAST], (N - 1) % LANES), R(0));
    phases.left(h);
    if (VECTORS && writes && rank == 0) phases.store_left(given, matrix * N + N - 1);
    if (rank == 0) {
      numbers[N - 1] = h.off_diagonal();
      numbers[2 * N - 1] = numbers[3 * N - 1] = numbers[4 * N - 1] = 0;
    }
    __syncwarp();  // d, e, 1/h and 1/g are complete, written by the first lane
    if (writes)
      for (int j = rank; j < N; j += LANES) {
        given.D[matrix * N + j] = numbers[j];
        given.E[matrix * N + j] = numbers[N + j];
        if (VECTORS) {
          given.TAU_U[matrix * N + j] = numbers[2 * N + j];
          given.TAU_V[matrix * N + j] = numbers[3 * N + j];
        }
      }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void bidiagonal_lanes(const Arguments& a) {
  using Columns = BidiagonalColumns<P>;
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
    if (Columns::VECTORS) columns.phases.store_right(a, matrix * N);
  }
  columns.template run<0>(a, matrix, writes);
  columns.finish(a, matrix, writes);
}

}  // namespace mansard
