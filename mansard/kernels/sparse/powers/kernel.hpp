// Powers of a SELL matrix on CPUs: v_k = alpha A v_(k-1) + beta v_(k-1) + gamma v_(k-2), k = 1 .. P.
//
// Ranges of rows pass through the caches: range g at power k follows range g + LAG at power k - 1, so that the matrix
// of a few ranges serves all powers. Every thread has a contiguous share of each range's chunks and goes through the
// same list of tasks; before a task it waits until all other threads have finished the power before on everything that
// the range reads. There are no barriers: a counter per thread publishes its progress (release), others poll it
// (acquire). Where LAG exceeds the reach, waits are short. One range of all rows is the plain product, P times.
//
// A chunk's product is that of families/spmv, so that the bits are those of repeated products. Combinations are formed
// right after the last power of a chunk.
//
// Params beside T, V, INDEX, C, NVECS, P, SHIFTED, THREE_TERM, OUTPUT, SETS, RAGGED: LANES, PREFETCH, AHEAD, VGATHER as in spmv.
#pragma once
#include <atomic>
#include <thread>

#include "kernels/sparse/spmv/across.hpp"
#include "kernels/sparse/spmv/along.hpp"

namespace mansard {

enum class Output { all, last, combination };

// Params and arguments of one power as a product for the kernels of families/spmv.
template <class P>
struct AsProduct : P {
  static constexpr Format FORMAT = Format::sell;
  static constexpr bool PERMUTED = false, ACCUMULATE = false, RECURRENCE = true, CONJ = false;
};
template <class P>
struct Step {
  using T = typename P::T;
  const unsigned char* MATRIX;
  const int *STARTS, *WIDTHS, *LENGTHS, *COMMON, *PERMUTATION;
  const T* X;
  T* Y;
  const T* Z;
  i64 ROWS, x_pitch, y_pitch, z_pitch;
  double alpha_re, alpha_im, beta_re, beta_im, gamma_re, gamma_im;
};

template <class P, class Arguments>
struct Powers {
  using T = typename P::T;
  using Product = AsProduct<P>;
  static constexpr int N = P::NVECS, C = P::C;
  const Arguments& a;

  MANSARD_INLINE const T* source(int k) const { return k <= 0 ? a.X : a.VECTORS + (k - 1) * a.step; }

  Step<P> step(int k) const {
    const T* c = a.COEFFICIENTS + 3 * (k - 1);
    T* const target = P::OUTPUT == Output::last && k == P::P ? a.RESULT : a.VECTORS + (k - 1) * a.step;
    return {a.MATRIX, a.STARTS, a.WIDTHS, a.LENGTHS, a.COMMON, nullptr, source(k - 1), target, source(k - 2), a.ROWS,
            N, N, N, re(c[0]), im(c[0]), re(c[1]), im(c[1]), k > 1 ? re(c[2]) : 0, k > 1 ? im(c[2]) : 0};
  }
  static double re(T c) {
    if constexpr (Scalar<T>::WORDS == 2) return c.re;
    else return c;
  }
  static double im(T c) {
    if constexpr (Scalar<T>::WORDS == 2) return c.im;
    else return 0;
  }

  void chunks(i64 first, i64 last, int k) const {
    constexpr bool ACROSS = N == 1 && Scalar<T>::WORDS == 1 && P::LANES > 1;
    const Step<P> now = step(k);
    for (i64 chunk = first; chunk < last; ++chunk) {
      if constexpr (ACROSS) Across<Product, Step<P>>::chunk(now, chunk);
      else Along<Product, Step<P>>::chunk(now, chunk);
      if (P::OUTPUT == Output::combination && k == P::P) combine(chunk);
    }
  }

  // Form all combinations for the rows of a chunk. Zero factors are not multiplied, so that infinities do not become
  // NaNs.
  void combine(i64 chunk) const {
    const i64 first = chunk * C * N, last = smaller<i64>((chunk + 1) * C, a.ROWS) * N;
    for (int set = 0; set < P::SETS; ++set) {
      const T* weights = a.COEFFICIENTS + 3 * P::P + set * (P::P + 1);
      T* const result = a.RESULT + set * a.ROWS * N;
      for (i64 i = first; i < last; ++i) result[i] = T{};
      for (int k = 0; k <= P::P; ++k) {
        const T* from = source(k);
        if (re(weights[k]) == 0 && im(weights[k]) == 0) continue;
        for (i64 i = first; i < last; ++i) result[i] = with_scaled(result[i], weights[k], from[i]);
      }
    }
  }
  static MANSARD_INLINE T with_scaled(T sum, T c, T x) {  // sum + c x
    if constexpr (Scalar<T>::WORDS == 2) return sum + times<typename Scalar<T>::Real>(c.re, c.im, x);
    else return plus_product(sum, c, x);
  }
};

// ---- threads ----------------------------------------------------------------------------------------------

struct alignas(128) Progress {  // two cache lines per thread: adjacent-line prefetchers fetch pairs
  std::atomic<i64> done{0};
};

inline void wait_for(const Progress* progress, int threads, int own, i64 needed) {
  for (int other = 0; other < threads; ++other) {
    if (other == own) continue;
    for (int turns = 0; progress[other].done.load(std::memory_order_acquire) < needed; ++turns) {
      if (turns > 2000) std::this_thread::yield();  // there may be more threads than cores
#if defined(__x86_64__)
      else __builtin_ia32_pause();
#elif defined(__aarch64__)
      else asm volatile("yield");
#endif
    }
  }
}

template <class P, class Arguments>
int powers_simd(const Arguments& a) {
  const Powers<P, Arguments> powers = {a};
  const i64 turns = a.ranges + (P::P - 1) * a.lag;
  const int wanted = a.threads < 1 ? 1 : static_cast<int>(a.threads);
  constexpr int MOST = 256;
  Progress progress[MOST];
#pragma omp parallel num_threads(wanted < MOST ? wanted : MOST)
  {
#ifdef _OPENMP
    const int threads = omp_get_num_threads(), own = omp_get_thread_num();
#else
    const int threads = 1, own = 0;
#endif
    for (i64 task = 0; task < turns * P::P; ++task) {  // power k of range g in turn g + (k - 1) lag
      const int k = static_cast<int>(task % P::P) + 1;
      const i64 range = task / P::P - (k - 1) * a.lag;
      if (range >= 0 && range < a.ranges) {
        if (k > 1) wait_for(progress, threads, own, (a.REACH[range] + (k - 2) * a.lag) * P::P + k - 1);
        const i64 first = a.RANGES[range] / P::C, count = (a.RANGES[range + 1] + P::C - 1) / P::C - first;
        powers.chunks(first + count * own / threads, first + count * (own + 1) / threads, k);
      }
      progress[own].done.store(task + 1, std::memory_order_release);
    }
  }
  return 0;
}

}  // namespace mansard
