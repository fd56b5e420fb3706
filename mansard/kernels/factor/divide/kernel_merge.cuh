// Eigenvalues and eigenvectors of symmetric tridiagonal matrices by divide and conquer: one block per matrix.
//
//   T = diag(T_1, T_2) + |b| v v^T,  v = last unit vector of T_1 and +- first one of T_2,  b the entry between them
//   diag(Q_1, Q_2)^T T diag(Q_1, Q_2) = D + rho z z^T = S L S^T,    Q = diag(Q_1, Q_2) S
//
// Halves have a power of two of rows; the last one of a matrix may be short. Pairs of rows are solved by a rotation;
// merges follow: levels M = 4, 8, ..., TOP, all groups of M rows of a level at once. S has the vectors of a rank-one update: roots of the secular
// equation (secular.cuh), then z is computed anew from them (Gu and Eisenstat), so that vectors are orthogonal whatever
// the gaps. A pole with a negligible z, or one of a pair that a rotation decouples, keeps its vector (deflation).
//
// Team. Four lanes per row, root and column: PADDED teams. A warp has eight rows of the product, and all columns of
// their group.
//
// Shared memory, in real numbers (MergeMemory):
//   q          PADDED x H    row i of Q, columns of its group
//   s          PADDED x PITCH_S    S: rows by columns of Q, from the first of the group; columns by rank
//   ten vectors of PADDED entries: d values by column of Q; poles, z by rank; their compressed forms; roots; norms;
//   cosines and sines of rotations, which share room with others; four of integers
//
// Phases of a level, with barriers (__syncthreads) as barrier -> buffer -> writer:
//   1  z, ranks        -> sorted, ranked_z, source -> the team of the column
//   2  negligible z    -> kept (bits) -> the warp of these ranks
//   3  close pairs     vote; if there are any: rotations -> sorted, ranked_z -> a thread per group; 2 again
//   4  compressed      -> poles, z, place -> the thread of the rank
//   5  roots           -> origin, offset, d -> the team of the rank
//   6  z anew          -> z -> the team of the rank
//   7  columns of S    -> s, norm -> the team of the rank; rotations of its rows: own columns, another barrier
//   8  product         in registers -> q has been read by all warps -> q; the last level stores it
//
// Limits: latency of the phases at small levels; arithmetic of secular equation and product at large ones.
//
//   WARPS  PADDED / 8
#pragma once
#include "kernels/factor/divide/secular.cuh"

namespace mansard {

MANSARD_HOST_DEVICE int power_from(int n) {
  int power = 4;
  while (power < n) power *= 2;
  return power;
}

template <class R>
struct alignas(2 * sizeof(R)) Pair {
  R x, y;
};

template <class P>
struct MergeMemory {
  using R = typename P::T;
  static constexpr int N = P::N, PADDED = ceil_div(N, 8) * 8, TOP = power_from(N), H = TOP / 2;
  static constexpr int PITCH_Q = H, PITCH_S = PADDED + 4, WORDS = ceil_div(PADDED, 32);
  static constexpr int REALS = 12, INTEGERS = 3;
  static constexpr int NUMBERS = PADDED * (PITCH_Q + PITCH_S + REALS);
  static constexpr int BYTES = NUMBERS * int(sizeof(R)) + (INTEGERS * PADDED + WORDS) * 4;

  R *q, *s, *d, *e, *sorted, *ranked_z, *poles, *z, *weights, *origin, *offset, *norm, *cosine, *sine;
  int *source, *place, *partner;
  u32* kept;

  MANSARD_DEVICE explicit MergeMemory(R* arena) : q(arena), s(q + PADDED * PITCH_Q) {
    R* next = s + PADDED * PITCH_S;
    R** const reals[REALS] = {&d, &e, &sorted, &ranked_z, &poles, &z, &weights, &origin, &offset, &norm, &cosine, &sine};
    MANSARD_UNROLL
    for (int k = 0; k < REALS; ++k) *reals[k] = next + k * PADDED;
    source = reinterpret_cast<int*>(next + REALS * PADDED);
    place = source + PADDED;
    partner = place + PADDED;
    kept = reinterpret_cast<u32*>(partner + PADDED);
  }
};

template <class P, class Arguments>
struct Merge {
  using R = typename P::T;
  using Memory = MergeMemory<P>;
  static constexpr int N = P::N, PADDED = Memory::PADDED, THREADS = TEAM * PADDED, TOP = Memory::TOP;
  static constexpr R SMALL = R(4) * Precision<R>::UNIT;  // of the largest entry: what deflation neglects

