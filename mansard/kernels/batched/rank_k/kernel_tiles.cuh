// C = alpha A op(A) + beta C, or alpha A op(B) + its transpose + beta C, for a batch: one triangle is computed.
//
// Team. A block takes GROUP consecutive matrices, or a part of one. A thread has one tile of one matrix in registers: TILE rows of a set I
// times TILE rows of a set J <= I (factors.cuh), so that nothing but diagonal tiles is computed twice. Products are sums
// over panels of BLK_K columns; where BLK_K covers K, a panel is the whole group.
//
// Shared memory: a ring of STAGES places, each with a panel of A (A::BYTES) and, with two factors, one of B. OUT back:
// then, in the same memory, an image of C, from which whole lines leave. OUT direct: C leaves from registers.
//
// Barriers (__syncthreads -> buffer -> writer):
//   arrive -> the panel of this place -> copies of all threads
//          -> the panel of the place before, read by all threads -> the copies that are started next
//   gather -> the panels, read by all threads -> entries of C
//   leave  -> the image of C -> entries of other threads
//
// Limits: memory bandwidth while a matrix has few columns; ordinary multiply-adds beyond.
//
//   TILE    rows of a set: TILE x TILE entries of C per thread
//   GROUP   matrices per block
//   PARTS   blocks per matrix, each with a part of its tiles and all of its factors
//   BLK_K   columns of A per panel
//   STAGES  places of the ring; 1 where a panel is everything
//   OUT     how C leaves
//   TWO     two factors; CONJ_A, CONJ_B: the first, the second factor of a product is conjugated
//   UPLO    the triangle that is written
#pragma once
#include "kernels/batched/rank_k/triangle.cuh"

namespace mansard {

template <class P>
struct TilesShape {
  using T = typename P::T;
  using A = Factor<P, P::LAYOUT_A, P::FEED_A, P::PITCH_A, P::MATRIX_A>;
  using B = Factor<P, P::LAYOUT_B, P::FEED_B, P::PITCH_B, P::MATRIX_B>;
  using C = Image<T, P::N, P::N, P::GROUP, P::FEED_C, P::ALIGNED, P::PITCH_C, P::MATRIX_C>;
  static constexpr bool BACK = P::OUT == Out::back, HERMITIAN = P::CONJ_A != P::CONJ_B;
  static constexpr bool SCALED_FACTOR = P::TWO && HERMITIAN;  // alpha and its conjugate belong to one product each
  static constexpr int PANELS = ceil_div(P::K, A::DEPTH), LAST = P::K - (PANELS - 1) * A::DEPTH;
  static constexpr int RUN_OF_BOTH = P::TWO ? common_run(A::ROW_RUN, B::ROW_RUN) : A::ROW_RUN;
  static constexpr int RUN = RUN_OF_BOTH == 0 ? 1 : gcd(RUN_OF_BOTH, P::TILE);
  static constexpr int STEP = P::TWO && B::READ > A::READ ? B::READ : A::READ;
  using Rows = Sets<P::N, P::TILE, RUN>;
  static constexpr int OF_BLOCK = ceil_div(Rows::TILES, P::PARTS);  // tiles of a matrix that a block has
  static constexpr int ACTIVE = P::GROUP * OF_BLOCK, THREADS = ceil_div(ACTIVE, 32) * 32;
  static constexpr int OF_A = P::GROUP > 1 ? P::MATRIX_A : 0, OF_B = P::GROUP > 1 ? P::MATRIX_B : 0;  // to the next matrix
  static constexpr int STAGE = A::BYTES + (P::TWO ? B::BYTES : 0);
  static_assert(P::STAGES * STAGE <= P::SHARED_BYTES && (!BACK || C::BYTES <= P::SHARED_BYTES), "shared memory");
  static_assert(PANELS == 1 ? P::STAGES == 1 : P::STAGES >= 2 && P::GROUP == 1, "panels of one matrix pass a ring");
  static_assert(P::PARTS == 1 || !BACK && P::GROUP == 1, "a part of a matrix has no image");
};

// A thread's tile of C.
template <class P, class S>
struct TriangleTile {
  using T = typename P::T;
  using Rows = typename S::Rows;
  static constexpr int TILE = P::TILE;
  int high, low;  // the sets of rows and of columns: low <= high
  T sums[TILE][TILE];

  MANSARD_DEVICE explicit TriangleTile(int tile) : high(0) {
MANSARD_UNROLL_BY(1)
    while ((high + 1) * (high + 2) / 2 <= tile) ++high;
    low = tile - high * (high + 1) / 2;
    MANSARD_UNROLL
    for (int i = 0; i < TILE * TILE; ++i) sums[i / TILE][i % TILE] = zero<T>();
  }

  // Add the products of DEPTH values of k.
  template <int DEPTH>
  MANSARD_DEVICE void multiply(const T* a, const T* b, const Scales& scales) {
    constexpr int WORK = S::STEP * TILE * TILE * Scalar<T>::WORDS * Scalar<T>::WORDS * (P::TWO ? 2 : 1);
    constexpr int UNROLL = DEPTH / S::STEP * WORK <= 256 ? DEPTH / S::STEP : WORK >= 64 ? 2 : 4;
    static_assert(DEPTH % S::STEP == 0, "whole steps");
MANSARD_UNROLL_BY(UNROLL)
    for (int k = 0; k < DEPTH; k += S::STEP) {
      if constexpr (P::TWO) step_of_two(a, b, k, scales);
      else step(a, k);
    }
  }

