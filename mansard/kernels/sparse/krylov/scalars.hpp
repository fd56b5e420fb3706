// What the scalars of an iteration become, once a sum over vectors is known; for GPUs and for CPUs.
//
// The state is an array of doubles beside the vectors. Kernels are launched ahead of what the host knows: a status other
// than RUNNING turns those that follow into no-ops, so that x, r and p stay as the plain loop leaves them.
#pragma once
#ifndef MANSARD_HOST_DEVICE
#define MANSARD_HOST_DEVICE constexpr
#endif

namespace mansard {

// Words of the state.
enum KrylovWord { STATUS, LIVE, COUNT, LEFT, RHO, ALPHA, BETA, FIRST, CURVED };

MANSARD_HOST_DEVICE bool is_number(double x) { return x - x == 0.0; }

// After a pass over r: rho = r^H D r and the norm of r. `fresh`: the first of a solve.
template <class P>
MANSARD_HOST_DEVICE void take_residual(double* state, double rho, double left, double goal, double least, bool fresh) {
  state[BETA] = fresh ? 0.0 : rho / state[RHO];
  state[FIRST] = fresh ? rho : state[FIRST];
  state[COUNT] = fresh ? 0.0 : state[COUNT] + 1.0;
  state[LEFT] = left;
  state[RHO] = rho;
  state[LIVE] = 1.0;
  const bool goes_on = left > goal && rho > (fresh ? 0.0 : least * state[FIRST]) && is_number(left);
  state[STATUS] = goes_on ? P::RUNNING : P::DONE;
}

// After p^H q: the length of the step.
template <class P>
MANSARD_HOST_DEVICE void take_curvature(double* state, double curvature) {
  state[CURVED] = curvature;
  state[ALPHA] = curvature > 0.0 ? state[RHO] / curvature : 0.0;
  if (!(curvature > 0.0)) state[STATUS] = P::INDEFINITE;
}

// Tell the host: the status as a 32-bit word, then doubles behind it.
template <class P>
MANSARD_HOST_DEVICE void post(const double* state, double* box) {
  box[1] = state[LEFT];
  box[2] = state[COUNT];
  box[3] = state[CURVED];
  *reinterpret_cast<u32*>(box) = static_cast<u32>(state[STATUS]);
}

}  // namespace mansard
