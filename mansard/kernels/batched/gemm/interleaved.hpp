// gemm for interleaved stacks on CPUs: entry (i, j) of L matrices is stored in L adjacent places, one matrix per lane.
//
// Groups of L matrices follow each other: entry (i, j) of matrix b is at (b / L) * matrix + i * row + j * column + b %
// L, where row and column are multiples of L. The last group has all its places, used or not. A shared operand is not
// interleaved. Lanes never exchange values, so sizes need not fit the vectors.
#pragma once
#include "kernels/batched/gemm/operands.hpp"

namespace mansard {

// Matrices per group.
template <class P, class Arguments>
i64 interleaved_width(const Arguments& a) {
  return P::ROW_MAJOR_C ? a.c_col : a.c_row;
}

// Entries of all lanes at p: one per lane, or a broadcast of a shared one. The first visit prefetches AHEAD.
template <class P, bool SHARED, class R>
MANSARD_INLINE Vector<R, P::LANES> entries_at(const R* p, bool first_visit) {
  if constexpr (SHARED) {
    return alternating<R, P::LANES>(p[0], p[Scalar<typename P::T>::WORDS - 1]);
  } else {
    if (P::PREFETCH > 0 && first_visit) prefetch<P::PREFETCH>(p + P::AHEAD / static_cast<int>(sizeof(R)));
    return load<P::LANES>(p);
  }
}

// Real (PART 0) or imaginary (PART 1) parts of entries, each in both lanes of its entry.
template <int PART, class R, int LANES, int... L>
MANSARD_INLINE Vector<R, LANES> part_twice(Vector<R, LANES> v, std::integer_sequence<int, L...>) {
  return choose<R, LANES>(v, v, std::integer_sequence<int, L / 2 * 2 + PART...>());
}

// A tile of ROWS x COLUMNS entries from row m0 and column n0 on, for the matrices of a vector.
template <class P, bool STREAM, int ROWS, int COLUMNS, class R = typename GemmOperands<P>::R>
MANSARD_INLINE void interleaved_tile(const GemmOperands<P>& o, int m0, int n0, Entries<const R> a, Entries<const R> b,
                                     Entries<R> c) {
  constexpr int LANES = P::LANES, WORDS = GemmOperands<P>::WORDS;
  constexpr auto LANE = std::make_integer_sequence<int, LANES>();
  using V = Vector<R, LANES>;
  V sums[ROWS][COLUMNS][WORDS] = {};
  for (int k = 0; k < P::K; ++k) {
    V right[COLUMNS];
    MANSARD_UNROLL
    for (int n = 0; n < COLUMNS; ++n)
      right[n] = in_register(entries_at<P, P::STACK_B == StackB::shared>(b.data + k * b.row + n * b.column, m0 == 0));
    MANSARD_UNROLL
    for (int m = 0; m < ROWS; ++m) {
      const V left = entries_at<P, P::STACK_A == StackA::shared>(a.data + m * a.row + k * a.column, n0 == 0);
      const V re = WORDS == 1 ? left : part_twice<0, R, LANES>(left, LANE), im = part_twice<1, R, LANES>(left, LANE);
      MANSARD_UNROLL
      for (int n = 0; n < COLUMNS; ++n) {
        add_product(sums[m][n][0], re, right[n]);
        if constexpr (WORDS == 2) add_product(sums[m][n][1], im, right[n]);
      }
    }
  }
  MANSARD_UNROLL
  for (int m = 0; m < ROWS; ++m) {
    MANSARD_UNROLL
    for (int n = 0; n < COLUMNS; ++n) {
      R* const to = c.data + m * c.row + n * c.column;
      const V value = o.template entries_of_c<LANES, LANES, false>(to, sums[m][n]);
      if constexpr (STREAM) stream<LANES>(to, value);
      else store<LANES>(to, value);
    }
  }
}

// Params without exchanged operands; all strides are arguments.
template <class P>
struct Unswapped : P {
  static constexpr bool TIGHT = false, ROW_MAJOR_C = true;
};

// Form the products of groups [begin, end) of the batch.
template <class Params, bool STREAM, class Arguments>
void interleaved_groups(const Arguments& a, i64 begin, i64 end) {
  using P = Unswapped<Params>;
  using R = typename GemmOperands<P>::R;
  constexpr int W = GemmOperands<P>::WORDS;
  constexpr i64 A_MOVES = P::STACK_A != StackA::shared, B_MOVES = P::STACK_B != StackB::shared;
  static_assert(P::LANES >= 2 && P::LANES <= native_lanes<R>);
  const GemmOperands<P> o(a);
  const i64 width = W * interleaved_width<Params>(a);
  for (i64 group = begin; group < end; ++group) {
    for (i64 lane = 0; lane < width; lane += P::LANES) {
      const Entries<const R> left{reinterpret_cast<const R*>(a.A) + A_MOVES * (group * a.a_matrix * W + lane),
                                  W * a.a_row, W * a.a_col};
      const Entries<const R> right{reinterpret_cast<const R*>(a.B) + B_MOVES * (group * a.b_matrix * W + lane),
                                   W * a.b_row, W * a.b_col};
      const Entries<R> out{reinterpret_cast<R*>(a.C) + group * a.c_matrix * W + lane, W * a.c_row, W * a.c_col};
      Pieces<P::N, P::TILE_N>::for_each([&](int n, auto columns) __attribute__((always_inline)) {
        Pieces<P::M, P::TILE_M>::for_each([&](int m, auto rows) __attribute__((always_inline)) {
          interleaved_tile<P, STREAM, rows, columns>(o, m, n, left.below(m), right.beside(n * right.column),
                                                     out.below(m).beside(n * out.column));
        });
      });
    }
  }
  if (STREAM) finish_streams();
}

template <class P, class Arguments>
void interleaved_part(const Arguments& a, i64 begin, i64 end) {
  using R = typename Scalar<typename P::T>::Real;
  constexpr bool WHOLE = P::STREAM && P::LANES == native_lanes<R>;
  if (WHOLE && reinterpret_cast<std::uintptr_t>(a.C) % VECTOR_BYTES == 0) interleaved_groups<P, WHOLE>(a, begin, end);
  else interleaved_groups<P, false>(a, begin, end);
}

}  // namespace mansard