  const Arguments& a;
  const Memory m;
  const i64 matrix;
  const int thread = threadIdx.x, own = thread / TEAM, lane = thread % TEAM;  // own: a column, a rank or a root
  R tolerance = R(0);
  int unfinished = 0;

  // Group of M rows around index i.
  struct Group {
    int begin, seam, end;
    MANSARD_DEVICE Group(int i, int M) : begin(i & -M), seam(begin + M / 2), end(min(begin + M, N)) {}
    MANSARD_DEVICE bool is_pair() const { return seam < N; }
  };
  MANSARD_DEVICE R rho(const Group& g) const { return g.is_pair() ? R(2) * fabs(m.e[g.seam - 1]) : R(0); }

  MANSARD_DEVICE bool is_kept(int p) const { return (m.kept[p / 32] >> p % 32 & 1u) != 0; }
  // Kept ranks in begin .. end - 1.
  MANSARD_DEVICE int kept_in(int begin, int end) const {
    int count = 0;
    MANSARD_UNROLL
    for (int w = 0; w < Memory::WORDS; ++w) count += __popc(m.kept[w] & bits_below(end - 32 * w) & ~bits_below(begin - 32 * w));
    return count;
  }
  static MANSARD_DEVICE u32 bits_below(int k) { return k <= 0 ? 0u : k >= 32 ? ~0u : (1u << k) - 1u; }

