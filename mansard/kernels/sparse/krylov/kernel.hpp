// Conjugate gradients on CPUs: one of the passes of an iteration; kernel_cg.cuh has their formulas.
//
// Threads take parts of PART words. A part's sum is formed in LANES x CHAINS partial sums over runs of RUN words, runs
// are added in double precision, parts in their order: the same bits whatever the number of threads. Limit: memory.
//
//   PART  words of a vector that a thread takes at a time
#pragma once
#include "kernels/sparse/krylov/vectors.hpp"
#include "kernels/sparse/krylov/scalars.hpp"

namespace mansard {

template <class P, bool WEIGHTED, class Arguments>
struct CgPasses {
  using T = typename P::T;
  const Arguments& a;
  double* const state;

  template <bool FRESH>
  void residual() const {
    const T alpha = FRESH ? T(0) : static_cast<T>(state[ALPHA]);
    double sums[2] = {};
    sum_parts<P, 1 + WEIGHTED>(a, sums, [&](i64 i, auto lanes, auto& part) __attribute__((always_inline)) {
      auto r = words<lanes>(a.R + i);
      if constexpr (!FRESH) {
        r = fused_negative(spread<lanes>(alpha), words<lanes>(a.Q + i), r);
        put<lanes>(a.R + i, r);
      }
      part[0] = fused(r, r, part[0]);
      if constexpr (WEIGHTED) part[1] = fused(r * words<lanes>(a.D + i), r, part[1]);
    });
    take_residual<P>(state, sums[WEIGHTED], __builtin_sqrt(sums[0]), a.goal, a.least, FRESH);
    post<P>(state, a.BOX);
  }

  void curvature() const {
    double sums[1] = {};
    sum_parts<P, 1>(a, sums, [&](i64 i, auto lanes, auto& part) __attribute__((always_inline)) {
      part[0] = fused(words<lanes>(a.P + i), words<lanes>(a.Q + i), part[0]);
    });
    take_curvature<P>(state, sums[0]);
  }

  void start() const {
    for_parts<P>(a, [&](i64 i, auto lanes) __attribute__((always_inline)) {
      auto z = words<lanes>(a.R + i);
      if constexpr (WEIGHTED) z = z * words<lanes>(a.D + i);
      put<lanes>(a.P + i, z);
    });
  }

  void direction() const {
    const T alpha = static_cast<T>(state[ALPHA]), beta = static_cast<T>(state[BETA]);
    for_parts<P>(a, [&](i64 i, auto lanes) __attribute__((always_inline)) {
      const auto p = words<lanes>(a.P + i);
      put<lanes>(a.X + i, fused(spread<lanes>(alpha), p, words<lanes>(a.X + i)));
      auto z = words<lanes>(a.R + i);
      if constexpr (WEIGHTED) z = z * words<lanes>(a.D + i);
      put<lanes>(a.P + i, fused(spread<lanes>(beta), p, z));
    });
  }

  void run() const {
    if (a.phase == P::BEGIN) return residual<true>();
    if (a.phase == P::START) return start();
    const bool running = state[STATUS] == P::RUNNING;
    if (a.phase == P::CURVATURE) {
      if (running) curvature();
    } else if (a.phase == P::DIRECTION) {
      if (state[LIVE] != 0.0) direction();
    } else if (running) {
      residual<false>();
    } else {
      state[LIVE] = 0.0;
      post<P>(state, a.BOX);
    }
  }
};

template <class P, class Arguments>
int krylov_simd(const Arguments& a) {
  if (a.D == nullptr) CgPasses<P, false, Arguments>{a, a.STATE}.run();
  else CgPasses<P, true, Arguments>{a, a.STATE}.run();
  return 0;
}

}  // namespace mansard
