// Columns of a matrix in shared memory, and the share of a lane in a column.
//
// A team of LANES lanes works on a column: lane l has pieces l, l + LANES, ... of 16 bytes each. Columns begin an odd
// number of pieces apart, so that rows are read with few bank conflicts, too. Entries beyond row N are zero.
#pragma once
#include "kernels/factor/jacobi/rotations.cuh"

namespace mansard {

// Entries that one instruction reads from shared memory.
template <class T>
struct alignas(16) Piece {
  static constexpr int SIZE = 16 / static_cast<int>(sizeof(T));
  T entry[SIZE];
};

template <class P>
struct BlockShape {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N, LANES = P::LANES, SIZE = Piece<T>::SIZE;
  static constexpr int PIECES = ceil_div(N, SIZE), STEPS = ceil_div(PIECES, LANES);  // of a column; of a lane
  static constexpr int OWN = STEPS * SIZE, PITCH = (PIECES | 1) * SIZE;               // entries of a lane; of a column
  static constexpr int SEATS = N + N % 2, ROUNDS = SEATS - 1, PAIRS = SEATS / 2;
  static constexpr int THREADS = ceil_div(PAIRS * LANES, 32) * 32;
  static constexpr bool HAS_VECTORS = P::WANT == Want::svd;
  static constexpr int MATRICES = HAS_VECTORS ? 2 : 1;
  // Bytes of BlockMemory, which `work.py` gives as well.
  static constexpr int BYTES =
      (MATRICES * N * PITCH + SEATS) * int(sizeof(T)) + 2 * SEATS * int(sizeof(R)) + (2 * SEATS + 32) * 4;
  static_assert((LANES & (LANES - 1)) == 0 && LANES <= 32, "a team is a power of two of lanes of one warp");
  static_assert(BYTES <= P::SHARED_BYTES);
};

// Shared memory of a block.
template <class P>
struct BlockMemory {
  using S = BlockShape<P>;
  using T = typename S::T;
  using R = typename S::R;
  T *columns, *vectors;  // N columns each: A J, and J
  T* along;              // one per column: products with the column that completes a basis
  R *squares, *lengths;  // one per column
  int *rank, *source;    // of a column in the order of the values; the column of a rank
  u32* largest;          // one per warp

  MANSARD_DEVICE explicit BlockMemory(T* arena) : columns(arena), vectors(arena + (S::MATRICES - 1) * S::N * S::PITCH) {
    along = arena + S::MATRICES * S::N * S::PITCH;
    squares = reinterpret_cast<R*>(along + S::SEATS);
    lengths = squares + S::SEATS;
    rank = reinterpret_cast<int*>(lengths + S::SEATS);
    source = rank + S::SEATS;
    largest = reinterpret_cast<u32*>(source + S::SEATS);
  }
};

// Sum over the lanes of a team, the same bits in all of them.
template <int LANES, class R>
MANSARD_DEVICE R team_sum(R x) {
  MANSARD_UNROLL
  for (int step = LANES / 2; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}
template <int LANES, class R>
MANSARD_DEVICE Complex<R> team_sum(Complex<R> x) {
  return {team_sum<LANES>(x.re), team_sum<LANES>(x.im)};
}

// The entries of a column that one lane has, in registers.
template <class P>
struct Share {
  using S = BlockShape<P>;
  using T = typename S::T;
  using R = typename S::R;
  T entry[S::OWN];

  static MANSARD_DEVICE bool is_inside(int lane, int step) {
    return S::PIECES % S::LANES == 0 || step + 1 < S::STEPS || lane + step * S::LANES < S::PIECES;
  }
  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int i = 0; i < S::OWN; ++i) entry[i] = zero<T>();
  }
  MANSARD_DEVICE void load(const T* column, int lane) {
    const T* const from = column + lane * S::SIZE;
    MANSARD_UNROLL
    for (int step = 0; step < S::STEPS; ++step) {
      Piece<T> piece{};
      if (is_inside(lane, step)) piece = *reinterpret_cast<const Piece<T>*>(from + step * (S::LANES * S::SIZE));
      MANSARD_UNROLL
      for (int i = 0; i < S::SIZE; ++i) entry[step * S::SIZE + i] = piece.entry[i];
    }
  }
  MANSARD_DEVICE void store(T* column, int lane) const {
    T* const to = column + lane * S::SIZE;
    MANSARD_UNROLL
    for (int step = 0; step < S::STEPS; ++step) {
      Piece<T> piece;
      MANSARD_UNROLL
      for (int i = 0; i < S::SIZE; ++i) piece.entry[i] = entry[step * S::SIZE + i];
      if (is_inside(lane, step)) *reinterpret_cast<Piece<T>*>(to + step * (S::LANES * S::SIZE)) = piece;
    }
  }
  MANSARD_DEVICE void multiply(R by) {
    MANSARD_UNROLL
    for (int i = 0; i < S::OWN; ++i) entry[i] = by_real(entry[i], by);
  }
  // Square of the column's norm, in all lanes of the team.
  MANSARD_DEVICE R square() const {
    R sum[2] = {R(0), R(0)};  // two chains
    MANSARD_UNROLL
    for (int i = 0; i < S::OWN; ++i) sum[i % 2] += modulus_square(entry[i]);
    return team_sum<S::LANES>(sum[0] + sum[1]);
  }
  // x^H y of the columns, in all lanes of the team.
  friend MANSARD_DEVICE T product(const Share& x, const Share& y) {
    T sum[2] = {zero<T>(), zero<T>()};  // two chains
    MANSARD_UNROLL
    for (int i = 0; i < S::OWN; ++i) multiply_add<true>(sum[i % 2], x.entry[i], y.entry[i]);
    add_to(sum[0], sum[1]);
    return team_sum<S::LANES>(sum[0]);
  }
  friend MANSARD_DEVICE void rotate(const Rotation<T>& rotation, Share& x, Share& y) {
    MANSARD_UNROLL
    for (int i = 0; i < S::OWN; ++i) rotation.template turn<false>(x.entry[i], y.entry[i]);
  }
};

// Rotate two columns in shared memory, a piece at a time: few registers.
template <class P>
MANSARD_DEVICE void rotate_pieces(
    const Rotation<typename P::T>& rotation, typename P::T* first, typename P::T* second, int lane) {
  using S = BlockShape<P>;
  using Entries = Piece<typename P::T>;
  MANSARD_UNROLL
  for (int step = 0; step < S::STEPS; ++step) {
    if (!Share<P>::is_inside(lane, step)) continue;
    Entries *const x = reinterpret_cast<Entries*>(first) + lane + step * S::LANES;
    Entries *const y = reinterpret_cast<Entries*>(second) + lane + step * S::LANES;
    Entries own = *x, other = *y;
    MANSARD_UNROLL
    for (int i = 0; i < S::SIZE; ++i) rotation.template turn<false>(own.entry[i], other.entry[i]);
    *x = own, *y = other;
  }
}

}  // namespace mansard