  // Pairs of rows, with the corners of every seam between pairs taken off; false if an entry is not finite.
  MANSARD_DEVICE bool load() {
    const R *const D = a.D + matrix * N, *const E = a.E + matrix * N;
    bool finite = true;
    for (int i = thread; i < PADDED; i += THREADS) {
      const R entry = i < N ? D[i] : R(0), after = i < N - 1 ? E[i] : R(0);
      const R beyond = i % 2 == 1 ? after : i > 0 && i < N ? E[i - 1] : R(0);
      finite &= fabs(entry) <= Range<R>::MOST && fabs(after) <= Range<R>::MOST;
      m.d[i] = entry - fabs(beyond);
      m.e[i] = after;
      m.sorted[i] = fmax(fabs(entry), fabs(after));
    }
    for (int k = thread; k < PADDED * Memory::PITCH_Q; k += THREADS) m.q[k] = R(0);
    for (int k = thread; k < PADDED * Memory::PITCH_S; k += THREADS) m.s[k] = R(0);
    if (__syncthreads_or(!finite)) return false;  // d, e, sorted, q and s are complete, written by all threads
    for (int i = lane; i < N; i += TEAM) tolerance = fmax(tolerance, m.sorted[i]);
    tolerance = fmax(tolerance, __shfl_xor_sync(0xffffffffu, tolerance, 1));
    tolerance = SMALL * fmax(tolerance, __shfl_xor_sync(0xffffffffu, tolerance, 2));
    if (2 * thread < N) rotate_pair(2 * thread);
    __syncthreads();  // sorted has been read by all threads; d and q are complete, written by the threads of the pairs
    return true;
  }
  // Values and vectors of rows i and i + 1 (Jacobi); a last row is alone.
  MANSARD_DEVICE void rotate_pair(int i) const {
    R* const q = m.q + i * Memory::PITCH_Q;
    const R off = i + 1 < N ? m.e[i] : R(0);
    R tangent = R(0);
    if (off != 0) {
      const R slope = (m.d[i + 1] - m.d[i]) / (R(2) * off);
      tangent = copysign(R(1) / (fabs(slope) + sqrt(fma(slope, slope, R(1)))), slope);
    }
    const R cosine = R(1) / sqrt(fma(tangent, tangent, R(1))), sine = tangent * cosine;
    q[0] = cosine;
    if (i + 1 >= N) return;
    q[1] = sine;
    q[Memory::PITCH_Q] = -sine;
    q[Memory::PITCH_Q + 1] = cosine;
    m.d[i] -= tangent * off;
    m.d[i + 1] += tangent * off;
  }
  // Rank of d[own] among begin .. end - 1, in all lanes of the team.
  MANSARD_DEVICE int rank(int begin, int end) const {
    const R value = m.d[own];
    int count = 0;
    for (int i = begin + lane; i < end; i += TEAM) count += m.d[i] < value || (m.d[i] == value && i < own);
    count += __shfl_xor_sync(0xffffffffu, count, 1);
    return count + __shfl_xor_sync(0xffffffffu, count, 2);
  }
  // z of column `own`: its entries in the rows beside the seam; then everything by rank.
  MANSARD_DEVICE void sort(const Group& g) const {
    constexpr R ROOT_HALF = R(0.70710678118654752440);
    const int to = g.begin + rank(g.begin, g.end);
    if (lane != 0 || own >= N) return;
    R entry = R(0);
    if (g.is_pair()) {
      if (own < g.seam) entry = m.q[(g.seam - 1) * Memory::PITCH_Q + own - g.begin];
      else entry = (m.e[g.seam - 1] < 0 ? R(-1) : R(1)) * m.q[g.seam * Memory::PITCH_Q + own - g.seam];
    }
    m.sorted[to] = m.d[own];
    m.ranked_z[to] = ROOT_HALF * entry;
    m.source[to] = own;
  }
  // Bits of the ranks whose z is not negligible.
  MANSARD_DEVICE void select(int M) const {
    if (thread >= 32 * Memory::WORDS) return;
    const bool keeps = thread < N && rho(Group(thread, M)) * fabs(m.ranked_z[thread]) > tolerance;
    const u32 word = __ballot_sync(0xffffffffu, keeps);
    if (thread % 32 == 0) m.kept[thread / 32] = word;
  }
  // The rotation that makes z of p zero, and what it leaves beside the diagonal: whether that is negligible.
  struct Decoupling {
    R length, cosine, sine;
    bool negligible;
    MANSARD_DEVICE Decoupling(R lower, R upper, R z_lower, R z_upper, R tolerance) {
      const R square = fma(z_lower, z_lower, z_upper * z_upper), inverse = quick_inverse_root(square);
      length = square * inverse;
      cosine = z_upper * inverse;
      sine = z_lower * inverse;
      negligible = fabs((upper - lower) * cosine * sine) <= tolerance;
    }
  };
  // Whether a kept rank and the kept one before it decouple.
  MANSARD_DEVICE bool is_close(int M) const {
    if (thread >= N || !is_kept(thread)) return false;
    int before = thread - 1;
    const int begin = Group(thread, M).begin;
    while (before >= begin && !is_kept(before)) --before;
    if (before < begin) return false;
    return Decoupling(m.sorted[before], m.sorted[thread], m.ranked_z[before], m.ranked_z[thread], tolerance).negligible;
  }
  // Decouple pairs from the lowest rank of a group up; one thread per group. z of the lower one becomes zero.
  MANSARD_DEVICE void decouple(const Group& g) const {
    int before = -1;
    for (int p = g.begin; p < g.end; ++p) {
      m.partner[p] = -1;
      if (!is_kept(p)) continue;
      if (before >= 0) {
        const R lower = m.sorted[before], upper = m.sorted[p];
        const Decoupling by(lower, upper, m.ranked_z[before], m.ranked_z[p], tolerance);
        if (by.negligible) {
          m.partner[before] = p;
          m.cosine[before] = by.cosine;
          m.sine[before] = by.sine;
          m.ranked_z[before] = R(0);
          m.ranked_z[p] = by.length;
          const R step = (upper - lower) * by.sine * by.sine;  // d_p c^2 + d_q s^2 = d_p + (d_q - d_p) s^2
          m.sorted[before] = lower + step;
          m.sorted[p] = upper - step;
        }
      }
      before = p;
    }
  }
  MANSARD_DEVICE void compress(int M) const {
    if (thread >= N) return;
    const Group g(thread, M);
    const bool keeps = is_kept(thread);
    const int to = g.begin + kept_in(g.begin, thread);
    m.place[thread] = keeps ? to : -1;
    m.d[thread] = m.sorted[thread];  // the value of a rank that is not kept
    if (!keeps) return;
    const R entry = m.ranked_z[thread];
    m.poles[to] = m.sorted[thread];
    m.z[to] = entry;
    m.weights[to] = entry * entry;
  }
  MANSARD_DEVICE void find_root(const Group& g) {
    const int at = own < N ? m.place[own] : -1, count = own < N ? kept_in(g.begin, g.end) : 0;
    const R factor = rho(g);
    Secular<R> secular{m.poles + g.begin, m.weights + g.begin, count > 0 ? R(1) / factor : R(1), count, lane, at - g.begin};
    secular.solve(at >= 0, factor);
    unfinished += !secular.converged;
    if (at < 0 || lane != 0) return;
    m.origin[at] = secular.origin;
    m.offset[at] = secular.offset;
    m.d[own] = secular.origin + secular.offset;
  }
  // z_i^2 = prod_j (x_j - d_i) / prod_(j != i) (d_j - d_i): the update whose roots these are exactly.
  MANSARD_DEVICE void renew_z(const Group& g) const {
    const int at = own < N ? m.place[own] : -1, end = g.begin + (at >= 0 ? kept_in(g.begin, g.end) : 0);
    const R pole = at >= 0 ? m.poles[at] : R(0);
    R product = R(1);
    for (int j = g.begin + lane; j < end; j += TEAM) {
      const R distance = (pole - m.origin[j]) - m.offset[j];
      product *= j == at ? distance : distance * quick_inverse(pole - m.poles[j]);
    }
    product *= __shfl_xor_sync(0xffffffffu, product, 1);
    product *= __shfl_xor_sync(0xffffffffu, product, 2);
    if (at >= 0 && lane == 0) m.z[at] = copysign(sqrt(fabs(product)), m.z[at]);
  }
  // Column `own` of S, not normalised; that of a rank which is not kept is a unit vector.
  MANSARD_DEVICE void fill_column(const Group& g) const {
    const int at = own < N ? m.place[own] : -1;
    const R origin = at >= 0 ? m.origin[at] : R(0), offset = at >= 0 ? m.offset[at] : R(0);
    R squares = R(0);
    if (own < N)
      for (int p = g.begin + lane; p < g.end; p += TEAM) {
        const int from = m.place[p];
        R entry = at < 0 && p == own ? R(1) : R(0);
        if (at >= 0 && from >= 0) entry = m.z[from] * quick_inverse((m.poles[from] - origin) - offset);
        squares = fma(entry, entry, squares);
        m.s[(m.source[p] - g.begin) * Memory::PITCH_S + own] = entry;
      }
    squares = team_total(squares);
    if (own < N && lane == 0) m.norm[own] = R(1) / sqrt(squares);
  }
  // Rotations of pairs, on rows of S, in the reverse order.
  MANSARD_DEVICE void rotate_rows(int M) const {
    if (thread >= N) return;
    const Group g(thread, M);
    for (int p = g.end - 1; p >= g.begin; --p) {
      const int q = m.partner[p];
      if (q < 0) continue;
      R& lower = m.s[(m.source[p] - g.begin) * Memory::PITCH_S + thread];
      R& upper = m.s[(m.source[q] - g.begin) * Memory::PITCH_S + thread];
      const R x = lower, y = upper, c = m.cosine[p], s = m.sine[p];
      lower = fma(c, x, s * y);
      upper = fma(c, y, -s * x);
    }
  }

