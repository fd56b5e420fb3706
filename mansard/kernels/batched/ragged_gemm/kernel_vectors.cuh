// Small matrices times vectors, one class of a ragged batch: LANES lanes of a warp per product, none larger than WIDTH.
//
// Team. A warp takes 32 / LANES products of the sorted list at a time. A lane has every LANES-th row of op(A); its sums
// stay in registers, and neighbouring lanes write neighbouring entries. Rows beyond the end are multiplied with
// whatever is there, and not stored.
//
// Shared memory of a team: two stages of a matrix and a vector (PLACE elements). A matrix has no gaps and is copied as
// one run of bytes, as is its vector, while the product before is formed.
// Barriers (__syncwarp -> buffer -> writer): the stage -> copies of other lanes;  the stage, read by all -> next
// copies.
//
// Lanes that read down a column of A collide in the banks if k is even. Each lane therefore takes the columns in the
// order j ^ turn, where `turn` has at most as many bits as k has trailing zeros.
//
//   CLASS, WIDTH  part of the list, and the most rows or columns in it
//   LANES, WARPS  lanes of a team; warps per block
//   EACH          rounds of products of a block (items.cuh)
//   TRANS_A, CONJ_A|B, ACCUMULATE
#pragma once
#include "kernels/batched/gemm/image.cuh"
#include "kernels/batched/ragged_gemm/items.cuh"
#include "mansard/gpu/async_words.cuh"

namespace mansard {

// A run of at most MOST elements in shared memory, with the same distance from a 16-byte boundary as in global memory.
template <class T, int MOST>
struct Stretch {
  static constexpr int VECTOR = 16 / int(sizeof(T)), PLACE = ceil_div(MOST + VECTOR - 1, VECTOR) * VECTOR;

  static MANSARD_DEVICE int shift(const T* at) { return static_cast<int>(reinterpret_cast<u64>(at) % 16 / sizeof(T)); }
  // Start the copies of `count` elements.
  template <int THREADS>
  static MANSARD_DEVICE void fill(T* place, const T* from, int count, int rank) {
    T* const to = place + shift(from);
    const int ahead = min((VECTOR - shift(from)) % VECTOR, count), pieces = (count - ahead) / VECTOR;
MANSARD_UNROLL_BY(4)
    for (int i = rank; i < pieces; i += THREADS)
      cp_async_word<16>(to + ahead + i * VECTOR, from + ahead + i * VECTOR);
    if constexpr (VECTOR > 1) {
      MANSARD_UNROLL
      for (int i = 0; i < 2 * (VECTOR - 1); i += THREADS) {
        const int loose = rank + i, e = loose < ahead ? loose : loose + pieces * VECTOR;
        if (e < count && loose < 2 * (VECTOR - 1)) cp_async_word<int(sizeof(T))>(to + e, from + e);
      }
    }
  }
};

template <class P>
struct RaggedVectors {
  using T = typename P::T;
  static constexpr int TEAMS = 32 / P::LANES, ROWS = ceil_div(P::WIDTH, P::LANES);
  using Matrix = Stretch<T, P::WIDTH * P::WIDTH>;
  using Vector = Stretch<T, P::WIDTH>;
  static constexpr int PLACE = Matrix::PLACE + Vector::PLACE;
  static_assert(TEAMS * P::LANES == 32 && ROWS * P::LANES == P::WIDTH, "even shares");
  static_assert(P::WARPS * TEAMS * 2 * PLACE * int(sizeof(T)) <= P::SHARED_BYTES, "shared memory");
};

// Add the products of the lane's rows of op(A) and x to `sums`.
template <class P, class S = RaggedVectors<P>, class T = typename P::T>
MANSARD_DEVICE void vector_product(T (&sums)[S::ROWS], const Item& item, const T* A, const T* x, int rank) {
  constexpr int LINE = 128 / int(sizeof(T));  // elements across all banks
  const int row = P::TRANS_A ? 1 : item.k, step = P::TRANS_A ? item.m : 1;
  const int turn = P::TRANS_A ? 0 : rank * item.k / LINE & ((item.k & -item.k) - 1);
MANSARD_UNROLL_BY(4)
  for (int j = 0; j < item.k; ++j) {
    const int at = j ^ turn;
    const T entry = reinterpret_cast<const Pack<T, 1>*>(x + at)->e[0], factor = P::CONJ_B ? conjugate(entry) : entry;
    MANSARD_UNROLL
    for (int r = 0; r < S::ROWS; ++r)
      multiply_add<P::CONJ_A>(
          sums[r], reinterpret_cast<const Pack<T, 1>*>(A + (rank + r * P::LANES) * row + at * step)->e[0], factor);
  }
}

template <class P, class Arguments>
MANSARD_DEVICE void ragged_vectors(const Arguments& x) {
  using S = RaggedVectors<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(T, arena);
  const int warp = threadIdx.x / 32, team = threadIdx.x % 32 / P::LANES, rank = threadIdx.x % P::LANES;
  T* const places = arena + (warp * S::TEAMS + team) * 2 * S::PLACE;
  const Scales scales{x.alpha_re, x.alpha_im, x.beta_re, x.beta_im};
  const Share<P, P::WARPS * S::TEAMS> share(x.starts);
  const i64 end = share.end, step = share.step;
  i64 first = share.begin + warp * S::TEAMS;
  const auto item_at = [&](i64 i) { return i < end ? x.items[i] : Item{}; };
  const auto fill = [&](const Item& item, T* place) {
    const int deep = max(item.k, 0);
    S::Matrix::template fill<P::LANES>(place, x.A + item.a, item.m * deep, rank);
    S::Vector::template fill<P::LANES>(place + S::Matrix::PLACE, x.B + item.b, deep, rank);
    cp_async_commit();
  };

  Item item = item_at(first + team), next = item_at(first + step + team);
  int stage = 0;
  fill(item, places);
MANSARD_UNROLL_BY(1)
  for (; first < end; first += step) {
    const T* const place = places + stage * S::PLACE;
    stage = 1 - stage;
    fill(next, places + stage * S::PLACE);
    const Item after = item_at(first + 2 * step + team);
    cp_async_wait<1>();
    __syncwarp();  // A and x of this stage: the copies of all lanes have arrived
    T sums[S::ROWS];
    MANSARD_UNROLL
    for (int r = 0; r < S::ROWS; ++r) sums[r] = Start<T>::of(item);
    vector_product<P>(sums, item, place + S::Matrix::shift(x.A + item.a),
                      place + S::Matrix::PLACE + S::Vector::shift(x.B + item.b), rank);
    T* const y = x.C + item.c;
    MANSARD_UNROLL
    for (int r = 0; r < S::ROWS; ++r) {
      const int row = rank + r * P::LANES;
      if (row >= item.m) continue;
      T product = scales.product(sums[r]);
      if constexpr (P::ACCUMULATE) product = scales.with_old(product, y[row]);
      *reinterpret_cast<Pack<T, 1>*>(y + row) = {product};
    }
    __syncwarp();  // this stage is about to be overwritten by the next copies; all lanes have read it
    item = next, next = after;
  }
}

}  // namespace mansard
