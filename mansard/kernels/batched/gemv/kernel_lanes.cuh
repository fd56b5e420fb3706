// y = alpha A x + beta y for a batch of small matrices: a team of LANES_M x LANES_N lanes of one warp per product.
//
// Team. A warp takes GROUP consecutive matrices, PER_TEAM per team. Their bytes are adjacent in a packed stack:
// matrices and vectors are copied to shared memory 16 bytes at a time, wherever they begin (gemm/image.cuh), and y
// returns through shared memory, so that global memory sees full lines in both directions. Neighbouring lanes read
// along a row of a row-major A (sums are then added across lanes), along a column of a column-major one. Warps do not
// communicate.
//
// Shared memory: common A and x (SHARED_A, SHARED_B), then per warp (OF_WARP) STAGES stages of an A image and an x
// image, then a y image.
//
// Barriers (barrier -> buffer -> writer):
//   once per block: __syncthreads -> common A, x -> copies of other threads
//   wait for copies   __syncwarp -> A and x images of the stage -> copies of other lanes
//   products formed   __syncwarp -> y image -> other lanes;  A and x images -> the next copies
//   y stored          __syncwarp -> y image -> the next y
//
// Limits: memory bandwidth (88 to 96 % of the read bandwidth, float64, H200).
//
//   LANES_M x LANES_N  lanes of a team, along the rows and along the columns of A
//   PER_TEAM           matrices of a group per team, one after the other
//   STAGES             groups in flight per warp; 1: warps come and go, and other warps hide the copies
//   WARPS              warps per block
//   SHARED_A, SHARED_B A, or x, is one for all, copied once per block
#pragma once
#include "kernels/batched/gemv/operands.cuh"

namespace mansard {

template <class P>
struct LanesShape {
  using T = typename P::T;
  static constexpr bool ROW_MAJOR = P::LAYOUT_A != Layout::col;
  static constexpr int TEAM = P::LANES_M * P::LANES_N, TEAMS = 32 / TEAM;
  static constexpr int GROUP = TEAMS * P::PER_TEAM, THREADS = P::WARPS * 32;
  using A = Image<T, ROW_MAJOR ? P::M : P::K, ROW_MAJOR ? P::K : P::M, P::SHARED_A ? 1 : GROUP, P::FEED_A, P::ALIGNED,
                  P::PITCH_A, P::MATRIX_A>;
  using X = Image<T, 1, P::K, P::SHARED_B ? 1 : GROUP, P::FEED_B, P::ALIGNED, P::PITCH_B, P::MATRIX_B>;
  using Y = Image<T, 1, P::M, GROUP, P::FEED_C, P::ALIGNED, P::PITCH_C, P::MATRIX_C>;
  static constexpr int STAGE = (P::SHARED_A ? 0 : A::BYTES) + (P::SHARED_B ? 0 : X::BYTES);
  static constexpr int COMMON = (P::SHARED_A ? A::BYTES : 0) + (P::SHARED_B ? X::BYTES : 0);
  static constexpr int OF_WARP = P::STAGES * STAGE + Y::BYTES;
  static_assert(COMMON + P::WARPS * OF_WARP <= P::SHARED_BYTES, "shared memory");
  static_assert(TEAMS * TEAM == 32 && P::STAGES >= 1);
};

// One product by a team. Runs of adjacent entries are loaded at once; a tile of rows stays in registers.
template <class P>
struct LaneProduct {
  using S = LanesShape<P>;
  using T = typename P::T;
  static constexpr int RUN = S::A::READ, VM = S::ROW_MAJOR ? 1 : RUN, VK = S::ROW_MAJOR ? RUN : 1;
  static constexpr int ROWS = P::M / VM, COLUMNS = P::K / VK;  // in runs
  static constexpr int OF_LANE = ceil_div(ROWS, P::LANES_M), MOST = 32 / (VM * int(sizeof(T)) / 4);
  static constexpr int TILES = ceil_div(OF_LANE, MOST), TILE = ceil_div(OF_LANE, TILES);  // runs of rows at once
  static constexpr int STEPS = ceil_div(COLUMNS, P::LANES_N);
  static constexpr int ROW = S::ROW_MAJOR ? S::A::PITCH : 1, COLUMN = S::ROW_MAJOR ? 1 : S::A::PITCH;
  static constexpr int NEXT_M = S::ROW_MAJOR ? P::LANES_N : 1, NEXT_N = S::ROW_MAJOR ? 1 : P::LANES_M;
  using Sums = LaneSums<T, TILE * VM, P::LANES_N, NEXT_N>;

