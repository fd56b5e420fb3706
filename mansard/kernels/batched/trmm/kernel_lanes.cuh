// X = alpha A B for a batch of tiny triangles A: a team of LANES_M x LANES_N lanes of one warp per product.
//
// Team. A warp takes GROUP consecutive matrices, PER_TEAM per team; a lane has every LANES_M-th row and every
// LANES_N-th column of X, in registers (triangle_tile.cuh). A group is copied to shared memory 16 bytes at a time, and X
// returns through shared memory, so that global memory sees full lines in both directions. Warps do not communicate.
//
// Shared memory: common A and B (SHARED_A, SHARED_B), then per warp (OF_WARP) STAGES stages of an A image and a B
// image, then an X image. OUT back: X replaces B in its stage instead.
//
// Barriers (barrier -> buffer -> writer):
//   once per block: __syncthreads -> common A, B -> copies of other threads
//   wait for copies     __syncwarp -> A and B images of the stage -> copies of other lanes
//   OUT back            __syncwarp -> B image -> X of other lanes
//   products formed     __syncwarp -> X image -> other lanes;  A and B images -> the next copies
//   X stored            __syncwarp -> X image -> the next X, or (OUT back) the next copies
//
// X may lie where B does: a group's B has been copied before its X is stored, and no other group reads it.
//
// Limits: memory bandwidth, in units of 64 bytes, of which a triangle's lines need more than their entries fill.
//
//   LANES_M x LANES_N  lanes of a team, along the rows and the columns of X
//   PER_TEAM           matrices of a group per team, one after the other
//   STAGES             groups in flight per warp; 1: warps come and go, and other warps hide the copies
//   OUT                where X is gathered: in the place of B (back), or in a place of its own
//   WARPS              warps per block
//   TRIANGLE           copy only the referenced triangle of A
//   SHARED_A, SHARED_B the operand is one matrix for all, copied once per block
#pragma once
#include "kernels/batched/trmm/triangle_tile.cuh"
#include "kernels/batched/trsm/triangles.cuh"

