// One step of an orthogonalisation: from the Gram matrix G of a block to the matrix S that the block is multiplied
// with.
//
// The rules are those of operations/tall_skinny/small_factors.py, with one difference. Steps are turned there, by singular vectors, where
// an explicit inverse of the Cholesky factor would cancel. Here all steps but the last eliminate rows in the order of
// their pivots: that takes a tenth of the time, and |S| |S^-1| is as small. The last step undoes these turns, so that
// the product of all factors is upper triangular.
//
// What these rules do not cover (columns that may be dependent, entries that are not finite) is declined: S is the
// identity, nothing changes, and the host may go on from the block as it is.
//
//   BLOCK  threads; one block does it all, in double precision
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

  // The state: whether the pass may go on, norms of the columns of the first block, the factor before and after the
  // step.
  MANSARD_DEVICE u32* gate() const { return reinterpret_cast<u32*>(arguments.state); }
  MANSARD_DEVICE double* norms() const { return arguments.state + 1; }
  MANSARD_DEVICE Wide* factor(int steps) const {
    return reinterpret_cast<Wide*>(norms() + N) + (steps + 1) % 2 * N * N;
  }

  MANSARD_DEVICE Wide gram(int i, int j) const {
    const Wide entry = widened(arguments.G[min(i, j) * N + max(i, j)]);
    return i <= j ? entry : conjugate(entry);
  }
  // Norms of the columns. False: some are zero, too small for their squares, or not finite, or G or the factor is not.
  // All that the step reads is read here, at once: later it comes from the L1 cache.
  MANSARD_DEVICE bool measure() {
    const int own = min(int(threadIdx.x), N - 1);
    const double squared = real_part(gram(own, own)), known = count > 0 ? norms()[own] : 0.0;
    bool good = is_finite(known);
    for_each_entry([&](int i, int j) {
      const Wide before = count > 0 ? factor(count)[i * N + j] : zero<Wide>();
      good &= is_finite(gram(i, j)) & is_finite(before);  // no branches between loads
    });
    const double norm = sqrt(squared);
    if (!(norm > 0.0) || (count == 0 && norm < arguments.least)) good = false;
    if (threadIdx.x < N) scale[own] = norm;
    return __syncthreads_and(good);
  }
  // G scaled to a diagonal of ones, plus the shift. Returns this thread's part of |G - I|^2.
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
  // Whether the error of G leaves its smallest eigenvalue trustworthy. The sum of the squares of S is too cautious
  // where many are small; that of the entries of S^H S is so no more.
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
  // M and E, and whether they will do.
  MANSARD_DEVICE bool settled(const Elimination& rows, double shift) {
    const double squares = this->unfold(rows);
    if (shift == 0.0) return trusted(squares);
    __syncthreads();
    return true;
  }
  // Whether |S| |S^-1| is so large that a product with S loses what the next step cannot restore.
  MANSARD_DEVICE bool cancels() const {
    double* weights = reinterpret_cast<double*>(this->line);
    for_each_sum([&](int i, int k) { return size(E[at(i, k)]); }, [&](int i, double sum) { weights[i] = sum; });
    __syncthreads();
    bool large = false;
    for_each_sum([&](int j, int k) { return weights[k] * size(M[at(k, j)]); },
                 [&](int, double sum) { large = large || !(sum <= arguments.cancellation); });
    return __syncthreads_or(large);
  }
  // M times the factor before, for columns as long as they were, is the factor after and M.
  MANSARD_DEVICE void accumulate() {
    Wide *before = factor(count), *after = factor(count + 1);
    if (count == 0) {
      for_each_entry([&](int i, int j) { after[i * N + j] = M[at(i, j)] = times_real(M[at(i, j)], scale[j]); });
    } else {
      typename Matrices<P>::Tiles tiles;
      tiles.template multiply<false>(M, [&](int k, int j) { return times_real(before[k * N + j], scale[k]); });
      __syncthreads();
      tiles.for_each([&](int i, int j, Wide entry) { after[i * N + j] = M[at(i, j)] = entry; });
    }
    __syncthreads();
  }
  // What row i of the product of all factors is multiplied with, for a diagonal that is positive.
  MANSARD_DEVICE Wide upright(int i, Wide entry) const {
    return count == 0 ? entry : product(conjugate(phase_of(M[at(i, i)])), entry);
  }
  // R from the product of all factors. False: a column may depend on those before it.
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
      if (shift == 0.0) last = sqrt(this->block_sum(away)) <= arguments.near;
      if (eliminated(rows, last) && settled(rows, shift)) break;
      shift = shift > 0.0 ? 4.0 * shift : arguments.shift * N * arguments.roundoff;
      if (shift > N) return P::DECLINED;
      __syncthreads();
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
