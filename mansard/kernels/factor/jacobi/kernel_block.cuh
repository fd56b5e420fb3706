// Singular values and vectors of square matrices, small batches, by one-sided Jacobi rotations: one block per matrix.
//
//   A J = columns that are orthogonal, J a product of rotations:   svd: A = Z diag(W) VH, W descending
//   W are the lengths of these columns, Z the columns divided by them, VH = J^H
//
// Team. LANES lanes have a pair of columns, all pairs of a round at once: PAIRS teams. Rounds are those of a
// tournament: in round r columns r + i and r - i (modulo ROUNDS) meet, and r meets the last one; with an odd number it
// rests. Column r + i, i = 0 ... PAIRS - 1, is the team's own: it stays in registers for PAIRS rounds, and only the
// other column of a pair is read from shared memory and written back. Then a team takes the column whose turn it is.
//
// Squares of norms are summed once per sweep and updated by rotations in between: a pair takes one sum over its team.
// Columns of J follow one round behind: their rotation has no part in the chain product, angle, rotation, barrier.
//
// Shared memory (BlockMemory): columns of A J and of J, squares, values and their order.
//
// Phases: load and scale by a power of two, barrier; sweeps until all |a_p^H a_q| <= 2 sqrt(N) u |a_p| |a_q|: after a
// sweep that rotated by little, all products are formed without rotations; then columns are normalised, barrier, values
// ranked, barrier, results written.
// Barriers: one per round, `columns`, `vectors` and `squares` of partners -> their next teams.
//
// A rotation with rounded cosine and sine is a scaled rotation: it makes columns of A J and of J longer or shorter by
// the same factor, so that W are the quotients of their lengths. Values do not drift with the number of rotations.
//
// INFO: 0, N where SWEEPS sweeps did not suffice, N + 1 where A holds an infinity or a NaN; W, Z and VH are NaN there.
//
// Limits: latency of a round (sum over the team, two reciprocal square roots, barrier) for few rows; arithmetic and
// bandwidth of shared memory for many.
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

#include "kernels/factor/jacobi/block_results.cuh"
#include "kernels/factor/jacobi/block_rotation.cuh"

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

  MANSARD_DEVICE bool is_column(int j) const { return team < PAIRS && j < N; }  // of this team, outside of rounds

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

  MANSARD_DEVICE static bool is_wanted(R b_square, R square, R other) {
    return b_square > TOLERANCE * square * other && square > NULL_SQUARE && other > NULL_SQUARE;
  }

  // Whether all columns are orthogonal: products alone, without barriers. Column j meets j + 1 ... j + N / 2, modulo N.
  MANSARD_DEVICE bool is_finished() const {
    bool any = false;
    MANSARD_UNROLL_BY(1)
    for (int half = 0; half < 2; ++half) {
      const int j = team + half * PAIRS;
      Share<P> x;
      x.clear();
      if (is_column(j)) x.load(m.columns + j * PITCH, lane);
      const R square = is_column(j) ? m.squares[j] : R(0);
      MANSARD_UNROLL_BY(S::OWN * Scalar<T>::WORDS <= 8 ? 4 : 2)
      for (int step = 1; step <= N / 2; ++step) {
        const int k = j + step < N ? j + step : j + step - N;
        Share<P> y;
        y.clear();
        if (is_column(j)) y.load(m.columns + k * PITCH, lane);
        any |= is_wanted(modulus_square(product(x, y)), square, is_column(j) ? m.squares[k] : R(0));
      }
    }
    return !__syncthreads_or(any);
  }

  // What a sweep found: pairs that it rotated, and those of them that were far from orthogonal.
  struct Found {
    bool any, far;
  };

  // All pairs once. The body of the loop has no branches that teams would not all take, but for columns that change
  // places: what waits and what does not can be interleaved.
  MANSARD_DEVICE Found sweep() const {
    constexpr R FAR = sizeof(R) == 8 ? R(0x1p-33) : R(0x1p-20);  // squared cosine; below, one sweep is enough as a rule
    const bool seated = team < PAIRS;
    Found found{false, false};
    bool takes = seated;
    int place = seated ? team : 1;  // own column: round + place
    Share<P> x, own_vector;
    x.clear();
    own_vector.clear();
    R square = R(0);
    Pending pending{BlockRotation<P>::identity(), 0, 0, false, false, false};
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
      __syncwarp();  // squares of the pair, read by all lanes of a team and written below by its first
      turn_vectors(own_vector, pending);
      const R b_square = modulus_square(b);
      const bool wanted = is_wanted(b_square, square, other);
      found.any |= wanted;
      found.far |= wanted && b_square > FAR * square * other;
      pending = {BlockRotation<P>::of(b, b_square, wanted, square, other), own, partner, takes, meets, leaves};
      rotate(pending.rotation, x, y);
      if (meets) {
        y.store(m.columns + partner * PITCH, lane);
        if (lane == 0) m.squares[partner] = other;
      }
      if (leaves) {
        x.store(m.columns + own * PITCH, lane);
        if (lane == 0) m.squares[own] = square;
      }
      takes = seated && place == 0;
      place = place == 0 ? PAIRS - 1 : place - 1;
      synchronize();  // columns and squares of partners, and columns that were left, go to other teams; vectors as well
    }
    turn_vectors(own_vector, pending);
    return found;
  }

  // Whether the matrix converged: at most P::SWEEPS sweeps were enough.
  MANSARD_DEVICE bool iterate() const {
    bool close = false;
    MANSARD_UNROLL_BY(1)
    for (int k = 0; k <= P::SWEEPS; ++k) {
      sum_squares(k == 0);
      if ((close || k == P::SWEEPS) && is_finished()) return true;
      if (k == P::SWEEPS) return false;
      const Found found = sweep();
      close = !__syncthreads_or(found.far);  // columns and vectors are complete; squares have been read by all teams
      if (close && !__syncthreads_or(found.any)) return true;
    }
    return false;
  }

  MANSARD_DEVICE void run() {
    const bool finite = load(), converged = finite && iterate();
    if (thread == 0) a.INFO[matrix] = !finite ? N + 1 : converged ? 0 : N;
    const BlockResults<P, Arguments> results{a, m, matrix};
    if (!finite) return results.write_nan();
    results.normalize();
    const int known = results.rank_columns(power_of_two<R>(-exponent), R(1) / raise);
    if constexpr (S::HAS_VECTORS) {
      if (known < N) complete_columns<P>(m, known);
      results.write_vectors();
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void jacobi_block(const Arguments& a) {
  MANSARD_SHARED_ARENA(typename P::T, arena);
  BlockJacobi<P, Arguments>{a, BlockMemory<P>(arena), static_cast<i64>(blockIdx.x)}.run();
}

}  // namespace mansard