  static MANSARD_DEVICE void form(T* y, const T* A, const T* x, const Scales& scales, int lane) {
    const int m = lane / NEXT_M % P::LANES_M, n = lane / NEXT_N % P::LANES_N;
MANSARD_UNROLL_BY(1)
    for (int tile = 0; tile < TILES; ++tile) {
      const int first = tile * TILE * P::LANES_M + m;
      Sums sums;
      sums.clear();
      // beyond the last row, the last one is computed again and not stored
      const auto row = [&](int t) { return min(first + t * P::LANES_M, ROWS - 1) * (VM * ROW); };
MANSARD_UNROLL_BY(4)
      for (int step = 0; step < STEPS; ++step) {
        const int column = step * P::LANES_N + n;
        if (COLUMNS % P::LANES_N != 0 && step + 1 == STEPS && column >= COLUMNS) break;
        T factor[VK];
        MANSARD_UNROLL
        for (int i = 0; i < VK; ++i) factor[i] = P::CONJ_B ? conjugate(x[column * VK + i]) : x[column * VK + i];
        MANSARD_UNROLL
        for (int t = 0; t < TILE; ++t) {
          const auto run = *reinterpret_cast<const Pack<T, RUN>*>(A + row(t) + column * (VK * COLUMN));
          MANSARD_UNROLL
          for (int i = 0; i < RUN; ++i)
            multiply_add<P::CONJ_A>(sums.value[t * VM + (S::ROW_MAJOR ? 0 : i)], run.e[i], factor[S::ROW_MAJOR ? i : 0]);
        }
      }
      sums.agree(lane);
      MANSARD_UNROLL
      for (int i = 0; i < Sums::LEFT; ++i) {
        const int at = sums.first + i, run = first + at / VM * P::LANES_M;
        if (sums.mine && run < ROWS) y[run * VM + at % VM] = scales.product(sums.value[i]);
      }
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void gemv_lanes(const Arguments& arguments) {
  using S = LanesShape<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const VectorOperands<P, Arguments> operands(arguments);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, team = lane / S::TEAM;
  T* common_a = reinterpret_cast<T*>(arena);
  T* common_x = reinterpret_cast<T*>(arena + (P::SHARED_A ? S::A::BYTES : 0));
  unsigned char* mine = arena + S::COMMON + warp * S::OF_WARP;
  T* out = reinterpret_cast<T*>(mine + P::STAGES * S::STAGE);
  const auto place_a = [&](int stage) { return reinterpret_cast<T*>(mine + stage * S::STAGE); };
  const auto place_x = [&](int stage) {
    return reinterpret_cast<T*>(mine + stage * S::STAGE + (P::SHARED_A ? 0 : S::A::BYTES));
  };
  if constexpr (P::SHARED_A) S::A::template fill<S::THREADS>(common_a, operands.A, 0, 1, 1, threadIdx.x);
  if constexpr (P::SHARED_B) S::X::template fill<S::THREADS>(common_x, operands.x, 0, 1, 1, threadIdx.x);
  if constexpr (P::SHARED_A || P::SHARED_B) {
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();  // common A and x: the copies of all threads have arrived
  }

  const i64 batch = arguments.BATCH, step = static_cast<i64>(gridDim.x) * P::WARPS * S::GROUP;
  i64 first = (static_cast<i64>(blockIdx.x) * P::WARPS + warp) * S::GROUP;
  const auto count = [&](i64 group) { return batch - group < S::GROUP ? static_cast<int>(batch - group) : S::GROUP; };
  const auto fill = [&](int stage, i64 group) {
    if (group < batch) {
      if constexpr (!P::SHARED_A) S::A::template fill<32>(place_a(stage), operands.A, group, count(group), batch, lane);
      if constexpr (!P::SHARED_B) S::X::template fill<32>(place_x(stage), operands.x, group, count(group), batch, lane);
    }
    cp_async_commit();
  };
  MANSARD_UNROLL
  for (int stage = 0; stage < P::STAGES; ++stage) fill(stage, first + stage * step);

  int stage = 0;
MANSARD_UNROLL_BY(1)
  for (; first < batch; first += step) {
    cp_async_wait<P::STAGES - 1>();
    __syncwarp();  // A and x images of this stage: the copies of all lanes have arrived
    const T* A = P::SHARED_A ? S::A::origin(common_a, operands.A, 0)
                             : S::A::origin(place_a(stage), operands.A, first) + team * S::A::MATRIX;
    const T* x = P::SHARED_B ? S::X::origin(common_x, operands.x, 0)
                             : S::X::origin(place_x(stage), operands.x, first) + team * S::X::MATRIX;
    T* y = S::Y::origin(out, operands.y, first) + team * S::Y::MATRIX;
    MANSARD_UNROLL
    for (int i = 0; i < P::PER_TEAM; ++i)
      LaneProduct<P>::form(y + i * S::TEAMS * S::Y::MATRIX, A + (P::SHARED_A ? 0 : i * S::TEAMS * S::A::MATRIX),
                           x + (P::SHARED_B ? 0 : i * S::TEAMS * S::X::MATRIX), operands.scales, lane);
    __syncwarp();  // y image is complete; A and x images are about to be overwritten by the next copies
    fill(stage, first + P::STAGES * step);
    S::Y::template store<32, P::ACCUMULATE>(out, operands.y, first, count(first), operands.scales, lane);
    __syncwarp();  // y image is about to be overwritten by the next turn; all lanes have stored it
    if (++stage == P::STAGES) stage = 0;
  }
}

}  // namespace mansard
