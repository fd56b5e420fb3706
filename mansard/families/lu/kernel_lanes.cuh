// A = P L U for a stack of tiny matrices: a few lanes of a warp per matrix, or one.
//
// A warp takes consecutive matrices, copies them to shared memory 16 bytes at a time (gemm's image.cuh), lets teams of
// LANES lanes eliminate one matrix each in registers (rows.cuh; whole.cuh where a lane has a whole matrix), and returns
// what is wanted through shared memory. Warps meet nobody else, and come and go.
//
//   LANES   lanes of a team; one has a whole matrix, and two have the same: fewer matrices per warp, and more warps
//   ROLLED  four steps share their code
//   WARPS   warps per block
//   VIA     what carries the pivot's row: shuffles (lanes) or shared memory
#pragma once
#include "families/lu/columns.cuh"
#include "families/lu/operands.cuh"
#include "families/lu/rows.cuh"
#include "families/lu/whole.cuh"

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
  // pivots of a group, and their inverses: where A was, if nobody needs that place again
  static constexpr int STEP_BYTES = ceil_div(GROUP * STEPS * 4, 16) * 16;
  static constexpr int INVERTED = DEALT && (SOLVE || INVERSE) ? STEPS : 0;
  static constexpr int OF_STEPS = STEP_BYTES + GROUP * INVERTED * int(sizeof(T));
  static constexpr bool INSIDE = SOLVE && DEALT;
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
  int* steps;
  T *inverted, *carried;
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
  matrix.eliminate(group.steps);
  if constexpr (S::INVERSE) matrix.invert(group.steps);
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
    const int row = rows.has(q) ? rows.row_of(q) : S::M - 1;
    load_row<typename S::A, P::LAYOUT_A, S::N>(rows.a[q], group.a, row);
    if constexpr (S::SOLVE) load_row<typename S::B, P::LAYOUT_B, S::RIGHT>(rows.b[q], group.b, row);
  }
  rows.carried = group.carried;
  if constexpr (rows.SHARED || S::INSIDE) __syncwarp();
  rows.eliminate(group.steps, group.inverted);
  __syncwarp();  // everybody has read what is overwritten
  if constexpr (S::SOLVE)
    rows.substitute(group.steps, group.inverted, [&](int k, int c, T x) {
      if (rank == 0) group.x[entry_at<P::LAYOUT_X, S::X::PITCH>(k, c)] = x;
    });
  if constexpr (S::WRITES) {
    MANSARD_UNROLL
    for (int q = 0; q < rows.SLOTS; ++q)
      if (rows.has(q)) store_row<typename S::F, P::LAYOUT_F, S::N>(group.f, rows.a[q], rows.place[q]);
  }
  if constexpr (S::INVERSE) {
    __syncwarp();
    Columns<P, P::LANES, S::F::PITCH> columns;
    columns.solve(group.f, group.inverted, rows.place);
    __syncwarp();  // everybody has read the factors
    columns.store(group.f, rank);
  }
  info = rows.info;
  determinant = rows.determinant;
  if constexpr (rows.PRODUCT) determinant.template gather<P::LANES>();
}

// Signs of a permutation: how many of the steps exchanged rows.
template <int STEPS>
MANSARD_DEVICE bool is_odd_permutation(const int* steps) {
  bool odd = false;
  MANSARD_UNROLL_BY(1)
  for (int k = 0; k < STEPS; ++k) odd ^= steps[k] != k;
  return odd;
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
  LuGroup<P> group{S::A::origin(place_a, operands.A, first) + team * S::A::MATRIX, nullptr, nullptr, nullptr,
                   all_steps + team * S::STEPS,
                   reinterpret_cast<T*>(after + S::STEP_BYTES) + team * S::INVERTED, place_a};
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
  else lu_of_team<P>(group, rank, info, determinant);
  __syncwarp();

  const bool speaks = rank == 0 && team < count;
  if (speaks) arguments.INFO[first + team] = info;
  const Scales none{};
  if constexpr (S::WRITES) S::F::template store<32, false>(place_a, operands.F, first, count, none, lane);
  if constexpr (S::SOLVE) S::X::template store<32, false>(place_b, operands.X, first, count, none, lane);
  if constexpr (S::FACTOR) {
    int* pivots = arguments.PIVOTS + first * S::STEPS;
MANSARD_UNROLL_BY(4)
    for (int i = lane; i < count * S::STEPS; i += 32) pivots[i] = all_steps[i];
  }
  if constexpr (P::WANT == Want::determinant || P::WANT == Want::logdet) {
    if (speaks) {
      T value = determinant.value;
      if (is_odd_permutation<S::STEPS>(group.steps)) value = negated(value);
      matrix_at(arguments.F, arguments.f_matrix, first + team)[0] = value;
      if constexpr (P::WANT == Want::logdet)
        reinterpret_cast<typename Scalar<T>::Real*>(arguments.X)[first + team] = determinant.logarithm;
    }
  }
}

}  // namespace mansard
