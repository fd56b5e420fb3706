// Singular values and vectors of square matrices for a small batch, by one-sided Jacobi rotations: one block per matrix.
//
//   A J = columns that are orthogonal, J a product of rotations:   svd: A = Z diag(W) VH, W descending
//   W are the lengths of these columns, Z the columns divided by them, VH = J^H
//
// Team. LANES lanes have a pair of columns, all pairs of a round at once: PAIRS teams. Rounds are those of a tournament:
// in round r columns r + i and r - i (modulo ROUNDS) meet, and r meets the last one; with an odd number it rests. Column
// r + i, i = 0 ... PAIRS - 1, is the team's own: it stays in registers for PAIRS rounds, and only the other column of a
// pair is read from shared memory and written back. Then a team takes the column whose turn it is.
//
// Squares of norms are summed once per sweep and updated by rotations in between: a pair takes one sum over its team.
// Columns of J follow one round behind: their rotation has no part in the chain product -> angle -> rotation -> barrier.
//
// Shared memory (BlockMemory): columns of A J and of J, squares, values and their order.
//
// Phases: load and scale by a power of two, barrier; sweeps until one finds all |a_p^H a_q| <= 2 sqrt(N) u |a_p| |a_q|;
// then columns are normalised, barrier, values ranked, barrier, results written. A rotation with rounded cosine and sine
// is a scaled rotation: it makes columns of A J and of J longer or shorter by the same factor, so W are the quotients of
// their lengths. A column of J would otherwise drift with the number of rotations.
// Barriers: one per round, `columns`, `vectors` and `squares` of partners -> their next teams.
//
// INFO: 0, N where SWEEPS sweeps did not suffice, N + 1 where A holds an infinity or a NaN; W, Z and VH are NaN there.
//
// Limits: latency of a round (sum over the team, two reciprocal square roots, barrier) for few rows; bandwidth of shared
// memory from about 48 rows on.
//
// Params beside T, N, WANT, TRANSPOSED (columns of A are adjacent in memory), POINTERS (A is an array of addresses):
//   LANES          lanes per pair of columns
//   VECTORS        where a team's own column of J is: registers, or (shared) in shared memory like all others
//   SWEEPS         sweeps after which a matrix counts as not converged
#pragma once
#include "mansard/gpu/platform.cuh"

namespace mansard {

enum class Want { svd, svdvals };
enum class Vectors { registers, shared };

}  // namespace mansard

#include "kernels/factor/jacobi/block_basis.cuh"
#include "kernels/factor/jacobi/block_columns.cuh"

namespace mansard {

// log2 of a size, rounded up.
MANSARD_HOST_DEVICE int bits_of(int size) {
  int bits = 0;
  while ((1 << bits) < size) ++bits;
  return bits;
}

template <class P, class Arguments>
struct BlockJacobi {
  using S = BlockShape<P>;
  using T = typename S::T;
  using R = typename S::R;
  static constexpr int N = P::N, LANES = P::LANES, PITCH = S::PITCH, PAIRS = S::PAIRS, ROUNDS = S::ROUNDS;
  static constexpr int THREADS = S::THREADS;
  static constexpr R TOLERANCE = R(4) * N * Format<R>::ROUNDOFF * Format<R>::ROUNDOFF;
  static constexpr R NULL_SQUARE = Format<R>::NULL_SQUARE;
  // Exponent of the largest entry: squares of norms may be N^2 times as large, and are squared.
  static constexpr int EXPONENT = Format<R>::SINGULAR_EXPONENT - (N > 8 && sizeof(R) == 4 ? bits_of(N) - 3 : 0);

  const Arguments& a;
  const BlockMemory<P> m;
  const i64 matrix;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % LANES, team = thread / LANES;
  int exponent = 0;  // of the scale
  R raise = R(1);    // 1, or a power of two by which tiny entries were multiplied beside the scale

  // What the columns of J still have to do: the last round's rotation of their own and their partner's column.
  struct Pending {
    Rotation<T> rotation;
    int own, partner;
    bool takes, meets, leaves;  // loads its own column first; has a partner; stores its own column in the end
  };