  // Q <- diag(Q_1, Q_2) S. M >= 32: a warp has eight rows and a lane M / 32 columns; below, lanes share the rows, too.
  template <int M>
  MANSARD_DEVICE void multiply() const {
    constexpr int HALF = M / 2, COLUMNS = M >= 32 ? M / 32 : 1, ROWS = M >= 32 ? 8 : M / 4;
    constexpr int RIGHT = HALF < PADDED - HALF ? HALF : PADDED - HALF;  // rows of S for the second half
    const int first = thread / 32 * 8 + (M >= 32 ? 0 : thread % 32 / M * ROWS);  // row
    const int begin = first & -M, column = begin + thread % (M < 32 ? M : 32);
    const bool second = (first & HALF) != 0;
    const R* q = m.q + first * Memory::PITCH_Q;
    const R* s = m.s + (second ? HALF * Memory::PITCH_S : 0) + column;
    R sum[ROWS][COLUMNS];
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r)
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) sum[r][c] = R(0);
    const int inner = second ? RIGHT : HALF;
    MANSARD_UNROLL_BY(1)
    for (int k = 0; k < inner; k += 2) {
      R factor[2][COLUMNS];
      MANSARD_UNROLL
      for (int i = 0; i < 2; ++i)
        MANSARD_UNROLL
        for (int c = 0; c < COLUMNS; ++c)
          factor[i][c] = column + 32 * c < PADDED ? s[(k + i) * Memory::PITCH_S + 32 * c] : R(0);
      MANSARD_UNROLL
      for (int r = 0; r < ROWS; ++r) {
        const Pair<R> entries = *reinterpret_cast<const Pair<R>*>(q + r * Memory::PITCH_Q + k);
        MANSARD_UNROLL
        for (int c = 0; c < COLUMNS; ++c) sum[r][c] = fma(entries.y, factor[1][c], fma(entries.x, factor[0][c], sum[r][c]));
      }
    }
    __syncthreads();  // q has been read by all warps
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      const int j = column + 32 * c;
      if (j >= N) continue;
      const R scale = m.norm[j];
      MANSARD_UNROLL
      for (int r = 0; r < ROWS; ++r) {
        if constexpr (M == TOP) {
          if (first + r < N) a.Z[(matrix * N + first + r) * N + m.source[j]] = scale * sum[r][c];
        } else {
          m.q[(first + r) * Memory::PITCH_Q + j - begin] = scale * sum[r][c];
        }
      }
    }
  }
  // S of all groups of M rows.
  MANSARD_DEVICE void prepare(int M) {
    const Group g(own, M);
    sort(g);
    __syncthreads();  // sorted, ranked_z and source are complete, written by the teams of their columns
    select(M);
    __syncthreads();  // kept is complete, written by the warps of the ranks
    const bool rotates = __syncthreads_or(is_close(M));
    if (rotates) {
      if (thread < N && thread % M == 0) decouple(Group(thread, M));
      __syncthreads();  // sorted and ranked_z have changed, by a thread per group; kept has been read
      select(M);
      __syncthreads();  // kept is complete, written by the warps of the ranks
    }
    compress(M);
    __syncthreads();  // poles, z, weights, place and d are complete, written by the threads of their ranks
    find_root(g);
    __syncthreads();  // origin, offset and d are complete, written by the teams of their ranks
    renew_z(g);
    __syncthreads();  // z is complete, written by the teams of their ranks
    fill_column(g);
    __syncthreads();  // s and norm are complete, written by the teams of their columns
    if (rotates) {
      rotate_rows(M);
      __syncthreads();  // s is complete, written by the threads of its columns
    }
  }
  template <int M>
  MANSARD_DEVICE void multiply_groups(int rows) const {
    if (rows == M) multiply<M>();
    else if constexpr (M < TOP) multiply_groups<2 * M>(rows);
  }
  MANSARD_DEVICE void run() {
    MANSARD_UNROLL_BY(1)
    for (int M = 4; M <= TOP; M *= 2) {
      prepare(M);
      if (M == TOP) store_values();
      multiply_groups<4>(M);
      __syncthreads();  // q is complete, written by all warps
    }
  }
  // Values in ascending order; source becomes the place of each column.
  MANSARD_DEVICE void store_values() const {
    const R scale = a.SCALE != nullptr ? a.SCALE[matrix] : R(1);
    const int to = rank(0, N);
    if (lane == 0 && own < N) {
      a.W[matrix * N + to] = m.d[own] / scale;
      m.source[own] = to;
    }
    __syncthreads();  // source is complete, written by the teams of its columns
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void divide_merge(const Arguments& a) {
  using R = typename P::T;
  using Memory = MergeMemory<P>;
  constexpr int N = P::N;
  static_assert(P::SHARED_BYTES >= Memory::BYTES);
  static_assert(P::WARPS * 32 == Merge<P, Arguments>::THREADS);
  MANSARD_SHARED_ARENA(R, arena);
  Merge<P, Arguments> own{a, Memory(arena), static_cast<i64>(blockIdx.x)};
  if (own.load()) {
    own.run();
    const int unfinished = __syncthreads_count(own.unfinished > 0);
    if (threadIdx.x == 0) a.INFO[own.matrix] = min(unfinished, N);
    return;
  }
  const R poison = not_a_number<R>();
  for (int k = threadIdx.x; k < N * N; k += P::WARPS * 32) a.Z[own.matrix * (N * N) + k] = poison;
  for (int k = threadIdx.x; k < N; k += P::WARPS * 32) a.W[own.matrix * N + k] = poison;
  if (threadIdx.x == 0) a.INFO[own.matrix] = N + 1;
}

}  // namespace mansard
