// Passes over vectors of real numbers on CPUs, and sums whose order does not depend on the number of threads.
#pragma once
#include "mansard/cpu/fused.hpp"

namespace mansard {

// LANES adjacent words as a vector; one word as a number.
template <int LANES, class T>
MANSARD_INLINE auto words(const T* at) {
  if constexpr (LANES == 1) return *at;
  else return load<LANES>(at);
}
template <int LANES, class T, class V>
MANSARD_INLINE void put(T* at, V values) {
  if constexpr (LANES == 1) *at = values;
  else store<LANES>(at, values);
}
template <int LANES, class T>
MANSARD_INLINE auto spread(T value) {
  if constexpr (LANES == 1) return value;
  else return Vector<T, LANES>{} + value;
}

inline double root(double x) { return __builtin_sqrt(x); }

template <class Arguments>
inline int team(const Arguments& a, i64 parts) {
  return static_cast<int>(smaller<i64>(a.threads, parts));
}

// Calls visit(first word, Int<words>) for all words, in vectors and at the end one by one.
template <class P, class Arguments, class Visit>
inline void for_parts(const Arguments& a, Visit visit) {
  constexpr int LANES = native_lanes<typename P::T>;
  const i64 parts = ceil_div<i64>(a.words, P::PART);
#pragma omp parallel for num_threads(team(a, parts)) if (parts > 1) schedule(static)
  for (i64 part = 0; part < parts; ++part) {
    const i64 end = smaller<i64>(a.words, (part + 1) * P::PART);
    i64 i = part * P::PART;
    for (; i + LANES <= end; i += LANES) visit(i, Int<LANES>());
    for (; i < end; ++i) visit(i, Int<1>());
  }
}

// Like for_parts, with sums: visit(first word, Int<words>, sums so far).
template <class P, int SUMS, class Arguments, class Visit>
inline void sum_parts(const Arguments& a, double* totals, Visit visit) {
  using T = typename P::T;
  constexpr int LANES = native_lanes<T>, CHAINS = 4, RUN = 16 * CHAINS * LANES;
  static_assert(P::PART % RUN == 0);
  using V = Vector<T, LANES>;
  const i64 parts = ceil_div<i64>(a.words, P::PART);
  double* const partials = static_cast<double*>(a.partials);
#pragma omp parallel for num_threads(team(a, parts)) if (parts > 1) schedule(static)
  for (i64 part = 0; part < parts; ++part) {
    const i64 end = smaller<i64>(a.words, (part + 1) * P::PART);
    double found[SUMS] = {};
    for (i64 first = part * P::PART; first < end; first += RUN) {
      const i64 stop = smaller<i64>(end, first + RUN);
      V chains[CHAINS][SUMS] = {};
      T rest[SUMS] = {};
      i64 i = first;
      for (; i + CHAINS * LANES <= stop; i += CHAINS * LANES)
        MANSARD_UNROLL
        for (int c = 0; c < CHAINS; ++c) visit(i + c * LANES, Int<LANES>(), chains[c]);
      for (; i < stop; ++i) visit(i, Int<1>(), rest);
      for (int s = 0; s < SUMS; ++s) {
        const V all = sum_lanes<1, T, LANES>((chains[0][s] + chains[1][s]) + (chains[2][s] + chains[3][s]));
        found[s] += static_cast<double>(all[0]) + static_cast<double>(rest[s]);
      }
    }
    for (int s = 0; s < SUMS; ++s) partials[part * SUMS + s] = found[s];
  }
  for (i64 part = 0; part < parts; ++part)
    for (int s = 0; s < SUMS; ++s) totals[s] += partials[part * SUMS + s];
}

}  // namespace mansard