  // Calls put(row, column, entry) with column <= row for the tile's entries; `scales` has alpha.
  template <class Put>
  MANSARD_DEVICE void for_each(const Scales& scales, Put put) const {
    MANSARD_UNROLL
    for (int i = 0; i < TILE * TILE; ++i) {
      const int r = i / TILE, c = i % TILE;
      if (Rows::NT == 1 && c > r || !Rows::exists(high, r) || !Rows::exists(low, c)) continue;
      if (Rows::NT > 1 && c > r && high == low) continue;
      const int row = Rows::row(high, r), column = Rows::row(low, c);
      T entry = S::SCALED_FACTOR ? sums[r][c] : scales.product(sums[r][c]);
      if (S::HERMITIAN && row < column) entry = conjugate(entry);
      put(max(row, column), min(row, column), entry);
    }
  }

 private:
  MANSARD_DEVICE void step(const T* a, int k) {
    T x[TILE][S::STEP], y[TILE][S::STEP];
    load_set<typename S::A, Rows, TILE, S::RUN, S::STEP>(x, a, high, k);
    if constexpr (Rows::NT > 1) load_set<typename S::A, Rows, TILE, S::RUN, S::STEP>(y, a, low, k);
    else
      MANSARD_UNROLL
      for (int i = 0; i < TILE * S::STEP; ++i) y[i / S::STEP][i % S::STEP] = x[i / S::STEP][i % S::STEP];
    add(x, y);
  }
  MANSARD_DEVICE void step_of_two(const T* a, const T* b, int k, const Scales& scales) {
    T x[TILE][S::STEP], y[TILE][S::STEP];
    load_a(x, a, high, k, scales);
    load_set<typename S::B, Rows, TILE, S::RUN, S::STEP>(y, b, low, k);
    add(x, y);
    load_set<typename S::B, Rows, TILE, S::RUN, S::STEP>(x, b, high, k);
    load_a(y, a, low, k, scales);
    add(x, y);
  }
  // alpha belongs to A where the second product has its conjugate: alpha a conj(b) + b conj(alpha a).
  MANSARD_DEVICE void load_a(T (&x)[TILE][S::STEP], const T* a, int set, int k, const Scales& scales) const {
    load_set<typename S::A, Rows, TILE, S::RUN, S::STEP>(x, a, set, k);
    if constexpr (S::SCALED_FACTOR)
      MANSARD_UNROLL
      for (int i = 0; i < TILE * S::STEP; ++i) x[i / S::STEP][i % S::STEP] = scales.product(x[i / S::STEP][i % S::STEP]);
  }
  MANSARD_DEVICE void add(const T (&x)[TILE][S::STEP], const T (&y)[TILE][S::STEP]) {
    MANSARD_UNROLL
    for (int i = 0; i < S::STEP; ++i)
      MANSARD_UNROLL
      for (int c = 0; c < TILE; ++c)
        MANSARD_UNROLL
        for (int r = 0; r < TILE; ++r) {
          if (Rows::NT == 1 && c > r) continue;
          if constexpr (P::CONJ_A && P::CONJ_B) multiply_add<true>(sums[r][c], x[r][i], conjugate(y[c][i]));
          else if constexpr (P::CONJ_B) multiply_add<true>(sums[r][c], y[c][i], x[r][i]);
          else multiply_add<P::CONJ_A>(sums[r][c], x[r][i], y[c][i]);
        }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void rank_k_tiles(const Arguments& x) {
  using S = TilesShape<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const Updated<P, Arguments> operands(x);
  const int rank = static_cast<int>(threadIdx.x), matrix = rank / S::OF_BLOCK;
  const int index = static_cast<int>(blockIdx.x) % P::PARTS * S::OF_BLOCK + rank % S::OF_BLOCK;  // of the tile
  const i64 batch = x.BATCH, first = static_cast<i64>(blockIdx.x) / P::PARTS * P::GROUP;
  const int count = batch - first < P::GROUP ? static_cast<int>(batch - first) : P::GROUP;
  const bool active = rank < S::ACTIVE && matrix < count && index < S::Rows::TILES;
  TriangleTile<P, S> tile(active ? index : 0);
  multiply_panels<P, S>(operands, arena, first, count, batch, rank, [&](auto depth, const T* a, const T* b) {
    if (active)
      tile.template multiply<decltype(depth)::VALUE>(a + matrix * S::OF_A, b + matrix * S::OF_B, operands.factor);
  });
  using Written = Triangle<P, S>;
  if constexpr (S::BACK) {
    T* image = S::C::origin(reinterpret_cast<T*>(arena), operands.C, first);
    __syncthreads();  // panels are about to be overwritten by entries of C; all threads have read them
    if (active) Written::gather(tile, image + matrix * S::C::MATRIX, operands.scales);
    __syncthreads();  // the image of C is complete, written by all threads
    Written::template store<S::THREADS>(reinterpret_cast<T*>(arena), image, operands, first, count, rank);
  } else if (active) {
    Written::direct(tile, operands, first + matrix);
  }
}

}  // namespace mansard
