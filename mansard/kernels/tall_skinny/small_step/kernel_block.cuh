// One step of an orthogonalisation by one thread block: from the Gram matrix G of a block of vectors to the N x N
// matrix S by which the block is multiplied.
//
// G is scaled to a unit diagonal, H = D^-1 G D^-1 + shift I. Elimination gives F and S^H with S^H H S = I, F = S^-1
// (matrices.cuh). The product of all F so far is the factor; the last step makes it upper triangular (R) by
// reflections.
//
// The rules are those of operations/tall_skinny/small_factors.py with one difference. There, steps rotate by singular vectors where an
// explicit inverse of the Cholesky factor would cancel. Here all steps but the last eliminate rows in the order of
// their pivots: that takes a tenth of the time, and |S| |S^-1| is as small. The last step undoes them, so that the
// product of all factors is upper triangular.
//
// Cases that these rules do not cover (columns that may be dependent, entries that are not finite) are declined: S is
// the identity, nothing changes, and the host may continue from the block as it is.
//
// Shared memory: M and E (N columns of PITCH), two lines, scale, sums (matrices.cuh). Barriers are named at each place.
//
//   BLOCK  threads; one block computes in double precision
#pragma once
#include "kernels/tall_skinny/small_step/reflections.cuh"

namespace mansard {

template <class P, class Arguments>
struct Step : Matrices<P> {
  using typename Matrices<P>::T;
  using typename Matrices<P>::Wide;
  using typename Matrices<P>::Elimination;
  using Matrices<P>::N, Matrices<P>::M, Matrices<P>::E, Matrices<P>::scale, Matrices<P>::at;
  using Matrices<P>::for_each_entry, Matrices<P>::for_each_sum;
  const Arguments& arguments;
  const int count;

  MANSARD_DEVICE Step(const Arguments& given, unsigned char* arena)
      : Matrices<P>(arena), arguments(given), count(static_cast<int>(given.number)) {}

  // State in global memory: the gate (whether the pass may go on), norms of the columns of the first block, and the
  // factor before and after the step.
  MANSARD_DEVICE u32* gate() const { return reinterpret_cast<u32*>(arguments.state); }
  MANSARD_DEVICE double* norms() const { return arguments.state + 1; }
  MANSARD_DEVICE Wide* factor(int steps) const {
    return reinterpret_cast<Wide*>(norms() + N) + (steps + 1) % 2 * N * N;
  }

