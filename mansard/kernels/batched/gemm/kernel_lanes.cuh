// C = alpha A B + beta C for a batch of tiny matrices: a team of LANES_M x LANES_N lanes of one warp per product.
//
// Team. A warp takes GROUP consecutive matrices, PER_TEAM per team; a lane has every LANES_M-th row and every
// LANES_N-th column of C, in registers (lane_tile.cuh). A group's bytes are adjacent in a packed stack: it is copied to
// shared memory 16 bytes at a time (image.cuh), and C returns through shared memory, so that global memory sees full
// lines in both directions. Warps do not communicate.
//
// Shared memory: common A and B (SHARED_A, SHARED_B), then per warp (OF_WARP) STAGES stages of an A image and a B
// image, then a C image. OUT back: C replaces A in its stage instead.
//
// Barriers (barrier -> buffer -> writer):
//   once per block: __syncthreads -> common A, B -> copies of other threads
//   wait for copies     __syncwarp -> A and B images of the stage -> copies of other lanes
//   OUT back            __syncwarp -> A image -> C of other lanes
//   products formed     __syncwarp -> C image -> other lanes;  A and B images -> the next copies
//   C stored            __syncwarp -> C image -> the next C, or (OUT back) the next copies
//
// Limits: memory bandwidth (98 % of a copy and more to 31 rows of float64, H200). Rows of odd length are limited by the
// pipe of shared memory (94 % busy at 31 rows of float32).
//
//   LANES_M x LANES_N  lanes of a team
//   PER_TEAM           matrices of a group per team, one after the other
//   STAGES             groups in flight per warp; 1: warps come and go, and other warps hide the copies
//   OUT                where C is gathered: in the place of A (back), or in a place of its own
//   WARPS              warps per block
//   SHARED_A, SHARED_B the operand is one matrix for all, copied once per block
#pragma once
#include "kernels/batched/gemm/lane_tile.cuh"
#include "kernels/batched/gemm/operands.cuh"

