// F = -A^H G A^H (inverse), or A G A^H (congruence), for a batch of tiny matrices: LANES_M x LANES_N lanes per matrix.
//
// The right product T = G A^H is formed in registers (gemm's lane_tile.cuh) and goes to the left one through shared
// memory, so that global memory sees A and G once and F once. A warp takes GROUP consecutive matrices, one per team.
//
// Shared memory, per warp (OF_WARP bytes): images of A, of G (image.cuh), and of T, which F replaces.
//
// Barriers, of the warp:
//   1  A and G images: the copies of all lanes have arrived
//   2  T image is complete, written by all lanes of a team
//   3  T image is about to be overwritten by F; all lanes have formed their products
//   4  F image is complete
//
// Limits: memory bandwidth, up to the pipe of shared memory.
//
//   LANES_M x LANES_N  lanes of a team
//   WARPS              per block
#pragma once
#include "kernels/batched/gemm/lane_tile.cuh"
#include "kernels/factor/gradients/operands.cuh"

namespace mansard {

// Layout of the transpose of an image.
MANSARD_DEVICE constexpr Layout transposed(Layout layout) { return layout == Layout::col ? Layout::row : Layout::col; }

template <class P>
struct GradientProducts {
  using T = typename P::T;
  static constexpr int N = P::N, TEAM = P::LANES_M * P::LANES_N, GROUP = 32 / TEAM;
  static constexpr bool INVERSE = P::GRADIENT == Gradient::inverse;
  using A = ImageOf<T, P::LAYOUT_A, N, N, GROUP, P::FEED_A, P::ALIGNED, P::PITCH_A, P::MATRIX_A>;
  using G = ImageOf<T, P::LAYOUT_G, N, N, GROUP, P::FEED_G, P::ALIGNED, P::PITCH_G, P::MATRIX_G>;
  using F = ImageOf<T, Layout::row, N, N, GROUP, P::FEED_F, P::ALIGNED, P::PITCH_F, P::MATRIX_F>;
  struct Right {  // G A^H
    using T = typename P::T;
    static constexpr Layout LAYOUT_A = P::LAYOUT_G, LAYOUT_B = transposed(P::LAYOUT_A);
    static constexpr bool CONJ_A = false, CONJ_B = true;
  };
  struct Left {  // A^H T, or A T
    using T = typename P::T;
    static constexpr Layout LAYOUT_A = INVERSE ? transposed(P::LAYOUT_A) : P::LAYOUT_A, LAYOUT_B = Layout::row;
    static constexpr bool CONJ_A = INVERSE, CONJ_B = false;
  };
  static constexpr int OF_WARP = A::BYTES + G::BYTES + F::BYTES;
  static_assert(GROUP * TEAM == 32);
  static_assert(P::WARPS * OF_WARP <= P::SHARED_BYTES, "shared memory");
};

template <class P, class Arguments>
MANSARD_DEVICE void gradients_products(const Arguments& arguments) {
  using S = GradientProducts<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const GradientOperands<P, Arguments> operands(arguments);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, team = lane / S::TEAM;
  const i64 batch = arguments.BATCH, first = (static_cast<i64>(blockIdx.x) * P::WARPS + warp) * S::GROUP;
  if (first >= batch) return;
  const int count = batch - first < S::GROUP ? static_cast<int>(batch - first) : S::GROUP;
  unsigned char* mine = arena + warp * S::OF_WARP;
  T* place_a = reinterpret_cast<T*>(mine);
  T* place_g = reinterpret_cast<T*>(mine + S::A::BYTES);
  T* place_f = reinterpret_cast<T*>(mine + S::A::BYTES + S::G::BYTES);
  const auto result = place_of(arguments.F, Layout::row, S::N * S::N, S::N, 1);
  S::A::template fill<32>(place_a, operands.A, first, count, batch, lane);
  S::G::template fill<32>(place_g, operands.G, first, count, batch, lane);
  cp_async_commit();
  const T* A = S::A::origin(place_a, operands.A, first) + team * S::A::MATRIX;
  const T* G = S::G::origin(place_g, operands.G, first) + team * S::G::MATRIX;
  T* F = S::F::origin(place_f, result, first) + team * S::F::MATRIX;
  cp_async_wait<0>();
  __syncwarp();  // A and G images: the copies of all lanes have arrived
  {
    LaneTile<typename S::Right, S::N, S::N, P::LANES_M, P::LANES_N, typename S::G, typename S::A> tile(lane % S::TEAM);
    tile.clear();
    tile.template multiply<S::N>(G, A);
    tile.template lay_down<typename S::F>(F, Scales{S::INVERSE ? -1.0 : 1.0, 0.0, 0.0, 0.0});
  }
  __syncwarp();  // T image is complete, written by all lanes of the team
  {
    LaneTile<typename S::Left, S::N, S::N, P::LANES_M, P::LANES_N, typename S::A, typename S::F> tile(lane % S::TEAM);
    tile.clear();
    tile.template multiply<S::N>(A, F);
    __syncwarp();  // T image is about to be overwritten by F; all lanes have formed their products
    tile.template lay_down<typename S::F>(F, Scales{1.0, 0.0, 0.0, 0.0});
  }
  __syncwarp();  // F image is complete, written by all lanes
  S::F::template store<32, false>(place_f, result, first, count, Scales{}, lane);
}

}  // namespace mansard