  MANSARD_DEVICE void synchronize() const {
    if constexpr (THREADS == 32) __syncwarp();
    else __syncthreads();
  }

  // Put A into `columns` and a unit matrix into `vectors`; false if an entry is not finite.
  MANSARD_DEVICE bool load() {
    u32 largest = 0;
    MANSARD_UNROLL_BY(4)
    for (int k = thread; k < N * N; k += THREADS) {
      const int i = P::TRANSPOSED ? k % N : k / N, j = P::TRANSPOSED ? k / N : k % N;
      T entry;
      if constexpr (P::POINTERS) entry = a.A[matrix][i * a.a_row + j * a.a_col];
      else entry = a.A[matrix * a.a_matrix + i * a.a_row + j * a.a_col];
      largest = max(largest, magnitude_word(entry));
      m.columns[j * PITCH + i] = entry;
      if constexpr (S::HAS_VECTORS) m.vectors[j * PITCH + i] = from_real<T>(i == j ? 1 : 0);
    }
    MANSARD_UNROLL_BY(1)
    for (int k = thread; k < N * (PITCH - N); k += THREADS) {
      const int at = k / (PITCH - N) * PITCH + N + k % (PITCH - N);
      m.columns[at] = zero<T>();
      if constexpr (S::HAS_VECTORS) m.vectors[at] = zero<T>();
    }
    MANSARD_UNROLL
    for (int step = 16; step > 0; step /= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, step));
    if (thread % 32 == 0) m.largest[thread / 32] = largest;
    synchronize();  // columns, vectors and largest are complete, written by all threads
    MANSARD_UNROLL_BY(1)
    for (int warp = 0; warp < THREADS / 32; ++warp) largest = max(largest, m.largest[warp]);
    const bool finite = is_finite_word<R>(largest);
    if constexpr (sizeof(R) == 4) {
      if (largest < (64u << Format<R>::FRACTION)) {  // no normal number would scale these
        raise = Format<R>::RAISE;
        largest = __float_as_uint(__uint_as_float(largest) * raise);
      }
    }
    exponent = scale_exponent<R>(largest, EXPONENT);
    return finite;
  }

  // Whether this team has column j, one of its two outside of rounds.
  MANSARD_DEVICE bool is_column(int j) const { return team < PAIRS && j < N; }

  // Squares of all columns; the first time columns are scaled.
  MANSARD_DEVICE void sum_squares(bool scales) const {
    const R scale = power_of_two<R>(exponent);
    MANSARD_UNROLL_BY(1)
    for (int half = 0; half < 2; ++half) {
      const int j = team + half * PAIRS;
      Share<P> x;
      x.clear();
      if (is_column(j)) x.load(m.columns + j * PITCH, lane);
      if (scales) {
        x.multiply(raise);
        x.multiply(scale);
        if (is_column(j)) x.store(m.columns + j * PITCH, lane);
      }
      const R square = x.square();
      if (is_column(j) && lane == 0) m.squares[j] = square;
    }
    synchronize();  // squares and scaled columns are complete, written by the teams of their columns
  }

  // The rotation that makes a pair orthogonal, and what it changes: squares of norms.
  static MANSARD_DEVICE Rotation<T> rotation_of(T b, R b_square, bool wanted, R& square, R& other) {
    const R apart = other - square, h = spread_square(apart, b_square);
    R shift;
    Rotation<T> rotation = annihilating<false>(apart, b, b_square, h, wanted, shift);
    square -= shift;
    other += shift;
    if constexpr (!S::HAS_VECTORS) {  // no J to compare lengths with: c^2 + |s|^2 is to be one
      const R c = rotation.cosine, p = c * c, rest = (R(1) - p) - fma(c, c, -p);
      const R re = real_part(rotation.sine), im = imaginary_part(rotation.sine);
      const R error = fma(-im, im, fma(-re, re, rest));
      rotation.cosine = fma(R(0.5) * error, R(2) - c, c);  // 1 / c is about 2 - c
    }
    return rotation;
  }
  static MANSARD_DEVICE Rotation<T> identity() { return {R(1), zero<T>(), R(0)}; }