  MANSARD_DEVICE Wide gram(int i, int j) const {
    const Wide entry = widened(arguments.G[min(i, j) * N + max(i, j)]);
    return i <= j ? entry : conjugate(entry);
  }
  // Compute the norms of the columns. False if one is zero, too small for its square, or not finite, or if G or the
  // factor is not finite. Reads everything that the step needs at once; later reads come from the L1 cache.
  MANSARD_DEVICE bool measure() {
    const int own = min(int(threadIdx.x), N - 1);
    const double squared = real_part(gram(own, own)), known = count > 0 ? norms()[own] : 0.0;
    bool good = is_finite(known);
    for_each_entry([&](int i, int j) {
      const Wide before = count > 0 ? factor(count)[i * N + j] : zero<Wide>();
      good &= is_finite(gram(i, j)) & is_finite(before);  // & instead of &&: no branches between loads
    });
    const double norm = sqrt(squared);
    if (!(norm > 0.0) || (count == 0 && norm < arguments.least)) good = false;
    if (threadIdx.x < N) scale[own] = norm;
    return __syncthreads_and(good);  // also: scale is complete, written by a thread per column
  }
  // Load G, scaled to a diagonal of ones, plus the shift. Returns this thread's part of |G - I|^2.
  MANSARD_DEVICE double load(Elimination& rows, double shift) const {
    double away = 0.0;
    rows.load(1.0 + shift, [&](int i, int j) {
      Wide entry = times_real(times_real(gram(i, j), inverse(scale[i])), inverse(scale[j]));
      away += i == j ? 0.0 : square(entry);
      if (i == j) set_real(entry, 1.0 + shift);
      return entry;
    });
    return away;
  }
  // Whether the rounding error of G leaves its smallest eigenvalue trustworthy: by the sum of squares of S, and if that
  // is too pessimistic (many small entries), by the norm of S^H S.
  MANSARD_DEVICE bool trusted(double squares) const {
    if (arguments.safe * arguments.roundoff * this->block_sum(squares) <= 1.0) return true;
    typename Matrices<P>::Tiles tiles;
    tiles.template multiply<true>(E, [&](int k, int j) { return E[at(j, k)]; });
    double sum = 0.0;
    tiles.for_each([&](int, int, Wide entry) { sum += square(entry); });
    return arguments.safe * arguments.roundoff * sqrt(this->block_sum(sum)) <= 1.0;
  }
  MANSARD_DEVICE bool eliminated(Elimination& rows, bool last) const {
    Wide* next = this->line + Matrices<P>::ROOM;
    return last ? rows.template run<false>(this->line, next) : rows.template run<true>(this->line, next);
  }
  // Form M and E. True if they are trusted; shifted ones always are.
  MANSARD_DEVICE bool settled(const Elimination& rows, double shift) {
    const double squares = this->unfold(rows);
    if (shift == 0.0) return trusted(squares);
    __syncthreads();  // M and E are complete, written by all threads
    return true;
  }
  // Whether |S| |S^-1| is so large that a product with S loses accuracy which the next step cannot restore.
  MANSARD_DEVICE bool cancels() const {
    double* weights = reinterpret_cast<double*>(this->line);
    for_each_sum([&](int i, int k) { return size(E[at(i, k)]); }, [&](int i, double sum) { weights[i] = sum; });
    __syncthreads();  // weights are complete, written by the teams of their columns
    bool large = false;
    for_each_sum([&](int j, int k) { return weights[k] * size(M[at(k, j)]); },
                 [&](int, double sum) { large = large || !(sum <= arguments.cancellation); });
    return __syncthreads_or(large);
  }
  // Multiply the factor by M, with the scaling of columns undone; the product is the new factor, and M.
  MANSARD_DEVICE void accumulate() {
    Wide *before = factor(count), *after = factor(count + 1);
    if (count == 0) {
      for_each_entry([&](int i, int j) { after[i * N + j] = M[at(i, j)] = times_real(M[at(i, j)], scale[j]); });
    } else {
      typename Matrices<P>::Tiles tiles;
      tiles.template multiply<false>(M, [&](int k, int j) { return times_real(before[k * N + j], scale[k]); });
      __syncthreads();  // M is about to be overwritten by the product; all threads have read it
      tiles.for_each([&](int i, int j, Wide entry) { after[i * N + j] = M[at(i, j)] = entry; });
    }
    __syncthreads();  // M is complete, written by all threads
  }
  // Entry of row i, multiplied by the phase that makes the diagonal of R positive.
  MANSARD_DEVICE Wide upright(int i, Wide entry) const {
    return count == 0 ? entry : product(conjugate(phase_of(M[at(i, i)])), entry);
  }
  // Form R from the product of all factors. False if a column may depend on those before it.
  MANSARD_DEVICE bool finish() {
    if (count > 0) Reflections<P>{*this}.run();
    
    const int i = threadIdx.x;
    bool weak = false;
    if (i < N) weak = !(size(M[at(i, i)]) > arguments.weak * arguments.roundoff * (count == 0 ? scale[i] : norms()[i]));
    if (__syncthreads_or(weak)) return false;
    for_each_entry([&](int i, int j) {
      Wide entry = zero<Wide>();
      if (i == j) set_real(entry, size(M[at(i, i)]));
      if (i < j) entry = upright(i, M[at(i, j)]);
      narrow(arguments.R[i * N + j], entry);
    });
    return true;
  }

  MANSARD_DEVICE u32 plan() {
    if (!measure()) return P::DECLINED;
    Elimination rows;
    double shift = 0.0;
    bool last = false;
    while (true) {
      const double away = load(rows, shift);
      last = shift == 0.0 && sqrt(this->block_sum(away)) <= arguments.near;
      if (eliminated(rows, last) && settled(rows, shift)) break;
      shift = shift > 0.0 ? 4.0 * shift : arguments.shift * N * arguments.roundoff;
      if (shift > N) return P::DECLINED;
      __syncthreads();  // lines are about to be overwritten by the next attempt; all threads have read them
    }
    if (cancels()) return P::DECLINED;
    accumulate();
    if (last && !finish()) return P::DECLINED;
    if (threadIdx.x < N && count == 0) norms()[threadIdx.x] = scale[threadIdx.x];
    return last ? P::LAST : shift > 0.0 ? P::SHIFTED : P::TRUSTED;
  }

  MANSARD_DEVICE void run() {
    const u32 status = plan();
    for_each_entry([&](int i, int j) {
      Wide entry;
      set_real(entry, i == j ? 1.0 : 0.0);
      if (status != P::DECLINED) {
        entry = times_real(E[at(j, i)], inverse(scale[i]));
        entry = conjugate(status == P::LAST ? upright(j, entry) : entry);
      }
      narrow(arguments.S[i * N + j], entry);
    });
    if (threadIdx.x == 0) {
      *gate() = status != P::DECLINED;
      *arguments.status = status;
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void small_step(const Arguments& arguments) {
  MANSARD_SHARED_ARENA(unsigned char, arena);
  Step<P, Arguments>(arguments, arena).run();
}

}  // namespace mansard
