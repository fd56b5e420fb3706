// Operands of the gradients kernels: A, the gradient G of a result, the solution Y; gradients F and W without gaps.
#pragma once
#include "kernels/factor/lu/operands.cuh"

namespace mansard {

enum class Gradient { inverse, congruence, cholesky, solution };
using LayoutG = Layout;
using LayoutY = Layout;
using FeedG = Feed;
using FeedY = Feed;

template <class P, class Arguments>
struct GradientOperands {
  decltype(place_of(Arguments::A, Layout::row, 0, 0, 0)) A;
  decltype(place_of(Arguments::G, Layout::row, 0, 0, 0)) G;

  MANSARD_DEVICE GradientOperands(const Arguments& x)
      : A(place_of(x.A, P::LAYOUT_A, x.a_matrix, x.a_row, x.a_col)),
        G(place_of(x.G, P::LAYOUT_G, x.g_matrix, x.g_row, x.g_col)) {}
};

// Write `count` row-major N x N matrices without gaps: entry(matrix, row, column) is called for each entry, VECTOR
// adjacent ones are stored at once. All 32 lanes take part.
template <class T, int N, int GROUP, int VECTOR, class Entry>
MANSARD_DEVICE void store_matrices(T* to, int count, int lane, Entry entry) {
  constexpr int PIECES = N * N / VECTOR;
  static_assert(N % VECTOR == 0, "a piece does not end in another row");
MANSARD_UNROLL_BY(8)
  for (int i = lane; i < count * PIECES; i += 32) {
    const int matrix = i / PIECES, e = i % PIECES * VECTOR;
    Pack<T, VECTOR> pack;
    MANSARD_UNROLL
    for (int j = 0; j < VECTOR; ++j) pack.e[j] = entry(matrix, e / N, e % N + j);
    if constexpr (VECTOR == 1) to[i] = pack.e[0];
    else store_pack(to + static_cast<i64>(i) * VECTOR, pack);
  }
}

}  // namespace mansard
