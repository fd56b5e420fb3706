// A = P L U for a stack of tiny matrices: a few lanes of a warp per matrix, or one.
//
// A warp takes consecutive matrices, copies them to shared memory 16 bytes at a time (gemm's image.cuh), lets teams of
// LANES lanes eliminate one matrix each in registers (rows.cuh, for inverses jordan.cuh; whole.cuh where a lane has a
// whole matrix), and returns what is wanted through shared memory. Warps meet nobody else, and come and go.
//
//   LANES   lanes of a team; one has a whole matrix, and two have the same: fewer matrices per warp, and more warps
//   ROLLED  four steps share their code, of inverses all
//   WARPS   warps per block
//   VIA     what carries the pivot's row: shuffles (lanes) or shared memory
#pragma once
#include "kernels/factor/lu/jordan.cuh"
#include "kernels/factor/lu/operands.cuh"
#include "kernels/factor/lu/rows.cuh"
#include "kernels/factor/lu/whole.cuh"

namespace mansard {

template <class P>
struct LuLanesShape {
  using T = typename P::T;
  static constexpr int GROUP = 32 / P::LANES, THREADS = P::WARPS * 32;
  static constexpr int M = P::M, N = P::N, STEPS = M < N ? M : N;
  static constexpr bool SOLVE = P::WANT == Want::solve, INVERSE = P::WANT == Want::inverse;
  static constexpr bool FACTOR = P::WANT == Want::factor, WRITES = FACTOR || INVERSE;
  static constexpr int RIGHT = SOLVE ? P::NRHS : 1, UNKNOWNS = SOLVE ? N : 1;  // 1 x 1: absent
  using A = ImageOf<T, P::LAYOUT_A, M, N, GROUP, P::FEED_A, P::ALIGNED, P::PITCH_A, P::MATRIX_A>;
  using F = ImageOf<T, P::LAYOUT_F, WRITES ? M : 1, WRITES ? N : 1, GROUP, P::FEED_F, P::ALIGNED, P::PITCH_F,
                    P::MATRIX_F>;
  using B = ImageOf<T, P::LAYOUT_B, UNKNOWNS, RIGHT, GROUP, P::FEED_B, P::ALIGNED, P::PITCH_B, P::MATRIX_B>;
  using X = ImageOf<T, P::LAYOUT_X, UNKNOWNS, RIGHT, GROUP, P::FEED_X, P::ALIGNED, P::PITCH_X, P::MATRIX_X>;
  static constexpr int most(int a, int b) { return a > b ? a : b; }
  static constexpr bool DEALT = P::LANES > 2;  // the rows of a matrix, among lanes
  static constexpr int CARRIED = DEALT ? Rows<P, P::LANES>::CARRIED * int(sizeof(T)) : 0;  // once A is read
  static constexpr int IMAGE = most(CARRIED, WRITES ? most(A::BYTES, F::BYTES) : A::BYTES);
  static constexpr int PLACE_B = SOLVE ? most(B::BYTES, X::BYTES) : 0;
  // pivots of a group, and their inverses, teams in different banks: where A was, if nobody needs that place again
  static constexpr int apart(int size) { return (ceil_div(STEPS * size, 16) | 1) * 16 / size; }
  static constexpr bool INSIDE = SOLVE && DEALT;
  static constexpr int STEP_BYTES = INSIDE ? 0 : ceil_div(GROUP * STEPS * 4, 16) * 16;
  static constexpr int SOLVED = INSIDE ? apart(int(sizeof(Solved<T>))) : 0;
  static constexpr int INVERTED = DEALT && INVERSE ? apart(int(sizeof(T))) : 0;
  // Solutions follow the inverses, and go to their own place together, where teams would collide one by one.
  static constexpr bool GATHERED = INSIDE && RIGHT == 1 && GROUP > 1 && N * sizeof(T) % 64 == 0;
  // Rows of factors stay where their lanes put them without colliding, and are looked up on their way out: of orders
  // that are powers of two, where that takes no divisions.
  static constexpr bool LOOKED_UP = FACTOR && DEALT && P::PIVOT && P::LAYOUT_F == Layout::row && M == N &&
                                    (N & (N - 1)) == 0 && !F::SHIFTED && P::FEED_F != Feed::elements &&
                                    sizeof(T) > 4 && (M > P::LANES || M > 16);
  static constexpr int ORDER = LOOKED_UP ? M : 0;
  static constexpr int OF_STEPS =
      STEP_BYTES + GROUP * (INVERTED * int(sizeof(T)) + SOLVED * int(sizeof(Solved<T>)) + ORDER * 4);
  static constexpr int PLACE_A = INSIDE ? most(A::BYTES, CARRIED + OF_STEPS) : IMAGE;
  static constexpr int OF_WARP = PLACE_A + PLACE_B + (INSIDE ? 0 : OF_STEPS);
  static_assert(P::WARPS * OF_WARP <= P::SHARED_BYTES, "shared memory");
  static_assert(GROUP * P::LANES == 32);
};

// Rows of a lane (of a matrix, where it has all of them), from an image or to it.
template <class Image, Layout LAYOUT, int N, class T>
MANSARD_DEVICE void load_row(T* to, const T* from, int row) {
  constexpr int READ = LAYOUT == Layout::col ? 1 : Image::READ;
  MANSARD_UNROLL
  for (int j = 0; j < N; j += READ) {
    const auto pack = *reinterpret_cast<const Pack<T, READ>*>(from + entry_at<LAYOUT, Image::PITCH>(row, j));
    MANSARD_UNROLL
    for (int i = 0; i < READ; ++i) to[j + i] = pack.e[i];
  }
}
template <class Image, Layout LAYOUT, int N, class T>
MANSARD_DEVICE void store_row(T* to, const T* from, int row) {
  constexpr int READ = LAYOUT == Layout::col ? 1 : Image::READ;
  MANSARD_UNROLL
  for (int j = 0; j < N; j += READ) {
    Pack<T, READ> pack;
    MANSARD_UNROLL
    for (int i = 0; i < READ; ++i) pack.e[i] = from[j + i];
    *reinterpret_cast<Pack<T, READ>*>(to + entry_at<LAYOUT, Image::PITCH>(row, j)) = pack;
  }
}

// One warp's group in shared memory: where things are.
template <class P>
struct LuGroup {
  using T = typename P::T;
  T *a, *f, *b, *x;  // of the team's matrix
  Steps<T> steps;
  T* carried;
  int* order;  // of each row of the factors, where it is
};

// A lane with a whole matrix.
template <class P>
MANSARD_DEVICE void lu_of_one(const LuGroup<P>& group, int& info, Determinant<typename P::T, P::WANT>& determinant) {
  using S = LuLanesShape<P>;
  Whole<P> matrix;
  MANSARD_UNROLL
  for (int i = 0; i < S::M; ++i) load_row<typename S::A, P::LAYOUT_A, S::N>(matrix.a[i], group.a, i);
  if constexpr (S::SOLVE) {
    MANSARD_UNROLL
    for (int i = 0; i < S::N; ++i)
      load_row<typename S::B, P::LAYOUT_B, S::RIGHT>(matrix.b[i], group.b, i);
  }
  __syncwarp();  // everybody has read what is overwritten
  matrix.eliminate(group.steps.exchanged);
  if constexpr (S::INVERSE) matrix.invert(group.steps.exchanged);
  if constexpr (S::SOLVE) {
    matrix.substitute();
    MANSARD_UNROLL
    for (int i = 0; i < S::N; ++i) store_row<typename S::X, P::LAYOUT_X, S::RIGHT>(group.x, matrix.b[i], i);
  }
  if constexpr (S::WRITES) {
    MANSARD_UNROLL
    for (int i = 0; i < S::M; ++i) store_row<typename S::F, P::LAYOUT_F, S::N>(group.f, matrix.a[i], i);
  }
  info = matrix.info;
  determinant = matrix.determinant;
}

// A lane with some rows.
template <class P>
MANSARD_DEVICE void lu_of_team(const LuGroup<P>& group, int rank, int& info,
                               Determinant<typename P::T, P::WANT>& determinant) {
  using S = LuLanesShape<P>;
  using T = typename P::T;
  Rows<P, P::LANES> rows(rank);
  MANSARD_UNROLL
  for (int q = 0; q < rows.SLOTS; ++q) {
    const int row = rows.some_row(q);
    load_row<typename S::A, P::LAYOUT_A, S::N>(rows.a[q], group.a, row);
    if constexpr (S::SOLVE) load_row<typename S::B, P::LAYOUT_B, S::RIGHT>(rows.b[q], group.b, row);
  }
  rows.carried = group.carried;
  if constexpr (rows.SHARED || S::INSIDE) __syncwarp();
  rows.eliminate(group.steps);
  __syncwarp();  // everybody has read what is overwritten
  if constexpr (S::SOLVE) {
    const auto place = [&](int k, int c) { return group.x + entry_at<P::LAYOUT_X, S::X::PITCH>(k, c); };
    Solved<T>* solved = group.steps.solved;
    rows.substitute(solved, [&](int k, int c, T x) {
      if constexpr (S::GATHERED) __syncwarp();  // all have read step k, whose place the result takes
      if (rank == 0) *(S::GATHERED ? &solved[k].inverse : place(k, c)) = x;
    });
    if constexpr (S::GATHERED) {
      __syncwarp();
      MANSARD_UNROLL
      for (int q = 0; q < rows.SLOTS; ++q) {
        const int k = rank + q * P::LANES;
        if (S::N % P::LANES == 0 || k < S::N) *place(k, 0) = solved[k].inverse;
      }
    }
  }
  if constexpr (S::FACTOR) {
    MANSARD_UNROLL
    for (int q = 0; q < rows.SLOTS; ++q)
      if (rows.has(q)) {
        const int row = S::LOOKED_UP ? rows.row_of(q) : rows.place[q];
        store_row<typename S::F, P::LAYOUT_F, S::N>(group.f, rows.a[q], row);
        if constexpr (S::LOOKED_UP) group.order[rows.place[q]] = row;
      }
  }
  info = rows.info;
  determinant = rows.determinant;
  if constexpr (rows.PRODUCT) determinant.template gather<P::LANES>();
}

// The same, of which an inverse is wanted.
template <class P>
MANSARD_DEVICE void inverse_of_team(const LuGroup<P>& group, int rank, int& info) {
  using S = LuLanesShape<P>;
  Jordan<P, P::LANES> rows(rank);
  MANSARD_UNROLL
  for (int q = 0; q < rows.SLOTS; ++q)
    load_row<typename S::A, P::LAYOUT_A, S::N>(rows.a[q], group.a, rows.some_row(q));
  rows.carried = group.carried;
  if constexpr (rows.SHARED) __syncwarp();
  rows.invert(group.steps);
  __syncwarp();  // everybody has read what is overwritten
  rows.give(group.steps, [&](int i, int j, typename P::T x) { group.f[entry_at<P::LAYOUT_F, S::F::PITCH>(i, j)] = x; });
  info = rows.info;
}

// Signs of a permutation: how many of the steps exchanged rows.
template <int STEPS>
MANSARD_DEVICE bool is_odd_permutation(const int* steps) {
  bool odd = false;
  MANSARD_UNROLL_BY(1)
  for (int k = 0; k < STEPS; ++k) odd ^= steps[k] != k;
  return odd;
}

// Factors whose rows are where `order` says, 16 bytes at a time.
template <class P, class Pointer>
MANSARD_DEVICE void store_looked_up(const typename P::T* memory, const int* order, const Place<Pointer>& place,
                                    i64 first, int count, int lane) {
  using S = LuLanesShape<P>;
  using F = typename S::F;
  const auto from = [&](int e) {
    const int row = e / S::N;  // of all the group's matrices
    const auto* entry = memory + row / S::M * F::MATRIX + order[row] * F::PITCH + e % S::N;
    return *reinterpret_cast<const Pack<typename P::T, F::VECTOR>*>(entry);
  };
  if constexpr (F::FEED == Feed::flat) {
    auto* pieces = place.base + first * F::SIZE + lane * F::VECTOR;
    if (count == F::GROUP)
      F::template deal<F::PIECES, 32>(lane, [&](int i, int j) {
        store_pack(pieces + j * F::VECTOR, from(i * F::VECTOR));
      });
    else
      F::template deal<F::PIECES, 32>(lane, [&](int i, int j) {
        if (i * F::VECTOR < count * F::SIZE) store_pack(pieces + j * F::VECTOR, from(i * F::VECTOR));
      });
  } else {
    F::template deal<F::PIECES, 32>(lane, [&](int i, int) {
      const int e = i * F::VECTOR, row = e / S::N, matrix = row / S::M;
      if (matrix < count) {
        auto* to = matrix_at(place.base, place.matrix, first + matrix) + row % S::M * place.line;
        store_pack(to + e % S::N, from(e));
      }
    });
  }
}

template <class P, class Arguments>
MANSARD_DEVICE void lu_lanes(const Arguments& arguments) {
  using S = LuLanesShape<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const Operands<P, Arguments> operands(arguments);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, team = lane / P::LANES, rank = lane % P::LANES;
  const i64 batch = arguments.BATCH, first = (static_cast<i64>(blockIdx.x) * P::WARPS + warp) * S::GROUP;
  if (first >= batch) return;
  const int count = batch - first < S::GROUP ? static_cast<int>(batch - first) : S::GROUP;
  unsigned char* mine = arena + warp * S::OF_WARP;
  T* place_a = reinterpret_cast<T*>(mine);
  T* place_b = reinterpret_cast<T*>(mine + S::PLACE_A);
  unsigned char* after = mine + (S::INSIDE ? S::CARRIED : S::PLACE_A + S::PLACE_B);
  int* all_steps = reinterpret_cast<int*>(after);
  S::A::template fill<32>(place_a, operands.A, first, count, batch, lane);
  if constexpr (S::SOLVE) S::B::template fill<32>(place_b, operands.B, first, count, batch, lane);
  cp_async_commit();
  unsigned char* rest = after + S::STEP_BYTES;  // inverted pivots, or the order of rows
  int* order = reinterpret_cast<int*>(rest);
  const Steps<T> steps{all_steps + team * S::STEPS, reinterpret_cast<T*>(rest) + team * S::INVERTED,
                       reinterpret_cast<Solved<T>*>(after) + team * S::SOLVED};
  LuGroup<P> group{S::A::origin(place_a, operands.A, first) + team * S::A::MATRIX, nullptr, nullptr, nullptr, steps,
                   place_a, order + team * S::ORDER};
  if constexpr (S::DEALT) group.carried += team * Rows<P, P::LANES>::LINE;
  if constexpr (S::WRITES) group.f = S::F::origin(place_a, operands.F, first) + team * S::F::MATRIX;
  if constexpr (S::SOLVE) {
    group.b = S::B::origin(place_b, operands.B, first) + team * S::B::MATRIX;
    group.x = S::X::origin(place_b, operands.X, first) + team * S::X::MATRIX;
  }
  cp_async_wait<0>();
  __syncwarp();

  int info;
  Determinant<T, P::WANT> determinant;
  if constexpr (!S::DEALT) lu_of_one<P>(group, info, determinant);
  else if constexpr (S::INVERSE) inverse_of_team<P>(group, rank, info);
  else lu_of_team<P>(group, rank, info, determinant);
  __syncwarp();

  const bool speaks = rank == 0 && team < count;
  if (speaks) arguments.INFO[first + team] = info;
  const Scales none{};
  if constexpr (S::LOOKED_UP)
    store_looked_up<P>(place_a, order, operands.F, first, count, lane);
  else if constexpr (S::WRITES) S::F::template store<32, false>(place_a, operands.F, first, count, none, lane);
  if constexpr (S::SOLVE) S::X::template store<32, false>(place_b, operands.X, first, count, none, lane);
  if constexpr (S::FACTOR) {
    int* pivots = arguments.PIVOTS + first * S::STEPS;
MANSARD_UNROLL_BY(4)
    for (int i = lane; i < count * S::STEPS; i += 32) pivots[i] = all_steps[i];
  }
  if constexpr (P::WANT == Want::determinant || P::WANT == Want::logdet) {
    if (speaks) {
      T value = determinant.value;
      if (is_odd_permutation<S::STEPS>(group.steps.exchanged)) value = negated(value);
      matrix_at(arguments.F, arguments.f_matrix, first + team)[0] = value;
      if constexpr (P::WANT == Want::logdet)
        reinterpret_cast<typename Scalar<T>::Real*>(arguments.X)[first + team] = determinant.logarithm;
    }
  }
}

}  // namespace mansard
