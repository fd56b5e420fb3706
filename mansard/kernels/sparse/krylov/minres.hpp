// The minimal residual method on CPUs: one of the passes of an iteration; kernel_minres.cuh has their formulas.
//
// Threads and sums as in kernel.hpp. Limit: memory.
//
//   PART  words of a vector that a thread takes at a time
#pragma once
#include "kernels/sparse/krylov/vectors.hpp"
#include "kernels/sparse/krylov/scalars.hpp"

namespace mansard {

template <class P, class Arguments>
struct MinresPasses {
  using T = typename P::T;
  const Arguments& a;
  double* const state;

  void scale() const {
    begin_minres<P>(state, a.left);
    const T inverse = static_cast<T>(1.0 / a.left);
    for_parts<P>(a, [&](i64 i, auto lanes) __attribute__((always_inline)) {
      put<lanes>(a.V + i, words<lanes>(a.U + i) * spread<lanes>(inverse));
    });
  }

  void project() const {
    const T shift = static_cast<T>(a.shift), beta = static_cast<T>(state[BETA]);
    double sums[1] = {};
    sum_parts<P, 1>(a, sums, [&](i64 i, auto lanes, auto& part) __attribute__((always_inline)) {
      const auto v = words<lanes>(a.V + i);
      auto u = fused_negative(spread<lanes>(shift), v, words<lanes>(a.U + i));
      u = fused_negative(spread<lanes>(beta), words<lanes>(a.V_BEFORE + i), u);
      put<lanes>(a.U + i, u);
      part[0] = fused(u, v, part[0]);
    });
    state[ALPHA] = sums[0];
  }

  void norm() const {
    const T alpha = static_cast<T>(state[ALPHA]);
    double sums[1] = {};
    sum_parts<P, 1>(a, sums, [&](i64 i, auto lanes, auto& part) __attribute__((always_inline)) {
      const auto u = fused_negative(spread<lanes>(alpha), words<lanes>(a.V + i), words<lanes>(a.U + i));
      put<lanes>(a.U + i, u);
      part[0] = fused(u, u, part[0]);
    });
    take_column<P>(state, root(sums[0]), a);
    post<P>(state, a.BOX);
  }

  void update() const {
    const T of_w = static_cast<T>(state[OF_W]), of_before = static_cast<T>(state[OF_W_BEFORE]);
    const T of_x = static_cast<T>(state[OF_X]), of_u = static_cast<T>(state[OF_U]);
    for_parts<P>(a, [&](i64 i, auto lanes) __attribute__((always_inline)) {
      auto w = fused(spread<lanes>(of_before), words<lanes>(a.W_BEFORE + i), words<lanes>(a.V + i));
      w = fused(spread<lanes>(of_w), words<lanes>(a.W + i), w);
      put<lanes>(a.X + i, fused(spread<lanes>(of_x), w, words<lanes>(a.X + i)));
      put<lanes>(a.U + i, words<lanes>(a.U + i) * spread<lanes>(of_u));
      put<lanes>(a.W_BEFORE + i, w);
    });
  }

  void run() const {
    if (a.phase == P::SCALE) return scale();
    const bool running = state[STATUS] == P::RUNNING;
    if (a.phase == P::PROJECT) {
      if (running) project();
    } else if (a.phase == P::UPDATE) {
      if (state[LIVE] != 0.0) update();
    } else if (running) {
      norm();
    } else {
      state[LIVE] = 0.0;
      post<P>(state, a.BOX);
    }
  }
};

template <class P, class Arguments>
int krylov_simd_minres(const Arguments& a) {
  MinresPasses<P, Arguments>{a, a.STATE}.run();
  return 0;
}

}  // namespace mansard
