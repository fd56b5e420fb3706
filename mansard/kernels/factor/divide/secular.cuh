// One root of the secular equation of a rank-one update, by a team of four lanes.
//
//   w(x) = 1 / rho + sum_i z_i^2 / (d_i - x) = 0,   d_a < x < d_(a+1)
//
// x is known as origin + offset: the origin is the pole that is nearer, so that all differences d_i - x have small
// relative errors, on which the orthogonality of the vectors depends (Gu and Eisenstat). Each step replaces w by
// c + s / (d_a - x) + t / (d_(a+1) - x) with the value and the derivative of w, and either the weight of the nearer pole
// for its own, or the derivatives of the parts left and right of x (Li's fixed weight and middle way): the other one
// after a step that gained less than a digit. A step that leaves the bracket is replaced by its bisection. The last root has a pole of no weight to
// its right, at twice the distance that the norm of z (one, but for rounding) allows.
#pragma once
#include "kernels/factor/divide/condensed.cuh"

namespace mansard {

constexpr int TEAM = 4;  // lanes per root

template <class R>
MANSARD_DEVICE R team_total(R x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

template <class R>
struct Secular {
  static constexpr int MOST = 60;  // steps; one to three are usual
  const R *poles, *weights;        // d_i in ascending order, and z_i^2
  const R inverse;                 // 1 / rho
  const int count, lane;           // poles; lane of the team
  int own;                         // the root between poles own and own + 1
  R origin, offset = R(0), left, right;  // the poles beside the root, as offsets
  R weight, before;                      // of the nearer pole; |w| of the step before
  bool is_left = true, is_fixed = true;  // the nearer pole is the left one; the method
  bool converged = true;

  // Terms and their derivatives at x = origin + at, summed over the team's poles first, ..., end - 1.
  struct Sums {
    R terms, slopes;
  };
  MANSARD_DEVICE Sums sum(R at, int first, int end) const {
    R terms = R(0), slopes = R(0);
    MANSARD_UNROLL_BY(2)
    for (int i = first; i < end; i += TEAM) {
      const R inverse_distance = quick_inverse((poles[i] - origin) - at), term = weights[i] * inverse_distance;
      terms += term;
      slopes = fma(term, inverse_distance, slopes);
    }
    return {team_total(terms), team_total(slopes)};
  }
  static MANSARD_DEVICE R root(R x) {
    const R safe = fmax(x, R(64) * Range<R>::LEAST);
    return x > R(64) * Range<R>::LEAST ? safe * quick_inverse_root(safe) : R(0);
  }
  // The root of c x^2 - a x + b = 0 that the interpolation means.
  static MANSARD_DEVICE R quadratic(R a, R b, R c) {
    const R size = root(fma(a, a, R(-4) * b * c));
    return a > 0 ? R(2) * b * quick_inverse(a + size) : (a - size) * quick_inverse(R(2) * c);
  }

  // All lanes of a warp take part; teams without a root are not `active`.
  MANSARD_DEVICE void solve(bool active, R rho) {
    own = active ? own : 0;
    const bool is_last = own + 1 >= count;
    const R gap = is_last ? R(2.125) * rho : poles[own + 1] - poles[own], half = R(0.5) * gap;
    const R first = weights[own], second = is_last ? R(0) : weights[own + 1], at_half = quick_inverse(half);
    origin = poles[own];
    const R middle = sum(half, lane, count).terms + inverse, rest = middle - (second - first) * at_half;
    is_left = is_last || middle >= 0;
    weight = is_left ? first : second;
    before = Range<R>::MOST;
    if (!is_left) origin = poles[own + 1];
    left = is_left ? R(0) : -gap;
    right = is_left ? gap : R(0);
    offset = is_left ? quadratic(fma(rest, gap, first + second), first * gap, rest)
                     : quadratic(fma(-rest, gap, first + second), -second * gap, rest);
    R low = is_left ? R(0) : -half, high = is_left ? half : R(0);
    if (!(offset > low && offset < high)) offset = R(0.5) * (low + high);
    bool running = active;
    MANSARD_UNROLL_BY(1)
    for (int step = 0; step < MOST && __any_sync(0xffffffffu, running); ++step) running = advance(low, high, running);
    converged = !running;
  }

 private:
  static MANSARD_DEVICE R between(R low, R high) {
    const R product = low * high;
    return product > 0 ? copysign(root(product), low) : R(0.5) * (low + high);
  }
  // One step; false once the root is known to rounding.
  MANSARD_DEVICE bool advance(R& low, R& high, bool running) {
    const int next_own = own + 1 + ((lane - own - 1) & (TEAM - 1));  // this lane's first pole to the right
    const Sums s = sum(offset, lane, own + 1), t = sum(offset, next_own, count);
    const R w = (s.terms + t.terms) + inverse, slope = s.slopes + t.slopes;
    const R noise = fma(R(8), inverse + (t.terms - s.terms), fabs(offset) * slope);
    if (!running || fabs(w) <= Precision<R>::UNIT * noise) return false;
    (w < 0 ? low : high) = offset;
    const R to_left = left - offset, to_right = right - offset, both = to_left * to_right;
    if (fabs(w) > R(0.1) * before) is_fixed = !is_fixed;
    before = fabs(w);
    R c = w - to_left * s.slopes - to_right * t.slopes;
    if (is_fixed) {
      const R near = quick_inverse(is_left ? to_left : to_right), share = (right - left) * weight * near * near;
      c = is_left ? fma(-to_right, slope, w) + share : fma(-to_left, slope, w) - share;
    }
    R change = quadratic(fma(to_left + to_right, w, -both * slope), both * w, c);
    if (!(w * change < 0)) change = -w * quick_inverse(slope);  // Newton
    R next = offset + change;
    if (!(next > low && next < high)) next = between(low, high);
    const bool moves = next != offset && next > low && next < high;
    if (moves) offset = next;
    return moves;
  }
};

}  // namespace mansard