namespace mansard {

template <class P>
struct TrmmLanesShape {
  using T = typename P::T;
  static constexpr bool ROW_MAJOR_B = P::LAYOUT_B != Layout::col, ROW_MAJOR_X = P::LAYOUT_X != Layout::col;
  static constexpr int TEAM = P::LANES_M * P::LANES_N, TEAMS = 32 / TEAM;
  static constexpr int GROUP = TEAMS * P::PER_TEAM, THREADS = P::WARPS * 32;
  using A = Image<T, P::N, P::N, P::SHARED_A ? 1 : GROUP, P::FEED_A, P::ALIGNED, P::PITCH_A, P::MATRIX_A>;
  using B = Image<T, ROW_MAJOR_B ? P::N : P::NRHS, ROW_MAJOR_B ? P::NRHS : P::N, P::SHARED_B ? 1 : GROUP, P::FEED_B,
                  P::ALIGNED, P::PITCH_B, P::MATRIX_B>;
  using X = Image<T, ROW_MAJOR_X ? P::N : P::NRHS, ROW_MAJOR_X ? P::NRHS : P::N, GROUP, P::FEED_X, P::ALIGNED,
                  P::PITCH_X, P::MATRIX_X>;
  static constexpr bool BACK = P::OUT == Out::back;
  static_assert(!BACK || !P::SHARED_B, "B is needed again");
  static constexpr bool SAME = B::MATRIX == X::MATRIX && B::LINES * B::PITCH == X::LINES * X::PITCH;
  static_assert(!BACK || P::PER_TEAM == 1 || SAME && !X::SHIFTED && !B::SHIFTED, "X would overwrite the B of others");
  static constexpr int PLACE_B = BACK && X::BYTES > B::BYTES ? X::BYTES : B::BYTES;
  static constexpr int STAGE = (P::SHARED_A ? 0 : A::BYTES) + (P::SHARED_B ? 0 : PLACE_B);
  static constexpr int COMMON = (P::SHARED_A ? A::BYTES : 0) + (P::SHARED_B ? B::BYTES : 0);
  static constexpr int OF_WARP = P::STAGES * STAGE + (BACK ? 0 : X::BYTES);
  static_assert(COMMON + P::WARPS * OF_WARP <= P::SHARED_BYTES, "shared memory");
  static_assert(TEAMS * TEAM == 32 && P::STAGES >= 1);
};

template <class P, class Arguments>
MANSARD_DEVICE void trmm_lanes(const Arguments& arguments) {
  using S = TrmmLanesShape<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const System<P, Arguments> system(arguments);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, team = lane / S::TEAM;
  T* common_a = reinterpret_cast<T*>(arena);
  T* common_b = reinterpret_cast<T*>(arena + (P::SHARED_A ? S::A::BYTES : 0));
  unsigned char* mine = arena + S::COMMON + warp * S::OF_WARP;
  const auto place_a = [&](int stage) { return reinterpret_cast<T*>(mine + stage * S::STAGE); };
  const auto place_b = [&](int stage) {
    return reinterpret_cast<T*>(mine + stage * S::STAGE + (P::SHARED_A ? 0 : S::A::BYTES));
  };
  if constexpr (P::SHARED_A || P::SHARED_B) {
    if (!system.vanishes) {
      if constexpr (P::SHARED_A) S::A::template fill<S::THREADS>(common_a, system.A, 0, 1, 1, threadIdx.x);
      if constexpr (P::SHARED_B) S::B::template fill<S::THREADS>(common_b, system.B, 0, 1, 1, threadIdx.x);
    }
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();  // common A and B: the copies of all threads have arrived
  }

  const i64 batch = arguments.BATCH, step = static_cast<i64>(gridDim.x) * P::WARPS * S::GROUP;
  i64 first = (static_cast<i64>(blockIdx.x) * P::WARPS + warp) * S::GROUP;
  const auto count = [&](i64 group) { return batch - group < S::GROUP ? static_cast<int>(batch - group) : S::GROUP; };
  const auto fill = [&](int stage, i64 group) {
    if (group < batch && !system.vanishes) {
      if constexpr (P::TRIANGLE)
        fill_triangles<typename S::A, (P::LAYOUT_A == Layout::col) == P::UPPER, 32>(place_a(stage), system.A, group,
                                                                                    count(group), batch, lane);
      else if constexpr (!P::SHARED_A)
        S::A::template fill<32>(place_a(stage), system.A, group, count(group), batch, lane);
      if constexpr (!P::SHARED_B) S::B::template fill<32>(place_b(stage), system.B, group, count(group), batch, lane);
    }
    cp_async_commit();
  };
  MANSARD_UNROLL
  for (int stage = 0; stage < P::STAGES; ++stage) fill(stage, first + stage * step);

  TriangleTile<P, P::N, P::NRHS, P::LANES_M, P::LANES_N, typename S::A, typename S::B> tile(lane % S::TEAM);
  int stage = 0;
MANSARD_UNROLL_BY(1)
  for (; first < batch; first += step) {
    cp_async_wait<P::STAGES - 1>();
    __syncwarp();  // A and B images of this stage: the copies of all lanes have arrived
    const T* A = P::SHARED_A ? common_a : S::A::origin(place_a(stage), system.A, first) + team * S::A::MATRIX;
    const T* B = P::SHARED_B ? common_b : S::B::origin(place_b(stage), system.B, first) + team * S::B::MATRIX;
    T* out = S::BACK ? place_b(stage) : reinterpret_cast<T*>(mine + P::STAGES * S::STAGE);
    T* X = S::X::origin(out, system.X, first) + team * S::X::MATRIX;
    MANSARD_UNROLL
    for (int i = 0; i < P::PER_TEAM; ++i) {
      tile.clear();
      if (!system.vanishes)
        tile.template multiply_triangle<P::N>(A + (P::SHARED_A ? 0 : i * S::TEAMS * S::A::MATRIX),
                                              B + (P::SHARED_B ? 0 : i * S::TEAMS * S::B::MATRIX));
      if constexpr (S::BACK) __syncwarp();  // B image is about to be overwritten by X; all lanes have read it
      tile.template lay_down<typename S::X>(X + i * S::TEAMS * S::X::MATRIX, system.scales);
    }
    __syncwarp();  // X image is complete; A and B images are about to be overwritten by the next copies
    if constexpr (!S::BACK) fill(stage, first + P::STAGES * step);
    S::X::template store<32, false>(out, system.X, first, count(first), system.scales, lane);
    __syncwarp();  // X image is about to be overwritten by the next copies (OUT back) or the next X; all have stored it
    if constexpr (S::BACK) fill(stage, first + P::STAGES * step);
    if (++stage == P::STAGES) stage = 0;
  }
}

}  // namespace mansard
