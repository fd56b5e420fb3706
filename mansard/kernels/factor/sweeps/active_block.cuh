// The unreduced block that an implicit iteration works on, and the test that splits it.
#pragma once
#include "kernels/factor/two_sided/rotations.cuh"
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

enum class Form { tridiagonal, bidiagonal };
enum class Want { values, rotations };

// One sweep on an unreduced block: tridiagonal.cuh, bidiagonal.cuh.
template <class P, Form FORM>
struct Sweep;

template <class R>
struct Precision;
template <>
struct Precision<double> {
  static constexpr double UNIT = 0x1p-53;    // unit roundoff
  static constexpr double LEAST = 0x1p-960;  // sums of squares up to this count as zero
};
template <>
struct Precision<float> {
  static constexpr float UNIT = 0x1p-24f;
  static constexpr float LEAST = 0x1p-120f;
};

// Diagonal d and off-diagonal e of one thread's matrix in shared memory, and the block low..high that is not yet
// diagonal. Blocks are finished from the top down, entries of a block from `low` on.
template <class P>
struct ActiveBlock {
  using R = typename P::T;
  static constexpr int N = P::N, PITCH = P::MATRICES + 1;  // entries from d[i] to d[i + 1]

  R *diagonal, *off_diagonal;
  R floor = R(0);  // absolute part of the test: 0.001 units of roundoff of the largest entry. Without it, blocks of
                   // rounding errors (rank-deficient matrices) never end
  int low = 0, high = -1;
  bool stalls = false;  // bidiagonal: an entry of d is negligible, beyond which no shift reaches

  MANSARD_DEVICE R& d(int i) const { return diagonal[i * PITCH]; }
  MANSARD_DEVICE R& e(int i) const { return off_diagonal[i * PITCH]; }

  // Set the floor; false if an entry is not finite.
  MANSARD_DEVICE bool measure() {
    R largest = R(0);
    bool finite = true;
    MANSARD_UNROLL_BY(4)
    for (int i = 0; i < N; ++i) {
      const R x = fabs(d(i)), y = fabs(e(i));
      finite &= x <= Range<R>::MOST && y <= Range<R>::MOST;
      largest = fmax(largest, fmax(x, y));
    }
    floor = R(0.001) * Precision<R>::UNIT * largest;
    return finite;
  }
  MANSARD_DEVICE bool negligible(R off, R x, R y) const {
    return fabs(off) <= fma(Precision<R>::UNIT, fabs(x) + fabs(y), floor);
  }
  MANSARD_DEVICE bool splits(int i) const { return negligible(e(i), d(i), d(i + 1)); }

  // Move to the next entries that are not diagonal; false if there are none.
  MANSARD_DEVICE bool find() {
    for (;;) {
      if (low >= high) {
        low = high = high + 1;
        if (low >= N - 1) return false;
        while (high < N - 1 && !splits(high)) ++high;
        if (high == low) continue;
      }
      if (!splits(low)) return true;
      ++low;
    }
  }
  // Entries from `low` on that are not negligible.
  MANSARD_DEVICE int unfinished() const {
    int count = 0;
    MANSARD_UNROLL_BY(1)
    for (int i = low; i < N - 1; ++i) count += !splits(i);
    return count;
  }
};

// Values of an earlier pass as shifts, each once; the next one is loaded while the sweep before it runs.
template <class R>
struct PerfectShifts {
  const R* values;  // null: there are none
  int used = -1, loaded = -1;
  R next = R(0);

  MANSARD_DEVICE bool has(int i) const { return values != nullptr && used < i; }
  MANSARD_DEVICE R take(int i) {
    used = i;
    return loaded == i ? next : values[i];
  }
  MANSARD_DEVICE void prefetch(int i) {
    if (values == nullptr || loaded == i) return;
    loaded = i;
    next = values[i];
  }
};

}  // namespace mansard
