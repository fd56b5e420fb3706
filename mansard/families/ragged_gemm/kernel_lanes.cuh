// The products of one class of a ragged batch, none larger than WIDTH: LANES_M x LANES_N lanes of a warp for each.
//
// Warps stay and take 32 / (LANES_M LANES_N) products of the sorted list at a time. Whole matrices come to shared
// memory; a lane has every LANES_M-th row and every LANES_N-th column of C in registers; C leaves in whole lines by way
// of A's place. Rows and columns past the end are read from what lies there, computed and dropped.
//
//   CLASS, WIDTH      which part of the list, and the most rows or columns in it
//   LANES_M, LANES_N  lanes of a team, along the rows and the columns of C
//   WARPS             per block
//   TRANS_A|B, CONJ_A|B, ACCUMULATE
#pragma once
#include "families/ragged_gemm/items.cuh"
#include "families/ragged_gemm/laid.cuh"

namespace mansard {

template <class P>
struct RaggedLanes {
  using T = typename P::T;
  static constexpr int TEAM = P::LANES_M * P::LANES_N, TEAMS = 32 / TEAM;
  static constexpr int ROWS = ceil_div(P::WIDTH, P::LANES_M), COLUMNS = ceil_div(P::WIDTH, P::LANES_N);
  static constexpr int PLACE = ceil_div(Laid<T>::most(P::WIDTH), Laid<T>::VECTOR) * Laid<T>::VECTOR;
  static_assert(32 % TEAM == 0 && P::LANES_M * ROWS == P::WIDTH && P::LANES_N * COLUMNS == P::WIDTH, "even shares");
  static_assert(P::WARPS * TEAMS * 2 * PLACE * int(sizeof(T)) <= P::SHARED_BYTES, "shared memory");
};

template <class P, class S = RaggedLanes<P>, class T = typename P::T>
MANSARD_DEVICE void lanes_product(const Item& item, T* A, const T* B, const Laid<T>& a, const Laid<T>& b,
                                  const Scales& scales, int rank) {
  const int row = rank / P::LANES_N, column = rank % P::LANES_N;
  T sums[S::ROWS][S::COLUMNS];
  MANSARD_UNROLL
  for (int i = 0; i < S::ROWS * S::COLUMNS; ++i) sums[i / S::COLUMNS][i % S::COLUMNS] = Start<T>::of(item);
  // from one row of op(A) to the next, from one column to the next; the same of op(B)
  const int a_row = P::TRANS_A ? 1 : a.pitch, a_k = P::TRANS_A ? a.pitch : 1;
  const int b_column = P::TRANS_B ? b.pitch : 1, b_k = P::TRANS_B ? 1 : b.pitch;
  const T* left = A + row * a_row;
  const T* right = B + column * b_column;
MANSARD_UNROLL_BY(2)
  for (int k = 0; k < item.k; ++k, left += a_k, right += b_k) {
    T x[S::ROWS], y[S::COLUMNS];
    MANSARD_UNROLL
    for (int r = 0; r < S::ROWS; ++r)
      x[r] = reinterpret_cast<const Pack<T, 1>*>(left + r * P::LANES_M * a_row)->e[0];
    MANSARD_UNROLL
    for (int c = 0; c < S::COLUMNS; ++c) {
      const T entry = reinterpret_cast<const Pack<T, 1>*>(right + c * P::LANES_N * b_column)->e[0];
      y[c] = P::CONJ_B ? conjugate(entry) : entry;
    }
    MANSARD_UNROLL
    for (int r = 0; r < S::ROWS; ++r)
      MANSARD_UNROLL
      for (int c = 0; c < S::COLUMNS; ++c) multiply_add<P::CONJ_A>(sums[r][c], x[r], y[c]);
  }
  __syncwarp();  // everybody has read A
  const Laid<T> out(item.m, item.n);
  T* to = A + row * out.pitch + column;
  MANSARD_UNROLL
  for (int r = 0; r < S::ROWS; ++r)
    MANSARD_UNROLL
    for (int c = 0; c < S::COLUMNS; ++c)
      if (row + r * P::LANES_M < item.m && column + c * P::LANES_N < item.n)
        *reinterpret_cast<Pack<T, 1>*>(to + r * P::LANES_M * out.pitch + c * P::LANES_N) = {scales.product(sums[r][c])};
}

template <class P, class Arguments>
MANSARD_DEVICE void ragged_lanes(const Arguments& x) {
  using S = RaggedLanes<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const int warp = threadIdx.x / 32, team = threadIdx.x % 32 / S::TEAM, rank = threadIdx.x % S::TEAM;
  T* const place_a = reinterpret_cast<T*>(arena) + (warp * S::TEAMS + team) * 2 * S::PLACE;
  T* const place_b = place_a + S::PLACE;
  const Scales scales{x.alpha_re, x.alpha_im, x.beta_re, x.beta_im};
  const i64 end = x.starts[P::CLASS + 1], step = static_cast<i64>(gridDim.x) * P::WARPS * S::TEAMS;
  i64 first = x.starts[P::CLASS] + (static_cast<i64>(blockIdx.x) * P::WARPS + warp) * S::TEAMS;
  const auto item_at = [&](i64 i) { return i < end ? x.items[i] : Item{}; };

  Item next = item_at(first + team);
  for (; first < end; first += step) {
    const Item item = next;
    const int deep = max(item.k, 0);
    const Laid<T> a = P::TRANS_A ? Laid<T>(deep, item.m) : Laid<T>(item.m, deep);
    const Laid<T> b = P::TRANS_B ? Laid<T>(item.n, deep) : Laid<T>(deep, item.n);
    a.template fill<S::TEAM>(place_a, x.A + item.a, rank);
    b.template fill<S::TEAM>(place_b, x.B + item.b, rank);
    cp_async_commit();
    next = item_at(first + step + team);
    cp_async_wait<0>();
    __syncwarp();
    lanes_product<P>(item, place_a, place_b, a, b, scales, rank);
    __syncwarp();
    Laid<T>(item.m, item.n).template store<S::TEAM, P::ACCUMULATE>(x.C + item.c, place_a, scales, rank);
    __syncwarp();
  }
}

}  // namespace mansard