namespace mansard {

template <class P>
struct LanesShape {
  using T = typename P::T;
  static constexpr bool ROW_MAJOR_A = P::LAYOUT_A != Layout::col, ROW_MAJOR_B = P::LAYOUT_B != Layout::col;
  static constexpr int TEAM = P::LANES_M * P::LANES_N, TEAMS = 32 / TEAM;
  static constexpr int GROUP = TEAMS * P::PER_TEAM, THREADS = P::WARPS * 32;
  using A = Image<T, ROW_MAJOR_A ? P::M : P::K, ROW_MAJOR_A ? P::K : P::M, P::SHARED_A ? 1 : GROUP, P::FEED_A,
                  P::ALIGNED, P::PITCH_A, P::MATRIX_A>;
  using B = Image<T, ROW_MAJOR_B ? P::K : P::N, ROW_MAJOR_B ? P::N : P::K, P::SHARED_B ? 1 : GROUP, P::FEED_B,
                  P::ALIGNED, P::PITCH_B, P::MATRIX_B>;
  using C = Image<T, P::M, P::N, GROUP, P::FEED_C, P::ALIGNED, P::PITCH_C, P::MATRIX_C>;
  static constexpr bool BACK = P::OUT == Out::back;  // C replaces A in its stage
  static_assert(!BACK || !P::SHARED_A, "A is needed again");
  static constexpr bool SAME = A::MATRIX == C::MATRIX && A::LINES * A::PITCH == C::LINES * C::PITCH;
  static_assert(!BACK || P::PER_TEAM == 1 || SAME && !C::SHIFTED && !A::SHIFTED, "C would overwrite the A of others");
  static constexpr int PLACE_A = BACK && C::BYTES > A::BYTES ? C::BYTES : A::BYTES;
  static constexpr int STAGE = (P::SHARED_A ? 0 : PLACE_A) + (P::SHARED_B ? 0 : B::BYTES);
  static constexpr int COMMON = (P::SHARED_A ? A::BYTES : 0) + (P::SHARED_B ? B::BYTES : 0);
  static constexpr int OF_WARP = P::STAGES * STAGE + (BACK ? 0 : C::BYTES);
  static_assert(COMMON + P::WARPS * OF_WARP <= P::SHARED_BYTES, "shared memory");
  static_assert(TEAMS * TEAM == 32 && P::STAGES >= 1);
};

template <class P, class Arguments>
MANSARD_DEVICE void gemm_lanes(const Arguments& arguments) {
  using S = LanesShape<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const Operands<P, Arguments> operands(arguments);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, team = lane / S::TEAM;
  T* common_a = reinterpret_cast<T*>(arena);
  T* common_b = reinterpret_cast<T*>(arena + (P::SHARED_A ? S::A::BYTES : 0));
  unsigned char* mine = arena + S::COMMON + warp * S::OF_WARP;
  const auto place_a = [&](int stage) { return reinterpret_cast<T*>(mine + stage * S::STAGE); };
  const auto place_b = [&](int stage) {
    return reinterpret_cast<T*>(mine + stage * S::STAGE + (P::SHARED_A ? 0 : S::PLACE_A));
  };
  if constexpr (P::SHARED_A) S::A::template fill<S::THREADS>(common_a, operands.A, 0, 1, 1, threadIdx.x);
  if constexpr (P::SHARED_B) S::B::template fill<S::THREADS>(common_b, operands.B, 0, 1, 1, threadIdx.x);
  if constexpr (P::SHARED_A || P::SHARED_B) {
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();  // common A and B: the copies of all threads have arrived
  }

  const i64 batch = arguments.BATCH, step = static_cast<i64>(gridDim.x) * P::WARPS * S::GROUP;
  i64 first = (static_cast<i64>(blockIdx.x) * P::WARPS + warp) * S::GROUP;
  const auto count = [&](i64 group) { return batch - group < S::GROUP ? static_cast<int>(batch - group) : S::GROUP; };
  const auto fill = [&](int stage, i64 group) {
    if (group < batch) {
      if constexpr (!P::SHARED_A) S::A::template fill<32>(place_a(stage), operands.A, group, count(group), batch, lane);
      if constexpr (!P::SHARED_B) S::B::template fill<32>(place_b(stage), operands.B, group, count(group), batch, lane);
    }
    cp_async_commit();
  };
  MANSARD_UNROLL
  for (int stage = 0; stage < P::STAGES; ++stage) fill(stage, first + stage * step);

  LaneTile<P, P::M, P::N, P::LANES_M, P::LANES_N, typename S::A, typename S::B> tile(lane % S::TEAM);
  int stage = 0;
MANSARD_UNROLL_BY(1)
  for (; first < batch; first += step) {
    cp_async_wait<P::STAGES - 1>();
    __syncwarp();  // A and B images of this stage: the copies of all lanes have arrived
    const T* A = P::SHARED_A ? common_a : S::A::origin(place_a(stage), operands.A, first) + team * S::A::MATRIX;
    const T* B = P::SHARED_B ? common_b : S::B::origin(place_b(stage), operands.B, first) + team * S::B::MATRIX;
    T* out = S::BACK ? place_a(stage) : reinterpret_cast<T*>(mine + P::STAGES * S::STAGE);
    T* C = S::C::origin(out, operands.C, first) + team * S::C::MATRIX;
    MANSARD_UNROLL
    for (int i = 0; i < P::PER_TEAM; ++i) {
      tile.clear();
      tile.template multiply<P::K>(A + (P::SHARED_A ? 0 : i * S::TEAMS * S::A::MATRIX),
                                   B + (P::SHARED_B ? 0 : i * S::TEAMS * S::B::MATRIX));
      if constexpr (S::BACK) __syncwarp();  // A image is about to be overwritten by C; all lanes have read it
      tile.template lay_down<typename S::C>(C + i * S::TEAMS * S::C::MATRIX, operands.scales);
    }
    __syncwarp();  // C image is complete; A and B images are about to be overwritten by the next copies
    if constexpr (!S::BACK) fill(stage, first + P::STAGES * step);
    S::C::template store<32, P::ACCUMULATE>(out, operands.C, first, count(first), operands.scales, lane);
    __syncwarp();  // C image is about to be overwritten by the next copies (OUT back) or the next C; all have stored it
    if constexpr (S::BACK) fill(stage, first + P::STAGES * step);
    if (++stage == P::STAGES) stage = 0;
  }
}

}  // namespace mansard
