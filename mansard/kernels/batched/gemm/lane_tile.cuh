// A team's tile of C in registers: LANES_M x LANES_N lanes share one product of matrices in shared memory.
//
// A lane has every LANES_M-th row and every LANES_N-th column (or run of adjacent ones, where several can be loaded at
// once). Beyond the last run, the last one is loaded and computed again and not stored.
#pragma once
#include "kernels/batched/gemm/image.cuh"

namespace mansard {

// Distributes EXTENT indices, in runs of READ, over LANES lanes.
template <int EXTENT, int READ_, int LANES>
struct Share {
  static constexpr int READ = READ_, RUNS = EXTENT / READ, OF_LANE = ceil_div(RUNS, LANES), COUNT = OF_LANE * READ;
  static constexpr bool EVEN = RUNS % LANES == 0;
  int lane, last;  // first index of the lane's first and last run
  MANSARD_DEVICE Share(int lane) : lane(lane * READ), last(min(lane + (OF_LANE - 1) * LANES, RUNS - 1) * READ) {}
  MANSARD_DEVICE int begin(int run) const { return run + 1 < OF_LANE ? lane + run * LANES * READ : last; }
  MANSARD_DEVICE bool has(int run) const { return EVEN || run + 1 < OF_LANE || last == lane + run * LANES * READ; }
};

// A tile of M x N entries; ImageA and ImageB describe A and B in shared memory.
template <class P, int M, int N, int LANES_M, int LANES_N, class ImageA, class ImageB>
struct LaneTile {
  using T = typename P::T;
  static constexpr bool ROW_MAJOR_A = P::LAYOUT_A != Layout::col, ROW_MAJOR_B = P::LAYOUT_B != Layout::col;
  using Rows = Share<M, ROW_MAJOR_A ? 1 : ImageA::READ, LANES_M>;
  using Columns = Share<N, ROW_MAJOR_B ? ImageB::READ : 1, LANES_N>;
  // elements along K that are loaded at once
  static constexpr int READ_A = ROW_MAJOR_A ? ImageA::READ : 1, READ_B = ROW_MAJOR_B ? 1 : ImageB::READ;
  static constexpr int STEP = READ_A > READ_B ? READ_A : READ_B;
  static constexpr int WORK = STEP * Rows::COUNT * Columns::COUNT * Scalar<T>::WORDS * Scalar<T>::WORDS;  // per step
  Rows rows;
  Columns columns;
  T sums[Rows::COUNT][Columns::COUNT];

  MANSARD_DEVICE LaneTile(int lane) : rows(lane / LANES_N), columns(lane % LANES_N) {}

  // One step along K: STEP columns of A times as many rows of B.
  MANSARD_DEVICE void step(const T* A, const T* B, int k) {
    T a[Rows::COUNT][STEP], b[Columns::COUNT][STEP];
    MANSARD_UNROLL
    for (int r = 0; r < Rows::OF_LANE; ++r) {
      if constexpr (ROW_MAJOR_A) {
        load<READ_A>(A + rows.begin(r) * ImageA::PITCH + k, [&](int i, T x) { a[r][i] = x; });
      } else {
        MANSARD_UNROLL
        for (int i = 0; i < STEP; ++i)
          load_one<Rows::READ>(A + (k + i) * ImageA::PITCH + rows.begin(r),
                               [&](int j, T x) { a[r * Rows::READ + j][i] = x; });
      }
    }
    MANSARD_UNROLL
    for (int c = 0; c < Columns::OF_LANE; ++c) {
      if constexpr (!ROW_MAJOR_B) {
        load<READ_B>(B + columns.begin(c) * ImageB::PITCH + k, [&](int i, T x) { b[c][i] = x; });
      } else {
        MANSARD_UNROLL
        for (int i = 0; i < STEP; ++i)
          load_one<Columns::READ>(B + (k + i) * ImageB::PITCH + columns.begin(c),
                                  [&](int j, T x) { b[c * Columns::READ + j][i] = x; });
      }
    }
    MANSARD_UNROLL
    for (int i = 0; i < STEP; ++i)
      MANSARD_UNROLL
      for (int c = 0; c < Columns::COUNT; ++c) {
        const T y = P::CONJ_B ? conjugate(b[c][i]) : b[c][i];
        MANSARD_UNROLL
        for (int r = 0; r < Rows::COUNT; ++r) multiply_add<P::CONJ_A>(sums[r][c], a[r][i], y);
      }
  }

  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int i = 0; i < Rows::COUNT * Columns::COUNT; ++i) sums[i / Columns::COUNT][i % Columns::COUNT] = zero<T>();
  }
  // Add the product of K columns of A and K rows of B.
  template <int K>
  MANSARD_DEVICE void multiply(const T* A, const T* B) {
    constexpr int UNROLL = K / STEP * WORK <= 256 ? K / STEP : WORK >= 64 ? 2 : 4;
    static_assert(K % STEP == 0, "whole steps");
MANSARD_UNROLL_BY(UNROLL)
    for (int k = 0; k < K; k += STEP) step(A, B, k);
  }

  // Calls put(row, column, PUT adjacent sums) for all entries of the lane.
  template <int PUT, class Put>
  MANSARD_DEVICE void for_each(Put put) const {
    MANSARD_UNROLL
    for (int r = 0; r < Rows::COUNT; ++r)
      MANSARD_UNROLL
      for (int c = 0; c < Columns::COUNT; c += PUT)
        if (rows.has(r / Rows::READ) && columns.has(c / Columns::READ)) {
          const int column = columns.begin(c / Columns::READ) + c % Columns::READ;
          put(rows.begin(r / Rows::READ) + r % Rows::READ, column, &sums[r][c]);
        }
  }
  // Write alpha times the product to C's image.
  template <class ImageC>
  MANSARD_DEVICE void lay_down(T* C, const Scales& scales) const {
    constexpr int PUT = gcd(Columns::READ, ImageC::READ);
    for_each<PUT>([&](int row, int column, const T* sum) {
      Pack<T, PUT> pack;
      MANSARD_UNROLL
      for (int i = 0; i < PUT; ++i) pack.e[i] = scales.product(sum[i]);
      *reinterpret_cast<Pack<T, PUT>*>(C + row * ImageC::PITCH + column) = pack;
    });
  }

 private:
  // Load STEP elements, READ at once.
  template <int READ, class Put>
  static MANSARD_DEVICE void load(const T* from, Put put) {
    MANSARD_UNROLL
    for (int i = 0; i < STEP; i += READ) load_one<READ>(from + i, [&](int j, T x) { put(i + j, x); });
  }
  template <int READ, class Put>
  static MANSARD_DEVICE void load_one(const T* from, Put put) {
    const auto pack = *reinterpret_cast<const Pack<T, READ>*>(from);
    MANSARD_UNROLL
    for (int j = 0; j < READ; ++j) put(j, pack.e[j]);
  }
};

}  // namespace mansard
