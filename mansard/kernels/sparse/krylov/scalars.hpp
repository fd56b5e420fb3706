// What the scalars of an iteration become, once a sum over vectors is known; for GPUs and for CPUs.
//
// The state is an array of doubles beside the vectors. Kernels are launched ahead of what the host knows: a status other
// than RUNNING turns those that follow into no-ops, so that x, r and p stay as the plain loop leaves them.
#pragma once
#if defined(MANSARD_DEVICE)
#define MANSARD_KRYLOV MANSARD_DEVICE
#else
#define MANSARD_KRYLOV inline
#endif

namespace mansard {

// Words of the state: those of both methods, of conjugate gradients, and of minres (behind the first).
enum KrylovWord { STATUS, LIVE, COUNT, LEFT, ALPHA, BETA, CURVED, RHO, FIRST };
enum MinresWord {
  ETA = CURVED + 1,  // what is left of |r| in the last row of the triangular system
  COS, COS_BEFORE, SIN, SIN_BEFORE,
  SIZE,                   // largest column of the tridiagonal matrix so far
  DIVISOR, DIVISOR_BEFORE,  // of w and of w_before, which are not normalised
  OF_W, OF_W_BEFORE, OF_X, OF_U  // factors of UPDATE
};

MANSARD_KRYLOV bool is_number(double x) { return x - x == 0.0; }

// After a pass over r: rho = r^H D r and the norm of r. `fresh`: the first of a solve.
template <class P>
MANSARD_KRYLOV void take_residual(double* state, double rho, double left, double goal, double least, bool fresh) {
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
MANSARD_KRYLOV void take_curvature(double* state, double curvature) {
  state[CURVED] = curvature;
  state[ALPHA] = curvature > 0.0 ? state[RHO] / curvature : 0.0;
  if (!(curvature > 0.0)) state[STATUS] = P::INDEFINITE;
}

// The state before the first column of the tridiagonal matrix, of which |r| = left is known.
template <class P>
MANSARD_KRYLOV void begin_minres(double* state, double left) {
  for (int word = 0; word <= OF_U; ++word) state[word] = 0.0;
  state[STATUS] = P::RUNNING;
  state[LEFT] = state[ETA] = left;
  state[COS] = state[COS_BEFORE] = state[DIVISOR] = state[DIVISOR_BEFORE] = 1.0;
}

// After |u| of the next column (beta, alpha, beta_next): the rotation that makes it triangular, under the two before it.
template <class P, class Arguments>
MANSARD_KRYLOV void take_column(double* state, double beta_next, const Arguments& a) {
  const double alpha = state[ALPHA], beta = state[BETA], c = state[COS], s = state[SIN];
  const double size = root(alpha * alpha + beta * beta + beta_next * beta_next);
  if (size > state[SIZE]) state[SIZE] = size;
  const double epsilon = state[SIN_BEFORE] * beta, delta = s * alpha + state[COS_BEFORE] * c * beta;
  const double gamma = c * alpha - state[COS_BEFORE] * s * beta, other = c * beta_next;
  if (root(gamma * gamma + other * other) <= a.small * state[SIZE]) {
    state[STATUS] = P::SINGULAR;
    state[LIVE] = 0.0;
    return;
  }
  const double length = root(gamma * gamma + beta_next * beta_next);
  state[COS_BEFORE] = c, state[SIN_BEFORE] = s;
  state[COS] = gamma / length, state[SIN] = beta_next / length;
  state[OF_W_BEFORE] = -epsilon / state[DIVISOR_BEFORE], state[OF_W] = -delta / state[DIVISOR];
  state[DIVISOR_BEFORE] = state[DIVISOR], state[DIVISOR] = length;
  state[OF_X] = state[COS] * state[ETA] / length;
  state[OF_U] = beta_next > 0.0 ? 1.0 / beta_next : 1.0;
  state[ETA] *= -state[SIN];
  state[BETA] = beta_next;
  state[LEFT] = state[ETA] < 0.0 ? -state[ETA] : state[ETA];
  state[COUNT] += 1.0;
  state[LIVE] = 1.0;
  const bool goes_on = state[LEFT] > a.goal && beta_next > a.roundoff * state[SIZE] && is_number(state[LEFT]);
  state[STATUS] = goes_on ? P::RUNNING : P::DONE;
}

// Tell the host: the status as a 32-bit word, then doubles behind it.
template <class P>
MANSARD_KRYLOV void post(const double* state, double* box) {
  box[1] = state[LEFT];
  box[2] = state[COUNT];
  box[3] = state[CURVED];
  *reinterpret_cast<u32*>(box) = static_cast<u32>(state[STATUS]);
}

}  // namespace mansard
