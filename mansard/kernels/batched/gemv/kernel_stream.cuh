// y = alpha A x + beta y for a batch of matrices of any size, loaded from global memory straight into registers.
//
// Team. WARPS_M x WARPS_N warps take one matrix, or WARPS_M * LANES_M * TILE_M runs of its rows. A run is VECTOR
// adjacent rows of a column-major A, or one row of a row-major one (then VECTOR adjacent columns are loaded at once). A
// lane has TILE_M * UNROLL loads in flight before it uses any. Sums over lanes are added by shuffles, sums over warps
// in shared memory (`partial`, WARPS_N * OF_TEAM runs), always in the same order. Barriers, WARPS_N > 1 (__syncthreads
// -> buffer -> writer): partial -> other warps, before it is summed;  partial, read by all -> sums of the next item.
//
// Limits: memory bandwidth (88 to 98 % of the read bandwidth, float64, H200).
//
//   LANES_M x LANES_N  the 32 lanes of a warp, along the rows and along the columns of A
//   TILE_M, UNROLL     loads in flight, along the rows and along the columns
//   WARPS_M, WARPS_N   warps of a team, along the rows and along the columns
//   PER_BLOCK          teams per block
#pragma once
#include "kernels/batched/gemv/operands.cuh"

namespace mansard {

template <class P>
struct StreamShape {
  using T = typename P::T;
  static constexpr bool ROW_MAJOR = P::LAYOUT_A != Layout::col;
  static constexpr int VM = ROW_MAJOR ? 1 : P::VECTOR, VK = ROW_MAJOR ? P::VECTOR : 1;
  static constexpr int NEXT_M = ROW_MAJOR ? P::LANES_N : 1, NEXT_N = ROW_MAJOR ? 1 : P::LANES_M;
  static constexpr int WARPS = P::WARPS_M * P::WARPS_N;
  static constexpr int ROWS = P::M / VM, COLUMNS = P::K / VK;             // rows and columns of A, in runs
  static constexpr int OF_WARP = P::LANES_M * P::TILE_M;                  // runs of rows per warp
  static constexpr int OF_TEAM = P::WARPS_M * OF_WARP, PARTS = ceil_div(ROWS, OF_TEAM);
  static constexpr int ACROSS = P::WARPS_N * P::LANES_N, STEPS = ceil_div(ceil_div(COLUMNS, ACROSS), P::UNROLL);
  static constexpr bool EVEN = COLUMNS % (ACROSS * P::UNROLL) == 0;
  using Sums = LaneSums<T, P::TILE_M * VM, P::LANES_N, NEXT_N>;
  static_assert(P::M % VM == 0 && P::K % VK == 0 && P::LANES_M * P::LANES_N == 32);
  static_assert(P::WARPS_N == 1 || P::PER_BLOCK == 1, "a block is a team where warps share rows");
  static_assert(P::WARPS_N == 1 || P::WARPS_N * OF_TEAM * VM * int(sizeof(T)) <= P::SHARED_BYTES, "shared memory");
};

// Add the products of a lane's rows and columns to `sums`. `A` points to the lane's first run of rows; `last` is the
// distance to the last run that exists.
template <class P, class PlaceA, class PlaceX>
MANSARD_DEVICE void add_products(typename StreamShape<P>::Sums& sums, const typename P::T* A, const PlaceA& place,
                                 const typename P::T* x, const PlaceX& vector, int last, int column) {
  using S = StreamShape<P>;
  using T = typename P::T;
  using Run = Pack<T, P::VECTOR>;
  // strides of runs; beyond the last row, the last one is loaded again
  const i64 row = S::ROW_MAJOR ? place.line : place.step * S::VM, next = S::ROW_MAJOR ? place.step : place.line;
MANSARD_UNROLL_BY(1)
  for (int step = 0; step < S::STEPS; ++step, column += S::ACROSS * P::UNROLL) {
    Run runs[P::UNROLL][P::TILE_M];
    T factors[P::UNROLL][S::VK];
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u) {
      // beyond the last column, the last one is loaded again and not used: conditional loads would not overlap
      const int at = S::EVEN ? column + u * S::ACROSS : min(column + u * S::ACROSS, S::COLUMNS - 1);
      MANSARD_UNROLL
      for (int t = 0; t < P::TILE_M; ++t)
        runs[u][t] = load_pack<P::VECTOR, P::ALIGNED>(A + min(t * P::LANES_M, last) * row + at * S::VK * next);
      MANSARD_UNROLL
      for (int i = 0; i < S::VK; ++i) factors[u][i] = x[(at * S::VK + i) * vector.step];
    }
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u) {
      const bool there = S::EVEN || column + u * S::ACROSS < S::COLUMNS;
      MANSARD_UNROLL
      for (int i = 0; i < S::VK; ++i) factors[u][i] = there ? factors[u][i] : zero<T>();
      MANSARD_UNROLL
      for (int t = 0; t < P::TILE_M; ++t) {
        MANSARD_UNROLL
        for (int i = 0; i < P::VECTOR; ++i) {
          const T factor = factors[u][S::ROW_MAJOR ? i : 0], entry = there ? runs[u][t].e[i] : zero<T>();
          multiply_add<P::CONJ_A>(sums.value[t * S::VM + (S::ROW_MAJOR ? 0 : i)], entry,
                                  P::CONJ_B ? conjugate(factor) : factor);
        }
      }
    }
  }
}

