// A = P L U of a batch of tiny matrices: a team of LANES lanes of one warp factors one matrix in registers.
//
// Step k, for k = 0 .. min(M, N) - 1:
//   find p >= k with the largest |a_pk|, exchange rows k and p;  l_ik = a_ik / a_kk;  a_ij -= l_ik * a_kj for i, j > k
// WANT says which result is stored: L, U and pivots (factor); X, with b_i -= l_ik * b_k in every step and backward
// substitution at the end (solve); the inverse by Gauss-Jordan elimination (jordan.cuh); the product of the pivots
// (determinant, logdet).
//
// Team. A warp takes GROUP = 32 / LANES consecutive matrices, one per team. LANES > 2: the rows of a matrix are
// distributed over the lanes of its team, whole rows in registers (rows.cuh, search.cuh). LANES = 1: a lane holds a
// whole matrix (whole.cuh). LANES = 2: both lanes of a team hold the same matrix and do the same work; a warp then has
// half as many matrices, so that more warps fit. Warps do not communicate.
//
// Shared memory of one warp, OF_WARP bytes; regions below each other share their place:
//
//   offset           0                                PLACE_A                PLACE_A + PLACE_B          OF_WARP
//   phases 1 and 2   [ A image                       ][ B image (solve)     ][                          ]
//   phase 3          [ lines | solved (solve)        ][                     ][ exchanged | inverted     ]
//   phases 4 and 5   [ F image, or lines | solved    ][ X image (solve)     ][ exchanged | inverted or order ]
//
//   region     bytes                       written by                                 read by
//   A, B       A::BYTES, B::BYTES          phase 1: copies of all 32 lanes            phase 2
//   lines      CARRIED, VIA shared only    step k: the lane that owns the pivot row   step k, by its team
//              (two per team, k % 2)
//   solved     GROUP * SOLVED records      step k: rank 0 of the team                 backward substitution
//   exchanged  STEP_BYTES                  step k: one lane of the team               phase 5 (pivots, sign), inverses
//   inverted   GROUP * INVERTED numbers    step k: rank 0 (inverse, LANES > 2)        phase 4
//   order      GROUP * ORDER ints          phase 4 (LOOKED_UP)                        phase 5
//   F, X       F::BYTES, X::BYTES          phase 4                                    phase 5
// `solved` replaces `exchanged` and lies at offset CARRIED inside the place of A (INSIDE): a solve with LANES > 2 needs
// neither A nor F there by then.
//
// Phases and barriers (all of them __syncwarp: barrier -> buffer -> writer):
//   1  copy A (and B) to shared memory, 16 bytes at a time     -> A, B         -> asynchronous copies of other lanes
//   2  load rows into registers                                -> A            -> lines or solved of phase 3
//   3  eliminate; VIA shared, one barrier per step             -> line k % 2   -> owner of the pivot row
//      after the last step                                     -> A or lines   -> F and X images of phase 4;
//                                                                 solved etc.  -> their writers of phase 3
//   4  substitute, or write rows to the F image                -> F, X, order  -> other lanes of the warp
//   5  store F or X, pivots, info to global memory
//
// Limits: memory bandwidth up to about 12 rows of float64 (factor: 94 % of a copy and more, H200). Beyond: the
// dependent instructions of a step (search, vote, inverse, broadcast), and the pipe that shuffles share with shared
// memory.
//
//   LANES   lanes of a team
//   ROLLED  four consecutive steps share their code; for inverses all steps do
//   WARPS   warps per block
//   VIA     how the pivot row reaches the other lanes: shuffles (lanes), or lines in shared memory (shared)
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
  static constexpr int RIGHT = SOLVE ? P::NRHS : 1, UNKNOWNS = SOLVE ? N : 1;  // 1 x 1: there is no B and no X
  using A = ImageOf<T, P::LAYOUT_A, M, N, GROUP, P::FEED_A, P::ALIGNED, P::PITCH_A, P::MATRIX_A>;
  using F = ImageOf<T, P::LAYOUT_F, WRITES ? M : 1, WRITES ? N : 1, GROUP, P::FEED_F, P::ALIGNED, P::PITCH_F,
                    P::MATRIX_F>;
  using B = ImageOf<T, P::LAYOUT_B, UNKNOWNS, RIGHT, GROUP, P::FEED_B, P::ALIGNED, P::PITCH_B, P::MATRIX_B>;
  using X = ImageOf<T, P::LAYOUT_X, UNKNOWNS, RIGHT, GROUP, P::FEED_X, P::ALIGNED, P::PITCH_X, P::MATRIX_X>;
  static constexpr int most(int a, int b) { return a > b ? a : b; }
  static constexpr bool DEALT = P::LANES > 2;  // the rows of a matrix are distributed over the lanes of its team
  static constexpr int CARRIED = DEALT ? Rows<P, P::LANES>::CARRIED * int(sizeof(T)) : 0;  // bytes of the lines
  static constexpr int IMAGE = most(CARRIED, WRITES ? most(A::BYTES, F::BYTES) : A::BYTES);
  static constexpr int PLACE_B = SOLVE ? most(B::BYTES, X::BYTES) : 0;
  // Entries of `size` bytes from one team's records to the next: STEPS of them and padding to an odd multiple of 16
  // bytes, so that teams begin in different banks.
  static constexpr int apart(int size) { return (ceil_div(STEPS * size, 16) | 1) * 16 / size; }
  static constexpr bool INSIDE = SOLVE && DEALT;  // records of steps lie in the place of A
  static constexpr int STEP_BYTES = INSIDE ? 0 : ceil_div(GROUP * STEPS * 4, 16) * 16;
  static constexpr int SOLVED = INSIDE ? apart(int(sizeof(Solved<T>))) : 0;
  static constexpr int INVERTED = DEALT && INVERSE ? apart(int(sizeof(T))) : 0;
  // Solutions overwrite the inverses in `solved` and are copied to the X image at the end by all lanes. Stored one by
  // one, by rank 0 of every team, they would collide: the x of two teams are a multiple of 64 bytes apart.
  static constexpr bool GATHERED = INSIDE && RIGHT == 1 && GROUP > 1 && N * sizeof(T) % 64 == 0;
  // The F image holds rows in the order of A, where stores of lanes do not collide; `order` finds them when they leave
  // for global memory. Pays for orders that are powers of two, where the lookup takes no divisions (H200).
  static constexpr bool LOOKED_UP = FACTOR && DEALT && P::PIVOT && P::LAYOUT_F == Layout::row && M == N &&
                                    (N & (N - 1)) == 0 && !F::SHIFTED && P::FEED_F != Feed::elements &&
                                    sizeof(T) > 4 && (M > P::LANES || M > 16);
  static constexpr int ORDER = LOOKED_UP ? M : 0;
  static constexpr int OF_STEPS =  // bytes of exchanged, inverted, order, or of solved
      STEP_BYTES + GROUP * (INVERTED * int(sizeof(T)) + SOLVED * int(sizeof(Solved<T>)) + ORDER * 4);
  static constexpr int PLACE_A = INSIDE ? most(A::BYTES, CARRIED + OF_STEPS) : IMAGE;
  static constexpr int OF_WARP = PLACE_A + PLACE_B + (INSIDE ? 0 : OF_STEPS);
  static_assert(P::WARPS * OF_WARP <= P::SHARED_BYTES, "shared memory");
  static_assert(GROUP * P::LANES == 32);
};