  // Rotate columns of J; `own` is the team's in registers.
  MANSARD_DEVICE void turn_vectors(Share<P>& own, const Pending& by) const {
    if constexpr (S::HAS_VECTORS) {
      T *const first = m.vectors + by.own * PITCH, *const second = m.vectors + by.partner * PITCH;
      if constexpr (P::VECTORS == Vectors::shared) {
        if (by.meets) rotate_pieces<P>(by.rotation, first, second, lane);
      } else {
        if (by.takes) own.load(first, lane);
        Share<P> other;
        other.clear();
        if (by.meets) other.load(second, lane);
        rotate(by.rotation, own, other);
        if (by.meets) other.store(second, lane);
        if (by.leaves) own.store(first, lane);
      }
    }
  }

  // All pairs once. Returns whether a column of this team was rotated.
  MANSARD_DEVICE bool sweep() const {
    const bool seated = team < PAIRS;
    bool any = false, takes = seated;
    int place = seated ? team : 1;  // own column: round + place
    Share<P> x, own_vector;
    x.clear();
    own_vector.clear();
    R square = R(0);
    Pending pending{identity(), 0, 0, false, false, false};
    MANSARD_UNROLL_BY(1)
    for (int round = 0; round < ROUNDS; ++round) {
      const int own = round + place < ROUNDS ? round + place : round + place - ROUNDS;
      const int met = round < place ? round - place + ROUNDS : round - place, partner = place == 0 ? S::SEATS - 1 : met;
      const bool meets = seated && (N % 2 == 0 || partner < N);
      const bool leaves = seated && (place == 0 || round == ROUNDS - 1);
      if (takes) {
        x.load(m.columns + own * PITCH, lane);
        square = m.squares[own];
      }
      Share<P> y;
      y.clear();
      R other = R(0);
      if (meets) {
        y.load(m.columns + partner * PITCH, lane);
        other = m.squares[partner];
      }
      const T b = product(x, y);
      turn_vectors(own_vector, pending);
      const R b_square = modulus_square(b);
      const bool wanted =
          meets && b_square > TOLERANCE * square * other && square > NULL_SQUARE && other > NULL_SQUARE;
      pending = {identity(), own, partner, takes, meets, leaves};
      if (__any_sync(~0u, wanted)) {
        pending.rotation = rotation_of(b, b_square, wanted, square, other);
        rotate(pending.rotation, x, y);
        if (wanted) {
          y.store(m.columns + partner * PITCH, lane);
          if (lane == 0) m.squares[partner] = other;
        }
      }
      any |= wanted;
      if (leaves) {
        x.store(m.columns + own * PITCH, lane);
        if (lane == 0) m.squares[own] = square;
      }
      takes = seated && place == 0;
      place = place == 0 ? PAIRS - 1 : place - 1;
      synchronize();  // columns and squares of partners, and columns that were left, go to other teams; vectors as well
    }
    turn_vectors(own_vector, pending);
    return any;
  }

  // Whether the matrix converged: a sweep among the first P::SWEEPS found nothing to rotate.
  MANSARD_DEVICE bool iterate() const {
    bool converged = false;
    MANSARD_UNROLL_BY(1)
    for (int k = 0; k < P::SWEEPS && !converged; ++k) {
      sum_squares(k == 0);
      converged = !__syncthreads_or(sweep());  // columns and vectors are complete; squares have been read by all teams
    }
    return converged;
  }

