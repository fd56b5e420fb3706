// W = conj(A)^-1 G and F = -W Y^H for a batch of tiny systems with few right-hand sides, by one launch.
//
// The elimination is that of lu's kernel_lanes.cuh, whose phases 1 to 4 run here as they are (team, memory map and
// barriers are described there); what follows is W to global memory, and the product of rank NRHS. Complex systems are
// conjugated: A conj(W) = conj(G), where G is conjugated on its way in, and W on its way out.
//
// Shared memory: WARPS regions of lu, then an image of Y per warp. W is what lu calls X, G what it calls B.
//
// Barriers beyond those of lu, all of them of the warp:
//   B image is conjugated      -> lanes that read it as their rows of B (complex numbers)
//   X image is complete        -> all lanes, which multiply by it
//
// Limits: those of lu's elimination, then writing F.
//
//   LANES, ROLLED, WARPS, VIA  as in lu
//   PAIRS                      pieces of 16 bytes of a row of F begin on 16-byte boundaries
#pragma once
#include "kernels/factor/gradients/operands.cuh"
#include "kernels/factor/lu/kernel_lanes.cuh"

namespace mansard {

// Conjugate all numbers of an image.
template <class Image, class T>
MANSARD_DEVICE void conjugate_image(T* memory, int lane) {
MANSARD_UNROLL_BY(1)
  for (int i = lane; i < Image::ELEMENTS; i += 32) memory[i] = conjugate(memory[i]);
}

template <class P, class Arguments>
MANSARD_DEVICE void gradients_solution(const Arguments& arguments) {
  using S = LuLanesShape<P>;
  using T = typename P::T;
  using Y = ImageOf<T, P::LAYOUT_Y, P::N, P::NRHS, S::GROUP, P::FEED_Y, P::ALIGNED, P::PITCH_Y, P::MATRIX_Y>;
  constexpr int N = P::N, VECTOR = P::PAIRS && sizeof(T) < 16 ? 16 / int(sizeof(T)) : 1;
  static_assert(P::WARPS * (S::OF_WARP + Y::BYTES) <= P::SHARED_BYTES && S::OF_WARP % 16 == 0, "shared memory");
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const auto place_of_a = place_of(arguments.A, P::LAYOUT_A, arguments.a_matrix, arguments.a_row, arguments.a_col);
  const auto place_of_g = place_of(arguments.G, P::LAYOUT_B, arguments.g_matrix, arguments.g_row, arguments.g_col);
  const auto place_of_y = place_of(arguments.Y, P::LAYOUT_Y, arguments.y_matrix, arguments.y_row, arguments.y_col);
  const auto place_of_w = place_of(arguments.W, P::LAYOUT_X, N * P::NRHS, P::NRHS, 1);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, team = lane / P::LANES, rank = lane % P::LANES;
  const i64 batch = arguments.BATCH, first = (static_cast<i64>(blockIdx.x) * P::WARPS + warp) * S::GROUP;
  if (first >= batch) return;
  const int count = batch - first < S::GROUP ? static_cast<int>(batch - first) : S::GROUP;
  unsigned char* mine = arena + warp * S::OF_WARP;
  T* place_a = reinterpret_cast<T*>(mine);
  T* place_b = reinterpret_cast<T*>(mine + S::PLACE_A);
  T* place_y = reinterpret_cast<T*>(arena + P::WARPS * S::OF_WARP + warp * Y::BYTES);
  unsigned char* after = mine + (S::INSIDE ? S::CARRIED : S::PLACE_A + S::PLACE_B);
  S::A::template fill<32>(place_a, place_of_a, first, count, batch, lane);
  S::B::template fill<32>(place_b, place_of_g, first, count, batch, lane);
  Y::template fill<32>(place_y, place_of_y, first, count, batch, lane);
  cp_async_commit();
  const Steps<T> steps{reinterpret_cast<int*>(after) + team * S::STEPS, nullptr,
                       reinterpret_cast<Solved<T>*>(after) + team * S::SOLVED};
  T* const from_b = S::B::origin(place_b, place_of_g, first);
  T* const to_x = S::X::origin(place_b, place_of_w, first);
  LuGroup<P> group{S::A::origin(place_a, place_of_a, first) + team * S::A::MATRIX, nullptr,
                   from_b + team * S::B::MATRIX, to_x + team * S::X::MATRIX, steps, place_a, nullptr};
  if constexpr (S::DEALT) group.carried += team * Rows<P, P::LANES>::LINE;
  cp_async_wait<0>();
  __syncwarp();  // A, B and Y images: the copies of all lanes have arrived
  if constexpr (Scalar<T>::COMPLEX) {
    conjugate_image<typename S::B>(place_b, lane);
    __syncwarp();  // B image is conjugated, by all lanes
  }

  int info;
  Determinant<T, P::WANT> determinant;
  if constexpr (S::DEALT) lu_of_team<P>(group, rank, info, determinant);
  else lu_of_one<P>(group, info, determinant);
  __syncwarp();  // X image is complete; from here on lanes read what other lanes wrote
  if constexpr (Scalar<T>::COMPLEX) {
    conjugate_image<typename S::X>(place_b, lane);
    __syncwarp();  // X image holds W, conjugated by all lanes
  }
  const T* y = Y::origin(place_y, place_of_y, first);
  store_matrices<T, N, S::GROUP, VECTOR>(arguments.F + first * (N * N), count, lane, [&](int matrix, int i, int j) {
    T sum = zero<T>();
    MANSARD_UNROLL
    for (int c = 0; c < P::NRHS; ++c) {
      const T w = to_x[matrix * S::X::MATRIX + entry_at<P::LAYOUT_X, S::X::PITCH>(i, c)];
      multiply_subtract<true>(sum, y[matrix * Y::MATRIX + entry_at<P::LAYOUT_Y, Y::PITCH>(j, c)], w);
    }
    return sum;
  });
  S::X::template store<32, false>(place_b, place_of_w, first, count, Scales{}, lane);
}

}  // namespace mansard
