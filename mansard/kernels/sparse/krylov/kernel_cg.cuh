// Conjugate gradients: one of the passes of an iteration.
//
//   BEGIN      rho = r.(D r), |r|                      START      p = D r
//   CURVATURE  alpha = rho / p.q                        RESIDUAL   r -= alpha q; rho, beta, |r|, status
//   DIRECTION  x += alpha p; p = D r + beta p
//
// q = A p is there before CURVATURE. Vectors are real: a complex one has twice as many words, since alpha and beta are
// real. D = diag(M) word by word, or null for M = 1.
//
// Team. The grid strides over packs of 16 bytes (vectors.cuh). Two numbers per block are shared through `partials`; the
// last block to arrive adds them in a fixed order and advances the state (scalars.hpp), by one thread. No other block
// touches the state by then: each has read it before it arrived. Limit: memory, ten words per iteration and row.
//
// A launch whose state is not RUNNING changes nothing: RESIDUAL posts the status again and clears LIVE, which
// DIRECTION asks for, since the iteration that reaches the goal still has its step to make.
//
//   BLOCK  threads per block
//   DEPTH  packs of each vector that a thread loads before it computes
#pragma once
#include "kernels/sparse/krylov/vectors.cuh"
#include "kernels/sparse/krylov/scalars.hpp"

namespace mansard {

template <class P, bool WEIGHTED, class Arguments>
struct CgPasses {
  using T = typename P::T;
  const Arguments& a;
  double* const state;

  // RESIDUAL and (FRESH) BEGIN.
  template <bool FRESH>
  MANSARD_DEVICE void residual() const {
    constexpr int DIAGONAL = FRESH ? 1 : 2, READS = DIAGONAL + WEIGHTED;
    Operands<T, READS, FRESH ? 0 : 1> of = {};
    of.in[0] = a.R;
    if constexpr (!FRESH) of.in[1] = a.Q, of.out[0] = a.R;
    if constexpr (WEIGHTED) of.in[DIAGONAL] = a.D;
    const T alpha = FRESH ? T(0) : static_cast<T>(state[ALPHA]);
    double sums[1 + WEIGHTED] = {};
    for_words<P>(a.words, of, [&](const T* in, T* out) {
      T r = in[0];
      if constexpr (!FRESH) {
        multiply_add<false>(r, -alpha, in[1]);
        out[0] = r;
      }
      const double wide = r;
      multiply_add<false>(sums[0], wide, wide);
      if constexpr (WEIGHTED) multiply_add<false>(sums[1], wide * in[DIAGONAL], wide);
    });
    if (grid_sums<P>(sums, a.partials, a.counters)) {
      take_residual<P>(state, sums[WEIGHTED], sqrt(sums[0]), a.goal, a.least, FRESH);
      post<P>(state, a.BOX);
    }
  }

  MANSARD_DEVICE void curvature() const {
    const Operands<T, 2, 0> of = {{a.P, a.Q}, {}};
    double sums[1] = {};
    for_words<P>(a.words, of, [&](const T* in, T*) {
      multiply_add<false>(sums[0], static_cast<double>(in[0]), static_cast<double>(in[1]));
    });
    if (grid_sums<P>(sums, a.partials, a.counters)) take_curvature<P>(state, sums[0]);
  }

  MANSARD_DEVICE void start() const {
    Operands<T, 1 + WEIGHTED, 1> of = {};
    of.in[0] = a.R;
    if constexpr (WEIGHTED) of.in[1] = a.D;
    of.out[0] = a.P;
    for_words<P>(a.words, of, [&](const T* in, T* out) {
      out[0] = in[0];
      if constexpr (WEIGHTED) out[0] *= in[1];
    });
  }

  MANSARD_DEVICE void direction() const {
    Operands<T, 3 + WEIGHTED, 2> of = {};
    of.in[0] = a.X, of.in[1] = a.P, of.in[2] = a.R;
    if constexpr (WEIGHTED) of.in[3] = a.D;
    of.out[0] = a.X, of.out[1] = a.P;
    const T alpha = static_cast<T>(state[ALPHA]), beta = static_cast<T>(state[BETA]);
    for_words<P>(a.words, of, [&](const T* in, T* out) {
      out[0] = in[0];
      multiply_add<false>(out[0], alpha, in[1]);
      out[1] = in[2];
      if constexpr (WEIGHTED) out[1] *= in[3];
      multiply_add<false>(out[1], beta, in[1]);
    });
  }

  MANSARD_DEVICE void run() const {
    if (a.phase == P::BEGIN) return residual<true>();
    if (a.phase == P::START) return start();
    const bool running = state[STATUS] == P::RUNNING;
    if (a.phase == P::CURVATURE) {
      if (running) curvature();
    } else if (a.phase == P::DIRECTION) {
      if (state[LIVE] != 0.0) direction();
    } else if (running) {
      residual<false>();
    } else if (blockIdx.x == 0 && threadIdx.x == 0) {
      state[LIVE] = 0.0;
      post<P>(state, a.BOX);
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void krylov_cg(const Arguments& a) {
  if (a.D == nullptr) CgPasses<P, false, Arguments>{a, a.STATE}.run();
  else CgPasses<P, true, Arguments>{a, a.STATE}.run();
}

}  // namespace mansard