template <class P, class Arguments>
MANSARD_DEVICE void gemv_stream(const Arguments& arguments) {
  using S = StreamShape<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(T, partial);
  const VectorOperands<P, Arguments> operands(arguments);
  const int team = threadIdx.x / (32 * S::WARPS), warp = threadIdx.x / 32 % S::WARPS, lane = threadIdx.x % 32;
  const int warp_n = warp % P::WARPS_N, warp_m = warp / P::WARPS_N;
  const int m = warp_m * S::OF_WARP + lane / S::NEXT_M % P::LANES_M, n = lane / S::NEXT_N % P::LANES_N;
  const i64 items = arguments.BATCH * S::PARTS, step = static_cast<i64>(gridDim.x) * P::PER_BLOCK;
  const auto write = [&](T* y, int row, T sum) {
    T* to = y + row * operands.y.step;
    const T product = operands.scales.product(sum);
    *to = P::ACCUMULATE ? operands.scales.with_old(product, *to) : product;
  };
MANSARD_UNROLL_BY(1)
  for (i64 item = static_cast<i64>(blockIdx.x) * P::PER_BLOCK + team; item < items; item += step) {
    const i64 index = item / S::PARTS;
    const int begin = static_cast<int>(item % S::PARTS) * S::OF_TEAM, run = begin + m, from = min(run, S::ROWS - 1);
    const T* A = matrix_at(operands.A.base, operands.A.matrix, index);
    const T* x = matrix_at(operands.x.base, operands.x.matrix, index);
    T* y = matrix_at(operands.y.base, operands.y.matrix, index);
    typename S::Sums sums;
    sums.clear();
    const i64 stride = S::ROW_MAJOR ? operands.A.line : operands.A.step * S::VM;
    add_products<P>(sums, A + from * stride, operands.A, x, operands.x, S::ROWS - 1 - from, warp_n * P::LANES_N + n);
    sums.agree(lane);
    MANSARD_UNROLL
    for (int i = 0; i < S::Sums::LEFT; ++i) {
      const int at = sums.first + i, mine = run + at / S::VM * P::LANES_M;
      if (!sums.mine || mine >= S::ROWS) continue;
      if constexpr (P::WARPS_N == 1) write(y, mine * S::VM + at % S::VM, sums.value[i]);
      else partial[(warp_n * S::OF_TEAM + mine - begin) * S::VM + at % S::VM] = sums.value[i];
    }
    if constexpr (P::WARPS_N > 1) {
      __syncthreads();  // partial is complete, written by all warps
      const int rows = min(S::OF_TEAM, S::ROWS - begin) * S::VM;
      for (int i = threadIdx.x; i < rows; i += 32 * S::WARPS) {
        T sum = partial[i];
        MANSARD_UNROLL
        for (int w = 1; w < P::WARPS_N; ++w) add_to(sum, partial[w * S::OF_TEAM * S::VM + i]);
        write(y, begin * S::VM + i, sum);
      }
      __syncthreads();  // partial is about to be overwritten by the next item; all threads have read it
    }
  }
}

}  // namespace mansard
