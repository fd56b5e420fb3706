// A tile of X in registers: rows and columns of A B for a triangular or a rectangular block A in shared memory.
//
// A lane has every LANES_M-th row (or run of rows, where several entries of a column of A can be loaded at once) and
// every LANES_N-th column (or run of columns). A slot is what all lanes have of rows at once: REACH consecutive ones.
// Lanes share the work of a triangle evenly, since all of them have rows of every slot; slots that a step does not
// reach are left out when the code is compiled, and only the slots that hold the diagonal look at row and column.
// Entries of the other triangle, and of a unit diagonal, do not enter the arithmetic. Beyond the last run, the last one
// is loaded and computed again and not stored.
#pragma once
#include "kernels/batched/gemm/lane_tile.cuh"
#include "kernels/batched/trsm/system.cuh"

namespace mansard {

// M rows of X, N columns; ImageA and ImageB describe A and B in shared memory.
template <class P, int M, int N, int LANES_M, int LANES_N, class ImageA, class ImageB>
struct TriangleTile {
  using T = typename P::T;
  static constexpr bool ROW_MAJOR_A = P::LAYOUT_A != Layout::col, ROW_MAJOR_B = P::LAYOUT_B != Layout::col;
  static constexpr bool ROW_MAJOR_X = P::LAYOUT_X != Layout::col;
  using Rows = Share<M, ROW_MAJOR_A ? 1 : ImageA::READ, LANES_M>;
  using Columns = Share<N, ROW_MAJOR_B ? ImageB::READ : 1, LANES_N>;
  // elements along K that are loaded at once
  static constexpr int READ_A = ROW_MAJOR_A ? ImageA::READ : 1, READ_B = ROW_MAJOR_B ? 1 : ImageB::READ;
  static constexpr int STEP = READ_A > READ_B ? READ_A : READ_B;
  static constexpr int REACH = LANES_M * Rows::READ, CHUNK = REACH > STEP ? REACH : STEP;
  static constexpr int WORK = STEP * Rows::COUNT * Columns::COUNT * Scalar<T>::WORDS * Scalar<T>::WORDS;  // per step
  static_assert(CHUNK % REACH == 0 && CHUNK % STEP == 0, "whole slots and whole steps");
  static constexpr int TOGETHER = ROW_MAJOR_X ? Columns::READ : 1;  // adjacent entries of a row that a lane has
  static constexpr bool BY_STRIPS = false;
  Rows rows;
  Columns columns;
  T sums[Rows::COUNT][Columns::COUNT];

