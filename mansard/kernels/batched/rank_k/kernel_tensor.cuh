// C = alpha A op(A) + beta C for a batch on the tensor cores: one triangle is computed.
//
// Team. A block takes GROUP consecutive matrices, or a part of one. A warp has one square of a triangle in registers
// (square.cuh). Products are sums over panels of BLK_K columns, of which STAGES - 1 are under way. Where BLK_K covers K,
// a panel is the whole group: with one stage blocks come and go, with two they stay, and the next group is under way.
//
// Shared memory: a ring of STAGES places, each with a panel of A (A::BYTES), from which both factors are read; then SLACK
// bytes that fragments of the last matrix reach, where it has fewer rows than a square (in a ring of groups each place
// has them, PLACE bytes in all). OUT back: then, in the memory of the panel, an image of C, from which whole lines leave.
// OUT direct: C leaves from registers. Where the pitch of A lets the rows of a fragment be adjacent, eight lanes have
// eight rows of a column, and four have eight columns of a row: an entry and its mirror are both written in full
// sectors. Of odd pitches they are four rows apart: a sector is written in parts.
//
// Barriers (__syncthreads -> buffer -> writer):
//   arrive -> the panel of this place -> copies of all threads
//          -> the panel of the place before, read by all warps -> the copies that are started next
//   again  -> the place of a group, read by all threads -> the copies of the group after the next
//   gather -> the panels, read by all warps -> entries of C
//   leave  -> the image of C -> entries of other warps
//   repair -> the image of C -> entries that other threads have formed again
//
// Limits: memory bandwidth to about 100 rows of float64, then the tensor cores.
//
//   TILE    tiles of 16 along a side of a warp's square
//   PARTS   blocks per matrix, each with a part of its squares and all of A
//   BLK_K   columns of A per panel
//   STAGES  places of the ring of panels, or of groups
//   KSTEP   values of k per instruction
//   GROUP   matrices per block
//   OUT     how C leaves; as TF32 products by way of an image, where entries can be formed again
#pragma once
#include "kernels/batched/rank_k/square.cuh"
#include "kernels/batched/rank_k/triangle.cuh"

