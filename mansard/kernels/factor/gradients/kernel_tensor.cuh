// F = -A^T G A^T (inverse), or A G A^T (congruence), of float64 matrices on the tensor cores: a warp per matrix.
//
// The right product stays in registers: its transpose W = A G^T is formed as sums of m16n8k4, and the sums of a lane
// are, as they are, the fragments of T = W^T = G A^T in F = op(A) T. With (g, t) = (lane / 4, lane % 4) a lane has
// W[n = g, g + 8][k = c(2t), c(2t + 1)] of a tile, and as fragment of T needs [k][n] with k by t and n by g. Which of
// eight k is c(0), .., c(7) is free: c(p) = p xor (p / 4) lets reads of G by c(g) and of A by c(2t + i) hit different
// banks where lines are an odd multiple of four numbers apart.
//
// Shared memory, per warp (OF_WARP bytes): images of A and G of GROUP consecutive matrices, which take turns. Barrier:
// __syncwarp -> A and G images -> copies of other lanes. F leaves from registers, two adjacent entries at a time.
//
// Limits: memory bandwidth. Rows and columns are padded with zeros to multiples of 16 and 8.
//
//   GROUP  matrices per warp
//   WARPS  per block
//   PAIRS  two entries of a row of F begin on a 16-byte boundary
#pragma once
#include "kernels/factor/gradients/operands.cuh"
#include "mansard/gpu/mma.cuh"

namespace mansard {

template <class P>
struct GradientTensor {
  using T = typename P::T;
  static constexpr int N = P::N, TALL = ceil_div(N, 16), WIDE = ceil_div(N, 8);  // tiles of 16 rows, of 8 columns
  static constexpr bool INVERSE = P::GRADIENT == Gradient::inverse;
  using A = ImageOf<T, P::LAYOUT_A, N, N, P::GROUP, P::FEED_A, P::ALIGNED, P::PITCH_A, P::MATRIX_A>;
  using G = ImageOf<T, P::LAYOUT_G, N, N, P::GROUP, P::FEED_G, P::ALIGNED, P::PITCH_G, P::MATRIX_G>;
  static constexpr int OF_WARP = A::BYTES + G::BYTES;
  static_assert(sizeof(T) == 8 && !Scalar<T>::COMPLEX);
  static_assert(P::WARPS * OF_WARP <= P::SHARED_BYTES, "shared memory");

  static MANSARD_DEVICE int chosen_k(int p) { return p ^ (p >> 2); }

  // Entry of an image, zero beyond the matrix.
  template <Layout LAYOUT, int PITCH>
  static MANSARD_DEVICE double at(const T* image, int row, int column) {
    constexpr bool EVEN = N % 16 == 0;
    if (EVEN || (row < N && column < N)) return image[entry_at<LAYOUT, PITCH>(row, column)];
    return 0.0;
  }
  static MANSARD_DEVICE double of_a(const T* a, int row, int column) {
    return at<P::LAYOUT_A, A::PITCH>(a, row, column);
  }
  static MANSARD_DEVICE double of_g(const T* g, int row, int column) {
    return at<P::LAYOUT_G, G::PITCH>(g, row, column);
  }
  static MANSARD_DEVICE double of_left(const T* a, int row, int column) {
    return INVERSE ? of_a(a, column, row) : of_a(a, row, column);
  }

  double w[TALL][WIDE][4];
  int g, t;

  MANSARD_DEVICE explicit GradientTensor(int lane) : g(lane / 4), t(lane % 4) {}

