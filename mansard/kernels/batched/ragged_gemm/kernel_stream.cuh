// Matrices times vectors, one class of a ragged batch, of any size: loaded from global memory straight into registers.
//
// Persistent blocks; SLOTS of them share a product, and every warp works on its own share. If rows of op(A) are
// adjacent in memory, a warp takes ROWS of them (more if they are short), with lanes along the columns, and sums across
// lanes at the end. If columns are, it takes as many as fill a line of 128 bytes and goes down. Loads of UNROLL steps
// are in flight before any is used. Which warp takes the first share changes from product to product (`beginner`), so
// that none has more work than the others. No shared memory, no barriers.
//
//   CLASS         part of the list
//   SLOTS, WARPS  blocks per product, and warps per block
//   ROWS, UNROLL  loads in flight, along the rows and along the columns
//   SWAPPED       C is a row: op(B)^T times A
//   TRANS_A|B, CONJ_A|B, ACCUMULATE
#pragma once
#include "kernels/batched/gemv/operands.cuh"
#include "kernels/batched/ragged_gemm/items.cuh"

namespace mansard {

template <class P>
struct RaggedStream {
  using T = typename P::T;
  static constexpr bool TRANS = P::SWAPPED ? !P::TRANS_B : P::TRANS_A;
  static constexpr bool CONJ_A = P::SWAPPED ? P::CONJ_B : P::CONJ_A, CONJ_X = P::SWAPPED ? P::CONJ_A : P::CONJ_B;
  static constexpr int LOADS = P::ROWS * P::UNROLL, SHARES = P::SLOTS * P::WARPS;
  static constexpr int LINE = 16 / (int(sizeof(T)) > 8 ? 2 : 1);  // lanes side by side in `down`

  const T *A, *x;
  T* y;
  const int rows, deep, share, lane;
  const bool misfit;
  const Scales& scales;

  static MANSARD_DEVICE T load(const T* from) { return reinterpret_cast<const Pack<T, 1>*>(from)->e[0]; }
  static MANSARD_DEVICE T factor(const T* from) { return CONJ_X ? conjugate(load(from)) : load(from); }

  MANSARD_DEVICE void write(int row, T sum) const {
    if (misfit) sum = Start<T>::of(true);
    T product = scales.product(sum);
    if constexpr (P::ACCUMULATE) product = scales.with_old(product, y[row]);
    *reinterpret_cast<Pack<T, 1>*>(y + row) = {product};
  }

  // Rows adjacent in memory: ACROSS lanes along the columns, 32 / ACROSS groups of lanes along the rows, ROWS rows
  // each.
  template <int ACROSS, int ROWS, int UNROLL>
  MANSARD_DEVICE void along() const {
    constexpr int APART = 32 / ACROSS, GROUP = APART * ROWS;
    const int column = lane % ACROSS, mine = lane / ACROSS;
MANSARD_UNROLL_BY(1)
    for (int first = share * GROUP; first < rows; first += SHARES * GROUP) {
      LaneSums<T, ROWS, ACROSS, 1> sums;
      sums.clear();
      const T* from = A + static_cast<i64>(first + mine) * deep + column;
MANSARD_UNROLL_BY(1)
      for (int base = column; base - column < deep; base += UNROLL * ACROSS, from += UNROLL * ACROSS) {
        T entries[UNROLL][ROWS], factors[UNROLL];
        MANSARD_UNROLL
        for (int u = 0; u < UNROLL; ++u) {
          const bool there = base + u * ACROSS < deep;
          factors[u] = there ? factor(x + base + u * ACROSS) : zero<T>();
          MANSARD_UNROLL
          for (int r = 0; r < ROWS; ++r)
            entries[u][r] = there && first + mine + r * APART < rows
                                ? load(from + static_cast<i64>(r * APART) * deep + u * ACROSS) : zero<T>();
        }
        MANSARD_UNROLL
        for (int u = 0; u < UNROLL; ++u)
          MANSARD_UNROLL
          for (int r = 0; r < ROWS; ++r) multiply_add<CONJ_A>(sums.value[r], entries[u][r], factors[u]);
      }
      sums.agree(lane);
      MANSARD_UNROLL
      for (int i = 0; i < sums.LEFT; ++i) {
        const int row = first + mine + (sums.first + i) * APART;
        if (sums.mine && row < rows) write(row, sums.value[i]);
      }
    }
  }

  // Columns adjacent in memory: WIDE lanes side by side; the 32 / WIDE groups of lanes take different lines of memory.
  template <int WIDE>
  MANSARD_DEVICE void down() const {
    constexpr int PARTS = 32 / WIDE, UNROLL = LOADS < 16 ? LOADS : 16;
    const int part = lane / WIDE;
MANSARD_UNROLL_BY(1)
    for (int first = share * WIDE; first < rows; first += SHARES * WIDE) {
      const int row = first + lane % WIDE;  // row of op(A)
      LaneSums<T, 1, PARTS, WIDE> sums;
      sums.clear();
      const T* from = A + static_cast<i64>(part) * rows + row;
MANSARD_UNROLL_BY(1)
      for (int base = part; base - part < deep; base += UNROLL * PARTS, from += static_cast<i64>(UNROLL * PARTS) * rows) {
        T entries[UNROLL], factors[UNROLL];
        MANSARD_UNROLL
        for (int u = 0; u < UNROLL; ++u) {
          const bool there = base + u * PARTS < deep;
          factors[u] = there ? factor(x + base + u * PARTS) : zero<T>();
          entries[u] = there && row < rows ? load(from + static_cast<i64>(u * PARTS) * rows) : zero<T>();
        }
        MANSARD_UNROLL
        for (int u = 0; u < UNROLL; ++u) multiply_add<CONJ_A>(sums.value[0], entries[u], factors[u]);
      }
      sums.agree(lane);
      if (sums.mine && row < rows) write(row, sums.value[0]);
    }
  }

  MANSARD_DEVICE void run() const {
    if constexpr (TRANS) {
      if (rows > 4) down<LINE>();
      else down<4>();
    } else {
      if (rows <= 2 && deep > 32) along<32, 2, LOADS / 2>();
      else if (deep > 16) along<32, P::ROWS, P::UNROLL>();
      else if (deep > 8) along<16, P::ROWS, 1>();
      else along<8, P::ROWS, 1>();
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void ragged_stream(const Arguments& x) {
  using S = RaggedStream<P>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const Scales scales{x.alpha_re, x.alpha_im, x.beta_re, x.beta_im};
  const i64 begin = x.starts[P::CLASS], end = (x.starts[P::CLASS + 1] - begin) * P::SLOTS;
  const auto item_at = [&](i64 i) { return i < end ? x.items[begin + i / P::SLOTS] : Item{}; };
  i64 i = blockIdx.x;
  Item next = item_at(i);
MANSARD_UNROLL_BY(1)
  for (; i < end; i += gridDim.x) {
    const Item item = next;
    next = item_at(i + gridDim.x);
    const int slot = static_cast<int>(i % P::SLOTS) * P::WARPS + warp;
    const int share = (slot + beginner(i / P::SLOTS, S::SHARES)) % S::SHARES;
    const S product{P::SWAPPED ? x.B + item.b : x.A + item.a, P::SWAPPED ? x.A + item.a : x.B + item.b, x.C + item.c,
                    P::SWAPPED ? item.n : item.m, max(item.k, 0), share, lane, item.k < 0, scales};
    product.run();
  }
}

}  // namespace mansard