namespace mansard {

// Gather a warp's entries in the image of its matrix; returns whether some must be formed again.
template <class Written, class Square>
MANSARD_DEVICE bool gather_square(const Square& square, typename Square::T* image, const Scales& scales) {
  using T = typename Square::T;
  bool wrong = false;
  square.for_each([&](int row, int column, const T* sums) {
    MANSARD_UNROLL
    for (int i = 0; i < Square::PUT; ++i) {
      if (!square.stores(row, column + i)) continue;
      const T entry = scales.product(sums[i]);
      if constexpr (Square::SPLIT) wrong |= is_nan(entry);
      Written::put(row, column + i, entry, [&](int r, int c, T x) { image[r * Written::C::PITCH + c] = x; });
    }
  });
  return wrong;
}

// Form the entries again that are NaN, by ordinary multiply-adds: the halves of an infinity are an infinity and a NaN.
template <class P, class S, class Written, class Operands, class T>
MANSARD_DEVICE void repair(T* image, const Operands& x, i64 first, int count, int rank) {
  constexpr int SIZE = P::N * P::N;
  const i64 row_step = S::A::ROW_MAJOR ? x.A.line : x.A.step, k_step = S::A::ROW_MAJOR ? x.A.step : x.A.line;
MANSARD_UNROLL_BY(1)
  for (int e = rank; e < count * SIZE; e += S::THREADS) {
    const int m = e / SIZE, row = e % SIZE / P::N, column = e % P::N;
    T* const at = image + m * S::C::MATRIX;
    if (row < column || !is_nan(at[P::UPLO == Uplo::upper ? column * S::C::PITCH + row : row * S::C::PITCH + column]))
      continue;
    const T* const a = matrix_at(x.A.base, x.A.matrix, first + m);
    T sum = zero<T>();
MANSARD_UNROLL_BY(1)
    for (int k = 0; k < P::K; ++k) {
      const T y = a[column * row_step + k * k_step];
      multiply_add<P::CONJ_A>(sum, a[row * row_step + k * k_step], P::CONJ_B ? conjugate(y) : y);
    }
    Written::put(row, column, x.scales.product(sum), [&](int r, int c, T entry) { at[r * S::C::PITCH + c] = entry; });
  }
}

// Store a warp's entries from registers.
template <class P, class Written, class Square, class Operands>
MANSARD_DEVICE void store_square(const Square& square, const Operands& x, i64 index) {
  using T = typename Square::T;
  T* const to = matrix_at(x.C.base, x.C.matrix, index);
  square.for_each([&](int row, int column, const T* sums) {
    Pack<T, Square::PUT> pack;
    MANSARD_UNROLL
    for (int i = 0; i < Square::PUT; ++i) pack.e[i] = x.scales.product(sums[i]);
    // both are of the lower triangle, on a boundary of their common size, and of this square
    constexpr bool TOGETHER = Square::PUT == 2 && P::ADJACENT >= 2 && P::UPLO != Uplo::upper && !P::ACCUMULATE;
    if (TOGETHER && row > column && square.stores(row, column)) {
      if constexpr (P::UPLO == Uplo::full)
        MANSARD_UNROLL
        for (int i = 0; i < Square::PUT; ++i) to[(column + i) * x.C.line + row] = pack.e[i];
      store_pack(to + row * x.C.line + column, pack);
      return;
    }
    MANSARD_UNROLL
    for (int i = 0; i < Square::PUT; ++i)
      if (square.stores(row, column + i)) Written::direct_entry(to, row, column + i, pack.e[i], x);
  });
}

// Store the entries of a group: from registers, or by way of an image where its panel was.
template <class P, class Operands>
MANSARD_DEVICE void leave(const Square<P>& square, unsigned char* place, const Operands& x, i64 first, int count,
                          int matrix, bool active, int rank) {
  using S = TensorShape<P>;
  using T = typename P::T;
  using Written = Triangle<P, S>;
  if constexpr (S::BY_IMAGE) {
    T* const image = S::C::origin(reinterpret_cast<T*>(place), x.C, first);
    __syncthreads();  // panels are about to be overwritten by entries of C; all warps have read them
    bool wrong = false;
    if (active) wrong = gather_square<Written>(square, image + matrix * S::C::MATRIX, x.scales);
    if constexpr (Square<P>::SPLIT) {
      if (__syncthreads_or(wrong)) {  // the image of C is complete, written by all warps
        repair<P, S, Written>(image, x, first, count, rank);
        __syncthreads();  // the image of C: entries that other threads have formed again
      }
    } else {
      __syncthreads();  // the image of C is complete, written by all warps
    }
    Written::template store<S::THREADS>(reinterpret_cast<T*>(place), image, x, first, count, rank);
  } else if (active) {
    store_square<P, Written>(square, x, first + matrix);
  }
}

// One group after the other, of which the next one is on its way. `matrix` and `exists`: the warp's of a group.
template <class P, class Operands>
MANSARD_DEVICE void pass_groups(Square<P>& square, const Operands& x, unsigned char* arena, i64 batch, int matrix,
                                bool exists, int rank) {
  using S = TensorShape<P>;
  using T = typename P::T;
  const auto count_of = [&](i64 first) { return batch - first < P::GROUP ? static_cast<int>(batch - first) : P::GROUP; };
  const auto place = [&](int at) { return arena + at * P::PLACE; };
  const auto fill = [&](i64 first, int at) {
    if (first < batch)
      S::A::template fill<S::THREADS>(reinterpret_cast<T*>(place(at)), x.A, first, count_of(first), batch, 0, rank);
    cp_async_commit();
  };
  const i64 step = static_cast<i64>(gridDim.x) * P::GROUP;
  i64 first = static_cast<i64>(blockIdx.x) * P::GROUP;
  fill(first, 0);
MANSARD_UNROLL_BY(1)
  for (int at = 0; first < batch; first += step, at ^= 1) {
    fill(first + step, at ^ 1);
    cp_async_wait<1>();
    __syncthreads();  // this group: the copies of all threads have arrived
    const bool active = exists && matrix < count_of(first);
    square.unit.clear();
    const T* a = S::A::origin(reinterpret_cast<T*>(place(at)), x.A, first, 0);
    if (active) square.template multiply<P::K>(a + matrix * S::OF_A);
    leave<P>(square, place(at), x, first, count_of(first), matrix, active, rank);
    __syncthreads();  // the place of this group, read by all threads, is about to be filled again
  }
}

template <class P, class Arguments>
MANSARD_DEVICE void rank_k_tensor(const Arguments& x) {
  using S = TensorShape<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const Updated<P, Arguments> operands(x);
  const int rank = static_cast<int>(threadIdx.x), matrix = rank / 32 / S::OF_BLOCK;
  const int index = static_cast<int>(blockIdx.x) % P::PARTS * S::OF_BLOCK + rank / 32 % S::OF_BLOCK;  // of the square
  const bool exists = index < S::TILES;
  Square<P> square(exists ? index : 0, rank % 32);
  if constexpr (S::RING_OF_GROUPS) {
    pass_groups<P>(square, operands, arena, x.BATCH, matrix, exists, rank);
  } else {
    const i64 batch = x.BATCH, first = static_cast<i64>(blockIdx.x) / P::PARTS * P::GROUP;
    const int count = batch - first < P::GROUP ? static_cast<int>(batch - first) : P::GROUP;
    const bool active = exists && matrix < count;
    multiply_panels<P, S>(operands, arena, first, count, batch, rank, [&](auto depth, const T* a, const T*) {
      if (active) square.template multiply<decltype(depth)::VALUE>(a + matrix * S::OF_A);
    });
    leave<P>(square, arena, operands, first, count, matrix, active, rank);
  }
}

}  // namespace mansard