  // w = A G^T
  MANSARD_DEVICE void right(const T* a, const T* gradient) {
    MANSARD_UNROLL
    for (int i = 0; i < TALL * WIDE * 4; ++i) (&w[0][0][0])[i] = 0.0;
MANSARD_UNROLL_BY(4)
    for (int l = 0; l < ceil_div(N, 4) * 4; l += 4) {
      double b[WIDE];
      MANSARD_UNROLL
      for (int k = 0; k < WIDE; ++k) b[k] = of_g(gradient, 8 * k + chosen_k(g), l + t);
      MANSARD_UNROLL
      for (int n = 0; n < TALL; ++n) {
        const double upper = of_a(a, 16 * n + g, l + t), lower = of_a(a, 16 * n + 8 + g, l + t);
        MANSARD_UNROLL
        for (int k = 0; k < WIDE; ++k) mma_m16n8k4(w[n][k], upper, lower, b[k]);
      }
    }
  }

  // Rows 16 m .. 16 m + 15 of F = op(A) T.
  MANSARD_DEVICE void left(const T* a, int m, double (&f)[WIDE][4]) const {
    MANSARD_UNROLL
    for (int i = 0; i < WIDE * 4; ++i) (&f[0][0])[i] = 0.0;
    MANSARD_UNROLL
    for (int k = 0; k < WIDE; ++k)
      MANSARD_UNROLL
      for (int i = 0; i < 2; ++i) {
        const int column = 8 * k + chosen_k(2 * t + i);
        const double upper = of_left(a, 16 * m + g, column), lower = of_left(a, 16 * m + 8 + g, column);
        MANSARD_UNROLL
        for (int n = 0; n < WIDE; ++n) mma_m16n8k4(f[n], upper, lower, w[n / 2][k][n % 2 * 2 + i]);
      }
  }

  MANSARD_DEVICE void store(T* to, int m, const double (&f)[WIDE][4]) const {
    MANSARD_UNROLL
    for (int n = 0; n < WIDE; ++n)
      MANSARD_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int row = 16 * m + 8 * half + g, column = 8 * n + 2 * t;
        Pack<T, 2> pair;
        MANSARD_UNROLL
        for (int i = 0; i < 2; ++i) pair.e[i] = INVERSE ? -f[n][2 * half + i] : f[n][2 * half + i];
        if (N % 16 != 0 && row >= N) continue;
        if constexpr (P::PAIRS) {
          if (N % 8 == 0 || column < N) store_pack(to + row * N + column, pair);
        } else {
          MANSARD_UNROLL
          for (int i = 0; i < 2; ++i)
            if (column + i < N) to[row * N + column + i] = pair.e[i];
        }
      }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void gradients_tensor(const Arguments& arguments) {
  using S = GradientTensor<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const GradientOperands<P, Arguments> operands(arguments);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 batch = arguments.BATCH, first = (static_cast<i64>(blockIdx.x) * P::WARPS + warp) * P::GROUP;
  if (first >= batch) return;
  const int count = batch - first < P::GROUP ? static_cast<int>(batch - first) : P::GROUP;
  T* place_a = reinterpret_cast<T*>(arena + warp * S::OF_WARP);
  T* place_g = reinterpret_cast<T*>(arena + warp * S::OF_WARP + S::A::BYTES);
  S::A::template fill<32>(place_a, operands.A, first, count, batch, lane);
  S::G::template fill<32>(place_g, operands.G, first, count, batch, lane);
  cp_async_commit();
  const T* a = S::A::origin(place_a, operands.A, first);
  const T* gradient = S::G::origin(place_g, operands.G, first);
  T* to = arguments.F + first * (S::N * S::N);
  cp_async_wait<0>();
  __syncwarp();  // A and G images: the copies of all lanes have arrived
  S matrix(lane);
MANSARD_UNROLL_BY(1)
  for (int i = 0; i < count; ++i) {
    matrix.right(a + i * S::A::MATRIX, gradient + i * S::G::MATRIX);
    MANSARD_UNROLL
    for (int m = 0; m < S::TALL; ++m) {
      double f[S::WIDE][4];
      matrix.left(a + i * S::A::MATRIX, m, f);
      matrix.store(to + static_cast<i64>(i) * (S::N * S::N), m, f);
    }
  }
}

}  // namespace mansard
