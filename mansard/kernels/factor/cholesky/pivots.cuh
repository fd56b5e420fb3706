// Shared by the Cholesky kernels: the root of a pivot, operands, copies between images and registers, and backward
// substitution.
#pragma once
#include "kernels/batched/trsm/system.cuh"
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

using LayoutF = Layout;
using FeedF = Feed;

// An even power of two that makes subnormal numbers normal, and its root.
template <class R>
constexpr R LIFT = sizeof(R) == 8 ? R(0x1p+108) : R(0x1p+48);
template <class R>
constexpr R LIFT_ROOT = sizeof(R) == 8 ? R(0x1p+54) : R(0x1p+24);

// 1 / l_kk = 1 / sqrt(pivot). If the pivot is not positive, or a NaN, the result is a NaN, which spreads to all entries
// that depend on it, and `info` becomes the order of the first such minor. It calls no function: a call would save
// registers.
template <class R>
MANSARD_DEVICE R inverse_of_diagonal(R pivot, int order, int& info) {
  R inverse = quick_inverse_root(pivot);
  if (!rootable(pivot)) {
    inverse = quick_inverse_root(pivot * LIFT<R>) * LIFT_ROOT<R>;
    if (pivot > Range<R>::MOST) inverse = 0;
    if (!(pivot > 0)) {
      inverse = R(__uint_as_float(0x7fffffffu));  // a NaN
      if (info == 0) info = order;
    }
  }
  return inverse;
}

// Whether x and 1 / x are normal positive numbers, from the exponent bits.
MANSARD_DEVICE bool invertible(double x) {
  return static_cast<u32>(__double_as_longlong(x) >> 32) - 0x00400000u < 0x7f800000u;
}
MANSARD_DEVICE bool invertible(float x) { return __float_as_uint(x) - 0x02000000u < 0x7b800000u; }

template <class P, class Arguments>
struct Operands {
  using T = typename P::T;
  decltype(place_of(Arguments::A, Layout::row, 0, 0, 0)) A;
  decltype(place_of(Arguments::F, Layout::row, 0, 0, 0)) F;
  decltype(place_of(Arguments::B, Layout::row, 0, 0, 0)) B;
  decltype(place_of(Arguments::X, Layout::row, 0, 0, 0)) X;

  MANSARD_DEVICE explicit Operands(const Arguments& x)
      : A(place_of(x.A, P::LAYOUT_A, x.a_matrix, x.a_row, x.a_col)),
        F(place_of(x.F, P::LAYOUT_F, x.f_matrix, x.f_row, x.f_col)),
        B(place_of(x.B, P::LAYOUT_B, x.b_matrix, x.b_row, x.b_col)),
        X(place_of(x.X, P::LAYOUT_X, x.x_matrix, x.x_row, x.x_col)) {}

  // Conjugate if CONJ_B: applied to right-hand sides when they are loaded and to solutions when they are stored.
  static MANSARD_DEVICE T turned(T x) {
    if constexpr (P::CONJ_B) return conjugate(x);
    else return x;
  }
};

// Entry `at` of the table of a ragged batch, four words: order, index into `info`, offsets of the matrix and of its
// factor in elements.
struct Item {
  int order;
  i64 index, a, f;
  MANSARD_DEVICE Item(const i64* items, i64 at)
      : order(static_cast<int>(items[4 * at])), index(items[4 * at + 1]), a(items[4 * at + 2]), f(items[4 * at + 3]) {}
};

// Entry of L as it is stored: zero above the diagonal, no imaginary part on it.
template <class T>
MANSARD_DEVICE T lower_entry(T x, int row, int column) {
  if (row == column) return from_real<T>(real_part(x));
  return column < row ? x : zero<T>();
}

// Load READ elements at (row, column) of an image into registers; below, store them as entries of L.
template <Layout LAYOUT, int PITCH, int READ, class T>
MANSARD_DEVICE void read_entries(T* to, const T* image, int row, int column) {
  const auto pack = *reinterpret_cast<const Pack<T, READ>*>(image + entry_at<LAYOUT, PITCH>(row, column));
  MANSARD_UNROLL
  for (int j = 0; j < READ; ++j) to[j] = pack.e[j];
}
template <Layout LAYOUT, int PITCH, int READ, class T>
MANSARD_DEVICE void write_entries(T* image, const T* from, int row, int column) {
  Pack<T, READ> pack;
  MANSARD_UNROLL
  for (int j = 0; j < READ; ++j) pack.e[j] = lower_entry(from[j], row, column + j);
  *reinterpret_cast<Pack<T, READ>*>(image + entry_at<LAYOUT, PITCH>(row, column)) = pack;
}

// Store `count` elements from shared to global memory by a team, 16 bytes at a time. In both, the first element is
// `skip` elements behind a 16-byte boundary. `least` and `most` are compile-time bounds of `count`.
template <int TEAM, class T>
MANSARD_DEVICE void store_run(int count, int least, int most, T* to, const T* memory, int skip, int rank) {
  constexpr int VECTOR = 16 / int(sizeof(T));
  T* pieces = to + (rank * VECTOR - skip);
  const T* from = memory + rank * VECTOR;
  const int last = skip + count - (rank + 1) * VECTOR;
  MANSARD_UNROLL
  for (int first = 0; first < most + VECTOR - 1; first += TEAM * VECTOR) {
    const bool begun = first > 0 || rank * VECTOR >= skip, there = first + TEAM * VECTOR <= least || first <= last;
    if (begun && there) store_pack(pieces + first, *reinterpret_cast<const Pack<T, VECTOR>*>(from + first));
  }
  if (rank < (VECTOR - skip) % VECTOR) to[rank] = memory[skip + rank];
  if (rank < (skip + count) % VECTOR) to[count - 1 - rank] = memory[skip + count - 1 - rank];
}

// Backward substitution L^H x = y: x_i = y_i / l_ii, then y_k -= conj(l_ik) * x_i for k < i. Unknown i is in slot
// i / LANES of lane i % LANES and reaches the others by a shuffle. entry(i, k) is l_ik, entry(i, i) is 1 / l_ii.
template <int N, int LANES, int NRHS, class T, class Entry>
MANSARD_DEVICE void substitute_back(T (&y)[ceil_div(N, LANES)][NRHS], int rank, Entry entry) {
  constexpr int SLOTS = ceil_div(N, LANES), UNROLL = N <= 32 ? 32 : 8;
  MANSARD_UNROLL
  for (int slot = SLOTS - 1; slot >= 0; --slot) {
    const int last = min(N - 1, slot * LANES + rank);
    const auto inverse = real_part(entry(last, last));
MANSARD_UNROLL_BY(UNROLL)
    for (int i = min(N, (slot + 1) * LANES) - 1; i >= slot * LANES; --i) {
      T minus[NRHS];
      MANSARD_UNROLL
      for (int c = 0; c < NRHS; ++c) {
        const T known = lane_value<LANES>(by_real(y[slot][c], inverse), i - slot * LANES);
        if (rank == i - slot * LANES) y[slot][c] = known;
        minus[c] = negated(known);
      }
      MANSARD_UNROLL
      for (int s = 0; s <= slot; ++s) {
        const int k = s * LANES + rank;
        if (s < slot || k < i) {
          const T l = entry(i, k);
          MANSARD_UNROLL
          for (int c = 0; c < NRHS; ++c) multiply_add<true>(y[s][c], l, minus[c]);
        }
      }
    }
  }
}

}  // namespace mansard