  // Normalise columns, and compute values.
  MANSARD_DEVICE void normalize() const {
    constexpr R LEAST = R(1.001) * (sizeof(R) == 8 ? R(0x1p-128) : R(0x1p-10));  // length of a column that is not null
    static_assert(LEAST * LEAST > NULL_SQUARE && LEAST * LEAST < R(1.1) * NULL_SQUARE);
    MANSARD_UNROLL_BY(1)
    for (int half = 0; half < 2; ++half) {
      const int j = team + half * PAIRS;
      Share<P> x, v;
      x.clear();
      if (is_column(j)) x.load(m.columns + j * PITCH, lane);
      const R square = x.square();
      const bool ordinary = rootable(square);
      const R inverse = quick_inverse_root(ordinary ? square : R(1));
      R length = ordinary ? quick_root(square, inverse) : R(0);
      if constexpr (S::HAS_VECTORS) {
        v.clear();
        if (is_column(j)) v.load(m.vectors + j * PITCH, lane);
        const R v_square = v.square(), stretch = quick_inverse_root(is_column(j) ? v_square : R(1));
        length *= stretch;
        v.multiply(stretch);
        if (is_column(j)) v.store(m.vectors + j * PITCH, lane);
        x.multiply(inverse);
        if (!(length > LEAST)) x.clear();
        if (is_column(j)) x.store(m.columns + j * PITCH, lane);
      }
      if (is_column(j) && lane == 0) {
        m.lengths[j] = length;
        m.squares[j] = length > LEAST ? R(1) : R(0);
      }
    }
    __syncthreads();  // columns, vectors, lengths and squares (1: not null) are complete, written by their teams
  }

  // Order of the values; returns the number of columns that are not null.
  MANSARD_DEVICE int rank_columns() const {
    int known = 0;
    MANSARD_UNROLL_BY(1)
    for (int begin = 0; begin < N; begin += THREADS) {
      const int j = begin + thread;
      const R length = j < N ? m.lengths[j] : R(0);
      int rank = 0;
      MANSARD_UNROLL_BY(4)
      for (int i = 0; i < N; ++i) rank += m.lengths[i] > length || (m.lengths[i] == length && i < j);
      if (j < N) {
        m.rank[j] = rank;
        m.source[rank] = j;
        a.W[matrix * N + rank] = length * power_of_two<R>(-exponent) * (R(1) / raise);
      }
      known += __syncthreads_count(j < N && m.squares[j < N ? j : 0] > R(0));  // rank and source are complete
    }
    return known;
  }

  MANSARD_DEVICE void write_vectors() const {
    T *const Z = a.Z + matrix * (N * N), *const VH = a.VH + matrix * (N * N);
    MANSARD_UNROLL_BY(4)
    for (int k = thread; k < N * N; k += THREADS)
      VH[m.rank[k / N] * N + k % N] = conjugate(m.vectors[k / N * PITCH + k % N]);
    MANSARD_UNROLL_BY(4)
    for (int k = thread; k < N * N; k += THREADS) Z[k] = m.columns[m.source[k % N] * PITCH + k / N];
  }
  MANSARD_DEVICE void write_nan() const {
    const R nan = R(0) / R(0);
    for (int k = thread; k < N; k += THREADS) a.W[matrix * N + k] = nan;
    if constexpr (S::HAS_VECTORS) {
      constexpr int REALS = N * N * Scalar<T>::WORDS;
      R* const Z = reinterpret_cast<R*>(a.Z + matrix * (N * N));
      R* const VH = reinterpret_cast<R*>(a.VH + matrix * (N * N));
      for (int k = thread; k < REALS; k += THREADS) Z[k] = VH[k] = nan;
    }
  }

  MANSARD_DEVICE void run() {
    const bool finite = load(), converged = finite && iterate();
    if (thread == 0) a.INFO[matrix] = !finite ? N + 1 : converged ? 0 : N;
    if (!finite) return write_nan();
    normalize();
    const int known = rank_columns();
    if constexpr (S::HAS_VECTORS) {
      if (known < N) complete_columns<P>(m, known);
      write_vectors();
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void jacobi_block(const Arguments& a) {
  MANSARD_SHARED_ARENA(typename P::T, arena);
  BlockJacobi<P, Arguments>{a, BlockMemory<P>(arena), static_cast<i64>(blockIdx.x)}.run();
}

}  // namespace mansard
