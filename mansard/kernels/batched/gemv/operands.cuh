// A, x and y as the gemv kernels see them: vectors are matrices of one line, whose entries are `step` elements apart.
#pragma once
#include "kernels/batched/gemm/image.cuh"

namespace mansard {

template <class P, class Arguments>
struct VectorOperands {
  decltype(place_of(Arguments::A, Layout::row, 0, 0, 0)) A;
  decltype(place_of(Arguments::B, Layout::row, 0, 0, 0)) x;
  decltype(place_of(Arguments::C, Layout::row, 0, 0, 0)) y;
  Scales scales;

  MANSARD_DEVICE VectorOperands(const Arguments& a)
      : A(place_of(a.A, P::LAYOUT_A, a.a_matrix, a.a_row, a.a_col)),
        x(place_of(a.B, Layout::col, a.b_matrix, a.b_row, a.b_col)),
        y(place_of(a.C, Layout::col, a.c_matrix, a.c_row, a.c_col)),
        scales{a.alpha_re, a.alpha_im, a.beta_re, a.beta_im} {}
};

// Load N adjacent elements; 16 bytes at once with a streaming hint (evict first). Complex numbers that are not ALIGNED
// to their own size are loaded part by part.
template <int N, bool ALIGNED, class T>
MANSARD_DEVICE Pack<T, N> load_pack(const T* from) {
  Pack<T, N> pack;
  if constexpr (N == 1 && !ALIGNED) pack.e[0] = *from;
  else if constexpr (sizeof(pack) == 16) *reinterpret_cast<uint4*>(&pack) = __ldcs(reinterpret_cast<const uint4*>(from));
  else pack = *reinterpret_cast<const Pack<T, N>*>(from);
  return pack;
}

// A lane's COUNT sums of products, and their reduction: WIDTH lanes, STEP apart, have sums of the same rows over
// different columns.
template <class T, int COUNT_, int WIDTH, int STEP>
struct LaneSums {
  static constexpr int COUNT = COUNT_;
  // After the reduction a lane has LEFT sums, from number `first` on; among lanes with the same ones, one has `mine`
  // set.
  static constexpr int LEFT = COUNT / gcd(COUNT, WIDTH);
  T value[COUNT];
  int first = 0;
  bool mine = true;

  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int i = 0; i < COUNT; ++i) value[i] = zero<T>();
  }
  static MANSARD_DEVICE T across(T v, int distance) {
    if constexpr (Scalar<T>::COMPLEX)
      return {__shfl_xor_sync(~0u, v.re, distance), __shfl_xor_sync(~0u, v.im, distance)};
    else
      return __shfl_xor_sync(~0u, v, distance);
  }
  // Reduce over the WIDTH lanes. While the number of sums is even, each half of the lanes keeps half of them; an odd
  // number is summed in both halves.
  MANSARD_DEVICE void agree(int lane) { fold<COUNT, WIDTH>(lane); }

  template <int MANY, int LANES>
  MANSARD_DEVICE void fold(int lane) {
    if constexpr (LANES > 1) {
      constexpr int DISTANCE = LANES / 2 * STEP, HALF = MANY / 2;
      const bool upper = lane & DISTANCE;
      if constexpr (MANY % 2 == 0) {
        MANSARD_UNROLL
        for (int i = 0; i < HALF; ++i) {
          const T given = upper ? value[i] : value[i + HALF];
          if (upper) value[i] = value[i + HALF];
          add_to(value[i], across(given, DISTANCE));
        }
        if (upper) first += HALF;
        fold<HALF, LANES / 2>(lane);
      } else {
        MANSARD_UNROLL
        for (int i = 0; i < MANY; ++i) add_to(value[i], across(value[i], DISTANCE));
        mine = mine && !upper;
        fold<MANY, LANES / 2>(lane);
      }
    }
  }
};

}  // namespace mansard