// Load N entries of one row of an image into registers.
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
// Store N entries from registers as one row of an image.
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

// Addresses of one team's matrix in shared memory (memory map above).
template <class P>
struct LuGroup {
  using T = typename P::T;
  T *a, *f, *b, *x;  // images
  Steps<T> steps;
  T* carried;  // the team's line for even steps; that for odd steps is TEAMS lines behind it
  int* order;  // order[i]: row of the F image that holds row i of L and U (LOOKED_UP)
};

// Phases 2 to 4 where a lane holds a whole matrix (LANES 1 and 2).
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
  __syncwarp();  // images A and B are about to be overwritten by F and X of other lanes; all lanes have read them
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

// Phases 2 to 4 where a team shares the rows of a matrix: factors, solutions and determinants.
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
  if constexpr (rows.SHARED || S::INSIDE) __syncwarp();  // A is about to be overwritten by lines and solved
  rows.eliminate(group.steps);
  __syncwarp();  // A and lines are about to be overwritten by F; solved, written by rank 0, is complete
  if constexpr (S::SOLVE) {
    const auto place = [&](int k, int c) { return group.x + entry_at<P::LAYOUT_X, S::X::PITCH>(k, c); };
    Solved<T>* solved = group.steps.solved;
    rows.substitute(solved, [&](int k, int c, T x) {
      if constexpr (S::GATHERED) __syncwarp();  // solved[k] is about to be overwritten by x_k; the team has read it
      if (rank == 0) *(S::GATHERED ? &solved[k].inverse : place(k, c)) = x;
    });
    if constexpr (S::GATHERED) {
      __syncwarp();  // solved holds x, written by rank 0; all lanes of the team copy it to the X image
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

// Phases 2 to 4 where a team shares the rows of a matrix: inverses.
template <class P>
MANSARD_DEVICE void inverse_of_team(const LuGroup<P>& group, int rank, int& info) {
  using S = LuLanesShape<P>;
  Jordan<P, P::LANES> rows(rank);
  MANSARD_UNROLL
  for (int q = 0; q < rows.SLOTS; ++q)
    load_row<typename S::A, P::LAYOUT_A, S::N>(rows.a[q], group.a, rows.some_row(q));
  rows.carried = group.carried;
  if constexpr (rows.SHARED) __syncwarp();  // A is about to be overwritten by lines
  rows.invert(group.steps);
  __syncwarp();  // A and lines are about to be overwritten by F; exchanged and inverted are complete
  rows.give(group.steps, [&](int i, int j, typename P::T x) { group.f[entry_at<P::LAYOUT_F, S::F::PITCH>(i, j)] = x; });
  info = rows.info;
}

// Whether the sign of P is -1: whether an odd number of steps exchanged two rows.
template <int STEPS>
MANSARD_DEVICE bool is_odd_permutation(const int* steps) {
  bool odd = false;
  MANSARD_UNROLL_BY(1)
  for (int k = 0; k < STEPS; ++k) odd ^= steps[k] != k;
  return odd;
}

// Store the F image to global memory 16 bytes at a time; row i of a matrix is row order[i] of its image.
template <class P, class Pointer>
MANSARD_DEVICE void store_looked_up(const typename P::T* memory, const int* order, const Place<Pointer>& place,
                                    i64 first, int count, int lane) {
  using S = LuLanesShape<P>;
  using F = typename S::F;
  const auto from = [&](int e) {
    const int row = e / S::N;  // counted over all matrices of the group
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
  unsigned char* rest = after + S::STEP_BYTES;  // inverted (inverse) or order (LOOKED_UP)
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
  __syncwarp();  // A and B images: the copies of all lanes have arrived

  int info;
  Determinant<T, P::WANT> determinant;
  if constexpr (!S::DEALT) lu_of_one<P>(group, info, determinant);
  else if constexpr (S::INVERSE) inverse_of_team<P>(group, rank, info);
  else lu_of_team<P>(group, rank, info, determinant);
  __syncwarp();  // F, X, order and exchanged are complete; from here on lanes read what other lanes wrote

  const bool speaks = rank == 0 && team < count;  // one lane per matrix writes info and the determinant
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