  // Neighbouring lanes have neighbouring entries of X in memory.
  MANSARD_DEVICE TriangleTile(int lane)
      : rows(LANES_M == 1 ? 0 : ROW_MAJOR_X ? lane / LANES_N : lane % LANES_M),
        columns(LANES_N == 1 ? 0 : ROW_MAJOR_X ? lane % LANES_N : lane / LANES_M) {}

  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int r = 0; r < Rows::COUNT; ++r)
      MANSARD_UNROLL
      for (int c = 0; c < Columns::COUNT; ++c) sums[r][c] = zero<T>();
  }

  // Add the product of a square block on the diagonal, whose first K columns exist, and K rows of B.
  template <int K>
  MANSARD_DEVICE void multiply_triangle(const T* A, const T* B) {
    constexpr int CHUNKS = ceil_div(K, CHUNK), SLOTS = CHUNK / REACH, UNROLL = WORK >= 64 ? 1 : 2;
    static_assert(K % STEP == 0, "whole steps");
    MANSARD_UNROLL
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      const int first = chunk * SLOTS, begin = chunk * CHUNK, end = chunk + 1 == CHUNKS ? K : begin + CHUNK;
MANSARD_UNROLL_BY(UNROLL)
      for (int k = begin; k < end; k += STEP) step<true>(A, B, k, first, first + SLOTS);
    }
  }
  // Add the product of K columns of a rectangular block and K rows of B.
  template <int K>
  MANSARD_DEVICE void multiply(const T* A, const T* B) {
    constexpr int UNROLL = WORK >= 64 ? 1 : WORK >= 32 ? 2 : 4;
    static_assert(K % STEP == 0, "whole steps");
MANSARD_UNROLL_BY(UNROLL)
    for (int k = 0; k < K; k += STEP) step<false>(A, B, k, 0, 0);
  }

  // Calls put(row, column, PUT adjacent sums of a row) for all entries of the lane.
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
  // Write alpha times the product to the image of X.
  template <class ImageX>
  MANSARD_DEVICE void lay_down(T* X, const Scales& scales) const {
    constexpr int PUT = gcd(TOGETHER, ROW_MAJOR_X ? ImageX::READ : 1);
    for_each<PUT>([&](int row, int column, const T* sum) {
      Pack<T, PUT> pack;
      MANSARD_UNROLL
      for (int i = 0; i < PUT; ++i) pack.e[i] = scales.product(sum[i]);
      *reinterpret_cast<Pack<T, PUT>*>(X + entry_at<P::LAYOUT_X, ImageX::PITCH>(row, column)) = pack;
    });
  }

 private:
  // One step along K: STEP columns of A times as many rows of B. Of a TRIANGLE, slots `first` to `last` hold the
  // diagonal; what lies beyond them is left out.
  template <bool TRIANGLE>
  MANSARD_DEVICE void step(const T* A, const T* B, int k, int first, int last) {
    T b[Columns::COUNT][STEP];
    load_b(b, B, k);
    MANSARD_UNROLL
    for (int r = 0; r < Rows::OF_LANE; ++r) {
      if (TRIANGLE && (P::UPPER ? r >= last : r < first)) continue;
      T a[Rows::READ][STEP];
      load_a(a, A, rows.begin(r), k);
      MANSARD_UNROLL
      for (int i = 0; i < STEP; ++i)
        MANSARD_UNROLL
        for (int j = 0; j < Rows::READ; ++j) {
          T* sum = sums[r * Rows::READ + j];
          const int row = rows.begin(r) + j;
          const bool full = !TRIANGLE || (P::UPPER ? r < first : r >= last);
          if (full || (P::UPPER ? k + i >= row + P::UNIT : k + i + P::UNIT <= row)) {
            MANSARD_UNROLL
            for (int c = 0; c < Columns::COUNT; ++c) multiply_add<P::CONJ>(sum[c], a[j][i], b[c][i]);
          }
          if constexpr (P::UNIT)
            if (!full && k + i == row)
              MANSARD_UNROLL
              for (int c = 0; c < Columns::COUNT; ++c) add_to(sum[c], b[c][i]);
        }
    }
  }

  MANSARD_DEVICE void load_a(T (&a)[Rows::READ][STEP], const T* A, int row, int k) const {
    MANSARD_UNROLL
    for (int i = 0; i < STEP; i += READ_A) {
      constexpr int READ = ROW_MAJOR_A ? READ_A : Rows::READ;
      const T* from = ROW_MAJOR_A ? A + row * ImageA::PITCH + k + i : A + (k + i) * ImageA::PITCH + row;
      const auto pack = *reinterpret_cast<const Pack<T, READ>*>(from);
      MANSARD_UNROLL
      for (int j = 0; j < READ; ++j) a[ROW_MAJOR_A ? 0 : j][ROW_MAJOR_A ? i + j : i] = pack.e[j];
    }
  }
  MANSARD_DEVICE void load_b(T (&b)[Columns::COUNT][STEP], const T* B, int k) const {
    MANSARD_UNROLL
    for (int c = 0; c < Columns::OF_LANE; ++c)
      MANSARD_UNROLL
      for (int i = 0; i < STEP; i += READ_B) {
        const int column = columns.begin(c);
        const T* from = ROW_MAJOR_B ? B + (k + i) * ImageB::PITCH + column : B + column * ImageB::PITCH + k + i;
        constexpr int READ = ROW_MAJOR_B ? Columns::READ : READ_B;
        const auto pack = *reinterpret_cast<const Pack<T, READ>*>(from);
        MANSARD_UNROLL
        for (int j = 0; j < READ; ++j)
          b[c * Columns::READ + (ROW_MAJOR_B ? j : 0)][ROW_MAJOR_B ? i : i + j] = pack.e[j];
      }
  }
};

}  // namespace mansard
