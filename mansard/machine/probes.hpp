// The loops behind a CPU's measured ceilings, in one library: `probe` and `shape` in the arguments choose one.
//
//   READ, DOT             sums of x, of x * y: reads only
//   COPY, SCALE, TRIAD    y = x, y = a x, y = first half of x + a * second half
//   FILL                  y = a: writes only
//   FMA64, FMA32          chains of multiply-adds in registers
//   CACHE                 every thread sums its own part of x `repeats` times
//   FORK                  `repeats` empty parallel regions
//   CHASE                 loads whose address is the previous load's value
//   TOUCH, LINK           operands, touched first by the threads that will use them
//
// `count` is in doubles and a multiple of 512 per thread; threads take contiguous parts.
#pragma once
#include "mansard/cpu/fused.hpp"
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mansard {

using Doubles = Vector<double, native_lanes<double>>;
constexpr int PROBE_LANES = native_lanes<double>;
constexpr i64 PROBE_PIECE = 512;  // doubles; parts begin on multiples of it, so that stores are aligned

struct ProbePart {
  i64 begin, count;
};

inline ProbePart part_of(i64 count, i64 thread, i64 threads) {
  const i64 pieces = count / PROBE_PIECE, first = pieces * thread / threads, last = pieces * (thread + 1) / threads;
  return {first * PROBE_PIECE, (last - first) * PROBE_PIECE};
}

inline double seconds_now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// work(begin, count) on every thread's part; the sum of what it returns. result[1] becomes the slowest thread's own
// time: on a busy machine the threads may not start together, and who waits for whom is no property of the hardware.
template <class Arguments, class Work>
double on_parts(const Arguments& arguments, i64 count, Work work) {
  double total = 0, slowest = 0;
#pragma omp parallel num_threads(static_cast<int>(arguments.threads)) reduction(+ : total) reduction(max : slowest)
  {
#ifdef _OPENMP
    const ProbePart part = part_of(count, omp_get_thread_num(), omp_get_num_threads());
#else
    const ProbePart part = part_of(count, 0, 1);
#endif
    const double begin = seconds_now();
    total += work(part.begin, part.count);
    slowest = seconds_now() - begin;
  }
  arguments.result[1] = slowest;
  return total;
}

// --- Operands ------------------------------------------------------------------------------------------------

// A double in [0.5, 1.5) with all bits of its fraction random.
inline double random_number(unsigned long long place) {
  unsigned long long bits = (place + 1) * 0x9E3779B97F4A7C15ull;
  bits = (bits ^ (bits >> 29)) * 0xD6E8FEB86659FD93ull;
  return 0.5 + static_cast<double>((bits ^ (bits >> 32)) >> 12) * (1.0 / 4503599627370496.0);
}

inline double touch_part(double* y, i64 begin, i64 count) {
  double sum = 0;
  for (i64 i = begin; i < begin + count; ++i) sum += y[i] = random_number(static_cast<unsigned long long>(i));
  return sum;
}

// --- Memory --------------------------------------------------------------------------------------------------

template <std::size_t COUNT>
MANSARD_INLINE double sum_all(const Doubles (&sums)[COUNT]) {
  Doubles sum = sums[0];
  MANSARD_UNROLL
  for (std::size_t i = 1; i < COUNT; ++i) sum += sums[i];
  double total = 0;
  for (int lane = 0; lane < PROBE_LANES; ++lane) total += sum[lane];
  return total;
}

// STREAMS places of the part are read side by side, prefetched AHEAD bytes (0: left to the hardware).
template <int STREAMS, int AHEAD>
__attribute__((noinline)) double read_part(const double* x, i64 count) {
  constexpr int EACH = 8 / STREAMS, STEP = EACH * PROBE_LANES;
  const i64 length = count / STREAMS;
  Doubles sums[8] = {};
  for (i64 i = 0; i < length; i += STEP) {
    MANSARD_UNROLL
    for (int s = 0; s < STREAMS; ++s) {
      const double* at = x + s * length + i;
      MANSARD_UNROLL
      for (int u = 0; u < EACH; ++u) sums[s * EACH + u] += load<PROBE_LANES>(at + u * PROBE_LANES);
      if constexpr (AHEAD > 0)
        MANSARD_UNROLL
        for (int byte = 0; byte < STEP * 8; byte += CACHE_LINE)
          prefetch<1>(reinterpret_cast<const char*>(at) + AHEAD + byte);
    }
  }
  return sum_all(sums);
}

inline double read_shape(i64 shape, const double* x, i64 count) {
  switch (shape) {
    case 0: return read_part<1, 0>(x, count);
    case 1: return read_part<2, 0>(x, count);
    case 2: return read_part<4, 0>(x, count);
    case 3: return read_part<1, 2048>(x, count);
    default: return read_part<4, 1024>(x, count);
  }
}

inline double dot_part(const double* x, const double* y, i64 count) {
  Doubles sums[8] = {};
  for (i64 i = 0; i < count; i += 8 * PROBE_LANES)
    MANSARD_UNROLL
    for (int u = 0; u < 8; ++u)
      add_product(sums[u], load<PROBE_LANES>(x + i + u * PROBE_LANES), load<PROBE_LANES>(y + i + u * PROBE_LANES));
  return sum_all(sums);
}

// Past the caches where the processor has such a store: a line that is written whole need not be read first.
template <bool PAST>
MANSARD_INLINE void put(double* to, Doubles value) {
#if defined(__AVX512F__)
  if constexpr (PAST) return _mm512_stream_pd(to, reinterpret_cast<__m512d>(value));
#elif defined(__AVX__)
  if constexpr (PAST) return _mm256_stream_pd(to, reinterpret_cast<__m256d>(value));
#elif defined(__SSE2__)
  if constexpr (PAST) return _mm_stream_pd(to, reinterpret_cast<__m128d>(value));
#endif
  store<PROBE_LANES>(to, value);
}

template <bool PAST, class Value>
MANSARD_INLINE double write_part(double* y, i64 count, Value value) {
  for (i64 i = 0; i < count; i += 4 * PROBE_LANES)
    MANSARD_UNROLL
    for (int u = 0; u < 4; ++u) put<PAST>(y + i + u * PROBE_LANES, value(i + u * PROBE_LANES));
#if defined(__x86_64__)
  if constexpr (PAST) _mm_sfence();
#endif
  return 0;
}

// Shape 0 stores through the caches, 1 past them.
template <class Value>
MANSARD_INLINE double write_shape(i64 shape, double* y, i64 count, Value value) {
  return shape == 0 ? write_part<false>(y, count, value) : write_part<true>(y, count, value);
}

// --- Arithmetic ----------------------------------------------------------------------------------------------

// Twelve chains of vectors per thread, v = v + a v over and over, which is one instruction also where the sum must take
// the addend's place (ARM; v = a v + b would be two): with a = 1 it doubles, with a = -2 it changes its sign.
template <class R>
__attribute__((noinline)) double multiply_add(i64 repeats, R a) {
  constexpr int CHAINS = 12, LANES = native_lanes<R>;
  using V = Vector<R, LANES>;
  V values[CHAINS];
  const V factor = V{} + a;
  MANSARD_UNROLL
  for (int i = 0; i < CHAINS; ++i) values[i] = V{} + static_cast<R>(i);
  for (i64 round = 0; round < repeats; ++round)
    MANSARD_UNROLL
    for (int u = 0; u < 16; ++u)
      MANSARD_UNROLL
      for (int i = 0; i < CHAINS; ++i) add_product(values[i], values[i], factor);
  double sum = 0;
  MANSARD_UNROLL
  for (int i = 0; i < CHAINS; ++i)
    for (int lane = 0; lane < LANES; ++lane) sum += static_cast<double>(values[i][lane]);
  return sum;
}

// --- Waiting -------------------------------------------------------------------------------------------------

template <class Arguments>
double fork_and_join(const Arguments& arguments) {
  for (i64 i = 0; i < arguments.repeats; ++i) {
#pragma omp parallel num_threads(static_cast<int>(arguments.threads))
    { __asm__ volatile("" ::: "memory"); }
  }
  return 0;
}

// One place per line names the next: a cycle through `lines` (a power of two) that no prefetcher follows.
inline double link_part(double* y, i64 lines, i64 begin, i64 count) {
  auto* next = reinterpret_cast<i64*>(y);
  for (i64 i = begin / 8; i < smaller((begin + count) / 8, lines); ++i)
    next[i * 8] = static_cast<i64>((static_cast<unsigned long long>(i) * 1664525ull + 1013904223ull) & static_cast<unsigned long long>(lines - 1));
  return 0;
}

inline void chase(const double* y, double* result, i64 repeats) {
  const auto* next = reinterpret_cast<const i64*>(y);
  i64 at = static_cast<i64>(*result);
  for (i64 i = 0; i < repeats; ++i) at = next[at * 8];
  *result = static_cast<double>(at);
}

// --- The one entry -------------------------------------------------------------------------------------------

template <class P, class Arguments>
double probe_streams(const Arguments& a) {
  const Doubles factor = Doubles{} + a.a;
  const double* const x = a.x;
  const i64 shape = a.shape, half = a.count / 2;
  const auto at = [](const double* p) { return load<PROBE_LANES>(p); };
  switch (a.probe) {
    case P::COPY:
      return on_parts(a, a.count, [&](i64 begin, i64 count) {
        const double* from = x + begin;
        if (shape == 2) return std::memcpy(a.y + begin, from, static_cast<std::size_t>(count) * 8), 0.0;
        return write_shape(shape, a.y + begin, count, [=](i64 i) { return at(from + i); });
      });
    case P::SCALE:
      return on_parts(a, a.count, [&](i64 begin, i64 count) {
        const double* from = x + begin;
        return write_shape(shape, a.y + begin, count, [=](i64 i) { return factor * at(from + i); });
      });
    case P::TRIAD:
      return on_parts(a, half, [&](i64 begin, i64 count) {
        const double *from = x + begin, *other = from + half;
        return write_shape(shape, a.y + begin, count, [=](i64 i) { return plus_product(at(from + i), factor, at(other + i)); });
      });
    default:
      return on_parts(a, a.count, [&](i64 begin, i64 count) {
        return write_shape(shape, a.y + begin, count, [=](i64) { return factor; });
      });
  }
}

template <class P, class Arguments>
double probe_caches(const Arguments& a) {
  return on_parts(a, a.count, [&](i64 begin, i64 count) {
    double sum = 0;
    for (i64 sweep = 0; sweep < a.repeats; ++sweep) {
      sum += read_part<1, 0>(a.x + begin, count);
      __asm__ volatile("" ::: "memory");  // the next sweep reads again
    }
    return sum;
  });
}

template <class P, class Arguments>
int probe(const Arguments& a) {
  double& result = *a.result;
  switch (a.probe) {
    case P::TOUCH: result = on_parts(a, a.count, [&](i64 begin, i64 count) { return touch_part(a.y, begin, count); }); break;
    case P::READ: result = on_parts(a, a.count, [&](i64 begin, i64 count) { return read_shape(a.shape, a.x + begin, count); }); break;
    case P::DOT: result = on_parts(a, a.count, [&](i64 begin, i64 count) { return dot_part(a.x + begin, a.y + begin, count); }); break;
    case P::FMA64: result = on_parts(a, a.count, [&](i64, i64) { return multiply_add<double>(a.repeats, a.a); }); break;
    case P::FMA32:
      result = on_parts(a, a.count, [&](i64, i64) { return multiply_add<float>(a.repeats, static_cast<float>(a.a)); });
      break;
    case P::CACHE: result = probe_caches<P>(a); break;
    case P::FORK: result = fork_and_join(a); break;
    case P::LINK: result = on_parts(a, a.count, [&](i64 begin, i64 count) { return link_part(a.y, a.count / 8, begin, count); }); break;
    case P::CHASE: chase(a.x, a.result, a.repeats); break;
    default: probe_streams<P>(a);
  }
  return 0;
}

}  // namespace mansard
