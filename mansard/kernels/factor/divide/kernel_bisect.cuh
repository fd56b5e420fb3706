// Eigenvalues of symmetric tridiagonal, or singular values of upper bidiagonal, matrices by multisection: one block per
// matrix, LANES lanes per value.
//
//   p_i = (d_i - x) p_(i-1) - e_(i-1)^2 p_(i-2),   p_(-1) = 0, p_0 = 1
//
// The number of sign changes of p is the number of eigenvalues below x (Sturm). In rounding it is that of a matrix
// whose entries differ by a few units of roundoff. No step divides: a chain of one fused operation per row. Every
// CHUNK rows both numbers are scaled by a power of two. Singular values of B are the positive eigenvalues of the matrix
// of order 2 N with a zero diagonal and d_0, e_0, d_1, e_1, ... beside it (Golub and Kahan).
//
// ASCENDING: values from the smallest up, as eigenvalues always are; singular values are descending without it. Those
// that `sweeps` takes as shifts are ascending: the smallest singular value first takes 1.4 N sweeps, the largest 2.5 N.
//
// Team. The LANES lanes of a value divide its interval into LANES + 1 parts, STEPS times: what is left is below a unit
// of roundoff of the norm. Values of an interval that is shared take the same parts: results are sorted.
//
// Entries: those of a matrix scaled to about one. INFO: 0, or N + 1 if an entry is not finite; then values are NaN.
//
// Shared memory: rows   LENGTH pairs d_i, e_(i-1)^2
// Barriers: rows (and bounds) -> rows -> the threads that load them; before that, the vote on finite entries.
//
// Limits: latency of the chain, about STEPS * LENGTH fused operations; with many lanes their number.
//
//   LANES  per value, a power of two
#pragma once
#include "kernels/factor/divide/condensed.cuh"

namespace mansard {

template <class P>
struct Sturm {
  using R = typename P::T;
  static constexpr bool DOUBLE = sizeof(R) == 8, TRIDIAGONAL = P::FORM == Form::tridiagonal;
  static constexpr int N = P::N, LANES = P::LANES, CHUNK = DOUBLE ? 8 : 2;  // rows between which p stays in range
  static constexpr int LENGTH = TRIDIAGONAL ? N : 2 * N, ROWS = ceil_div(LENGTH, CHUNK) * CHUNK;
  static constexpr int THREADS = ceil_div(N * LANES, 32) * 32;

  struct alignas(2 * sizeof(R)) Row {
    R diagonal, square;  // d_i and e_(i-1)^2
  };

  // Steps until an interval of six times the largest entry is a unit of roundoff.
  static constexpr int steps() {
    int count = 0;
    for (double parts = 1; parts < (DOUBLE ? 0x1p56 : 0x1p27); parts *= LANES + 1) ++count;
    return count;
  }

  static MANSARD_DEVICE u32 sign(double x) { return static_cast<u32>(__double_as_longlong(x) >> 63) & 1u; }
  static MANSARD_DEVICE u32 sign(float x) { return __float_as_uint(x) >> 31; }
  // The power of two that brings the larger of two numbers near one.
  static MANSARD_DEVICE double near_one(double x, double y) {
    const int mask = 0x7ff00000;
    const int top = max(static_cast<int>(__double_as_longlong(x) >> 32) & mask,
                        static_cast<int>(__double_as_longlong(y) >> 32) & mask);
    return __longlong_as_double(static_cast<i64>(0x7fe00000 - top) << 32);
  }
  static MANSARD_DEVICE float near_one(float x, float y) {
    const int mask = 0x7f800000;
    return __int_as_float(0x7f000000 - max(__float_as_int(x) & mask, __float_as_int(y) & mask));
  }

