// The minimal residual method: one of the passes of an iteration, by Lanczos' recurrence.
//
//   SCALE    v = r / |r|                                    PROJECT  u -= shift v + beta v_before; alpha = u.v
//   NORM     u -= alpha v; |u|, rotation, |residual|        UPDATE   w_before = v + a w_before + b w (the next w),
//                                                                    x += c w_before, u /= |u| (the next v)
//
// u = A v is there before PROJECT. The host passes the buffers in turn: the next iteration's v is this one's u, its w
// this one's w_before. Vectors are real: a complex one has twice as many words, since all factors are real.
//
// Team, sums, state and launches ahead of the host as in kernel_cg.cuh: NORM posts, and UPDATE asks for LIVE. Limit:
// memory, 15 words per iteration and row.
//
//   BLOCK  threads per block
//   DEPTH  packs of each vector that a thread loads before it computes
#pragma once
#include "kernels/sparse/krylov/vectors.cuh"
#include "kernels/sparse/krylov/scalars.hpp"

namespace mansard {

template <class P, class Arguments>
struct MinresPasses {
  using T = typename P::T;
  const Arguments& a;
  double* const state;

  MANSARD_DEVICE void scale() const {
    if (blockIdx.x == 0 && threadIdx.x == 0) begin_minres<P>(state, a.left);
    const Operands<T, 1, 1> of = {{a.U}, {a.V}};
    const T inverse = static_cast<T>(1.0 / a.left);
    for_words<P>(a.words, of, [&](const T* in, T* out) { out[0] = in[0] * inverse; });
  }

  MANSARD_DEVICE void project() const {
    const Operands<T, 3, 1> of = {{a.U, a.V, a.V_BEFORE}, {a.U}};
    const T shift = static_cast<T>(a.shift), beta = static_cast<T>(state[BETA]);
    double sums[1] = {};
    for_words<P>(a.words, of, [&](const T* in, T* out) {
      T u = in[0];
      multiply_add<false>(u, -shift, in[1]);
      multiply_add<false>(u, -beta, in[2]);
      out[0] = u;
      multiply_add<false>(sums[0], static_cast<double>(u), static_cast<double>(in[1]));
    });
    if (grid_sums<P>(sums, a.partials, a.counters)) state[ALPHA] = sums[0];
  }

  MANSARD_DEVICE void norm() const {
    const Operands<T, 2, 1> of = {{a.U, a.V}, {a.U}};
    const T alpha = static_cast<T>(state[ALPHA]);
    double sums[1] = {};
    for_words<P>(a.words, of, [&](const T* in, T* out) {
      T u = in[0];
      multiply_add<false>(u, -alpha, in[1]);
      out[0] = u;
      multiply_add<false>(sums[0], static_cast<double>(u), static_cast<double>(u));
    });
    if (grid_sums<P>(sums, a.partials, a.counters)) {
      take_column<P>(state, sqrt(sums[0]), a);
      post<P>(state, a.BOX);
    }
  }

  MANSARD_DEVICE void update() const {
    const Operands<T, 5, 3> of = {{a.X, a.U, a.V, a.W, a.W_BEFORE}, {a.X, a.U, a.W_BEFORE}};
    const T of_w = static_cast<T>(state[OF_W]), of_before = static_cast<T>(state[OF_W_BEFORE]);
    const T of_x = static_cast<T>(state[OF_X]), of_u = static_cast<T>(state[OF_U]);
    for_words<P>(a.words, of, [&](const T* in, T* out) {
      T w = in[2];
      multiply_add<false>(w, of_before, in[4]);
      multiply_add<false>(w, of_w, in[3]);
      out[0] = in[0];
      multiply_add<false>(out[0], of_x, w);
      out[1] = in[1] * of_u;
      out[2] = w;
    });
  }

  MANSARD_DEVICE void run() const {
    if (a.phase == P::SCALE) return scale();
    const bool running = state[STATUS] == P::RUNNING;
    if (a.phase == P::PROJECT) {
      if (running) project();
    } else if (a.phase == P::UPDATE) {
      if (state[LIVE] != 0.0) update();
    } else if (running) {
      norm();
    } else if (blockIdx.x == 0 && threadIdx.x == 0) {
      state[LIVE] = 0.0;
      post<P>(state, a.BOX);
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void krylov_minres(const Arguments& a) {
  MinresPasses<P, Arguments>{a, a.STATE}.run();
}

}  // namespace mansard
