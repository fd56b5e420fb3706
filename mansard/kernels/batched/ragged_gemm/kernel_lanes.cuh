// Products of one size class of a ragged batch, none larger than WIDTH: LANES_M x LANES_N lanes of a warp per product.
//
// Team. Persistent warps take 32 / (LANES_M * LANES_N) products of the sorted list at a time. A lane has every
// LANES_M-th row and every LANES_N-th column of C in registers. Beyond the end of an operand whatever is there is
// multiplied, and the result is not stored.
//
// Shared memory of a team: STAGES stages of a place for A and one for B (PLACE elements each). C leaves in full lines
// through A's place.
//
// Barriers (__syncwarp -> buffer -> writer):
//   after the copies     -> A and B -> copies of other lanes
//   products formed      -> A's place -> C of other lanes;  then -> C -> other lanes, before it is stored
//   C stored             -> the stage -> the next copies
//
//   CLASS, WIDTH      part of the list, and the most rows or columns in it
//   LANES_M, LANES_N  lanes of a team, along the rows and the columns of C
//   WARPS, STAGES     warps per block; products in flight: with two, the next one is copied during this one
//   TRANS_A|B, CONJ_A|B, ACCUMULATE
#pragma once
#include "kernels/batched/ragged_gemm/items.cuh"
#include "kernels/batched/ragged_gemm/laid.cuh"

namespace mansard {

template <class P>
struct RaggedLanes {
  using T = typename P::T;
  static constexpr int TEAM = P::LANES_M * P::LANES_N, TEAMS = 32 / TEAM;
  static constexpr int ROWS = ceil_div(P::WIDTH, P::LANES_M), COLUMNS = ceil_div(P::WIDTH, P::LANES_N);
  using Matrix = Laid<T, P::WIDTH>;
  static constexpr int PLACE = Matrix::MOST;
  static_assert(32 % TEAM == 0 && P::LANES_M * ROWS == P::WIDTH && P::LANES_N * COLUMNS == P::WIDTH, "even shares");
  static_assert(P::STAGES == 1 || P::STAGES == 2, "one, or one and the next");
  static_assert(P::WARPS * TEAMS * P::STAGES * 2 * PLACE * int(sizeof(T)) <= P::SHARED_BYTES, "shared memory");
};

template <class P, class S = RaggedLanes<P>, class T = typename P::T>
MANSARD_DEVICE void lanes_product(const Item& item, const T* A, const T* B, const typename S::Matrix& a,
                                  const typename S::Matrix& b, T* C, int pitch, const Scales& scales, int rank) {
  const int row = rank / P::LANES_N, column = rank % P::LANES_N;
  T sums[S::ROWS][S::COLUMNS];
  MANSARD_UNROLL
  for (int i = 0; i < S::ROWS * S::COLUMNS; ++i) sums[i / S::COLUMNS][i % S::COLUMNS] = Start<T>::of(item);
  // strides of op(A) along rows and along k, and of op(B) along columns and along k
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
  __syncwarp();  // A's place is about to be overwritten by C; all lanes have read A
  T* to = C + row * pitch + column;
  MANSARD_UNROLL
  for (int r = 0; r < S::ROWS; ++r)
    MANSARD_UNROLL
    for (int c = 0; c < S::COLUMNS; ++c)
      if (row + r * P::LANES_M < item.m && column + c * P::LANES_N < item.n)
        *reinterpret_cast<Pack<T, 1>*>(to + r * P::LANES_M * pitch + c * P::LANES_N) = {scales.product(sums[r][c])};
}

template <class P, class Arguments>
MANSARD_DEVICE void ragged_lanes(const Arguments& x) {
  using S = RaggedLanes<P>;
  using T = typename P::T;
  using Matrix = typename S::Matrix;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const int warp = threadIdx.x / 32, team = threadIdx.x % 32 / S::TEAM, rank = threadIdx.x % S::TEAM;
  T* const places = reinterpret_cast<T*>(arena) + (warp * S::TEAMS + team) * P::STAGES * 2 * S::PLACE;
  const Scales scales{x.alpha_re, x.alpha_im, x.beta_re, x.beta_im};
  const i64 end = x.starts[P::CLASS + 1], step = static_cast<i64>(gridDim.x) * P::WARPS * S::TEAMS;
  i64 first = x.starts[P::CLASS] + (static_cast<i64>(blockIdx.x) * P::WARPS + warp) * S::TEAMS;
  const auto item_at = [&](i64 i) { return i < end ? x.items[i] : Item{}; };
  const auto a_of = [](const Item& item) {
    return P::TRANS_A ? Matrix(max(item.k, 0), item.m) : Matrix(item.m, max(item.k, 0));
  };
  const auto b_of = [](const Item& item) {
    return P::TRANS_B ? Matrix(item.n, max(item.k, 0)) : Matrix(max(item.k, 0), item.n);
  };
  const auto fill = [&](const Item& item, T* place) {
    a_of(item).template fill<S::TEAM>(place, x.A + item.a, rank);
    b_of(item).template fill<S::TEAM>(place + S::PLACE, x.B + item.b, rank);
    cp_async_commit();
  };

  Item item = item_at(first + team), next = item_at(first + step + team);
  int stage = 0;
  if constexpr (P::STAGES == 2) fill(item, places);
  for (; first < end; first += step) {
    T* const place = places + stage * 2 * S::PLACE;
    if constexpr (P::STAGES == 2) fill(next, places + (1 - stage) * 2 * S::PLACE);
    else fill(item, place);
    const Item after = item_at(first + 2 * step + team);
    cp_async_wait<P::STAGES - 1>();
    __syncwarp();  // A and B of this stage: the copies of all lanes have arrived
    const Matrix a = a_of(item), b = b_of(item), c(item.m, item.n);
    T* const C = x.C + item.c;
    lanes_product<P>(item, place + a.shift(x.A + item.a), place + S::PLACE + b.shift(x.B + item.b), a, b,
                     place + c.shift(C), c.pitch, scales, rank);
    __syncwarp();  // C is complete in A's place, written by all lanes of the team
    c.template store<S::TEAM, P::ACCUMULATE>(C, place, scales, rank);
    __syncwarp();  // this stage is about to be overwritten by the next copies; all lanes have stored C
    item = next, next = after;
    if constexpr (P::STAGES == 2) stage = 1 - stage;
  }
}

}  // namespace mansard