  // Eigenvalues below x.
  static MANSARD_DEVICE int below(const Row* rows, R x) {
    R before = R(0), p = R(1);
    u32 changes = 0;
    MANSARD_UNROLL_BY(1)
    for (int first = 0; first < ROWS; first += CHUNK) {
      MANSARD_UNROLL
      for (int k = 0; k < CHUNK; ++k) {
        const Row row = rows[first + k];
        const R next = fma(row.diagonal - x, p, -(row.square * before));
        changes += sign(next) ^ sign(p);
        before = p;
        p = next;
      }
      const R scale = near_one(p, before);
      p *= scale;
      before *= scale;
    }
    return static_cast<int>(changes);
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void divide_bisect(const Arguments& a) {
  using S = Sturm<P>;
  using R = typename P::T;
  constexpr int N = P::N, LANES = P::LANES;
  static_assert(P::SHARED_BYTES >= S::ROWS * int(sizeof(typename S::Row)));
  MANSARD_SHARED_ARENA(typename S::Row, rows);
  const i64 matrix = blockIdx.x;
  const int thread = threadIdx.x, value = thread / LANES, lane = thread % LANES;
  const R *const d = a.D + matrix * N, *const e = a.E + matrix * N;
  const auto beside = [&](int i) {  // the off-diagonal entry of rows i - 1 and i
    if (i <= 0 || i >= S::LENGTH) return R(0);
    return S::TRIDIAGONAL ? e[i - 1] : i % 2 == 1 ? d[i / 2] : e[i / 2 - 1];
  };
  R low = Range<R>::MOST, high = -Range<R>::MOST, largest = R(0);  // Gershgorin
  bool finite = true;
  for (int i = thread; i < S::LENGTH; i += S::THREADS) {
    const R center = S::TRIDIAGONAL ? d[i] : R(0), off = fabs(beside(i)), other = fabs(beside(i + 1));
    finite &= fabs(center) <= Range<R>::MOST && off <= Range<R>::MOST && other <= Range<R>::MOST;
    low = fmin(low, center - off - other);
    high = fmax(high, center + off + other);
    largest = fmax(largest, fmax(fabs(center), off));
    rows[i] = {center, off * off};
  }
  R* const bounds = reinterpret_cast<R*>(rows + S::ROWS);
  Extremes<R, S::THREADS>(bounds).combine(low, high, largest);  // a barrier: rows are complete, too
  if (__syncthreads_or(!finite)) {
    if (lane == 0 && value < N) a.W[matrix * N + value] = not_a_number<R>();
    if (thread == 0) a.INFO[matrix] = N + 1;
    return;
  }
  // Off-diagonal entries that are zero would end the chain; those of this size change no digit of a value.
  const R tiny = largest * Precision<R>::UNIT * R(0x1p-10);
  for (int i = thread; i < S::ROWS; i += S::THREADS) {
    if (i < S::LENGTH) rows[i].square = fmax(rows[i].square, tiny * tiny);
    else rows[i] = {high + R(2) * largest, R(0)};  // above all x: no change of sign
  }
  if (!S::TRIDIAGONAL) low = R(0);
  __syncthreads();  // squares and the rows beyond the last are complete, written by all threads

  const int rank = S::TRIDIAGONAL ? value : P::ASCENDING ? N + value : 2 * N - 1 - value;
  MANSARD_UNROLL_BY(1)
  for (int step = 0; step < S::steps(); ++step) {
    const R part = (high - low) * (R(1) / R(LANES + 1));
    const bool fewer = S::below(rows, fma(part, R(lane + 1), low)) <= rank;
    const u32 votes = __ballot_sync(0xffffffffu, fewer) >> (thread % 32 - lane);
    const int passed = __popc(LANES == 32 ? votes : votes & ((1u << LANES % 32) - 1u));
    high = passed < LANES ? fma(part, R(passed + 1), low) : high;
    low = passed > 0 ? fma(part, R(passed), low) : low;
  }
  const R scale = a.SCALE != nullptr ? a.SCALE[matrix] : R(1);
  if (lane == 0 && value < N) a.W[matrix * N + value] = R(0.5) * (low + high) / scale;
  if (thread == 0) a.INFO[matrix] = 0;
}

}  // namespace mansard
