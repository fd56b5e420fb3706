// Copies, barriers and results of the Cholesky kernels with a team of TEAM lanes per matrix (`lanes` and `tile`).
//
// A warp takes GROUP = 32 / TEAM consecutive matrices, copies them to shared memory 16 bytes at a time (image.cuh),
// factors one per team in registers, and returns factors or X through shared memory. Warps do not communicate; other
// warps of the multiprocessor hide a warp's copies.
//
// Shared memory of a warp in factor_group (OF_WARP bytes):
//   0                   PLACE_A        A image; then F image, or (solve) L
//   PLACE_A             PLACE_B        B image; y; then X image (solve)
//   PLACE_A + PLACE_B   PLACE_COLUMNS  Worker::PLACES * GROUP places of COLUMN elements, place p of team t at number
//                                      p * GROUP + t
// In factor_direct and factor_ragged: the places for columns of all warps, then one slab of SLAB elements per team.
//
// A Worker is a lane's part of a matrix and of its right-hand sides (Rows or Tile).
//   WARPS     warps per block
//   TRIANGLE  copy only the lower triangle of A
//   DIRECT    load from global memory to registers and store from there, without images; WIDE_A and WIDE_F elements at
//             once
//   SLAB      elements of the slab through which rows of factors leave with DIRECT, BAND slots of rows at a time; 0:
//             they are stored from registers. Ragged matrices whose order is a multiple of WHOLE_F are, too
//   COLUMN    elements from one place for columns to the next
//   ALONG     where the order is a multiple of this, rows begin at the same place of cache lines, and lanes that read
//             several rows at once would take turns at a bank of L1: neighbouring lanes get neighbouring columns there
#pragma once
#include "kernels/factor/cholesky/pivots.cuh"
#include "kernels/batched/trsm/triangles.cuh"

namespace mansard {

template <class P, class Worker>
struct GroupShape {
  using T = typename P::T;
  static constexpr int TEAM = Worker::TEAM;
  static constexpr bool SOLVE = P::NRHS > 0, ROWS_B = P::LAYOUT_B != Layout::col, ROWS_X = P::LAYOUT_X != Layout::col;
  static constexpr int GROUP = 32 / TEAM, COLUMNS = SOLVE ? P::NRHS : 1;
  using A = Image<T, P::N, P::N, GROUP, P::FEED_A, P::ALIGNED, P::PITCH_A, P::MATRIX_A>;
  using F = Image<T, P::N, P::N, GROUP, P::FEED_F, P::ALIGNED, P::PITCH_F, P::MATRIX_F>;
  using B = Image<T, ROWS_B ? P::N : COLUMNS, ROWS_B ? COLUMNS : P::N, GROUP, P::FEED_B, P::ALIGNED, P::PITCH_B,
                  P::MATRIX_B>;
  using X = Image<T, ROWS_X ? P::N : COLUMNS, ROWS_X ? COLUMNS : P::N, GROUP, P::FEED_X, P::ALIGNED, P::PITCH_X,
                  P::MATRIX_X>;
  static constexpr int PLACE_A = P::DIRECT ? 0 : SOLVE || A::BYTES > F::BYTES ? A::BYTES : F::BYTES;
  static constexpr int PLACE_B = !SOLVE ? 0 : B::BYTES > X::BYTES ? B::BYTES : X::BYTES;
  static constexpr int PLACE_COLUMNS = TEAM > 1 ? Worker::PLACES * GROUP * P::COLUMN * int(sizeof(T)) : 0;
  static constexpr int OF_WARP = PLACE_A + PLACE_B + PLACE_COLUMNS;
  static_assert(P::WARPS * OF_WARP <= P::SHARED_BYTES, "shared memory");
  static_assert(GROUP * TEAM == 32 && P::COLUMN * int(sizeof(T)) % 16 == 0);
};

// Backward substitution L^H X = Y by a team; L and Y are in shared memory. right(row, column) is an entry of Y,
// result(row, column, x) stores one of X.
template <class P, int TEAM, class Entry, class Right, class Result>
MANSARD_DEVICE void solve_back(int rank, Entry entry, Right right, Result result) {
  using T = typename P::T;
  constexpr int SLOTS = ceil_div(P::N, TEAM);
  T y[SLOTS][P::NRHS];
  MANSARD_UNROLL
  for (int slot = 0; slot < SLOTS; ++slot)
    MANSARD_UNROLL
    for (int c = 0; c < P::NRHS; ++c) y[slot][c] = right(min(slot * TEAM + rank, P::N - 1), c);
  substitute_back<P::N, TEAM, P::NRHS>(y, rank, entry);
  __syncwarp();  // y (the B image) is about to be overwritten by the X image; all lanes have loaded it
  MANSARD_UNROLL
  for (int slot = 0; slot < SLOTS; ++slot)
    if (slot * TEAM + rank < P::N) MANSARD_UNROLL
      for (int c = 0; c < P::NRHS; ++c) result(slot * TEAM + rank, c, y[slot][c]);
}

// Factor without images (DIRECT): every lane loads its entries from global memory and stores them there.
template <class P, class Worker, class Arguments>
MANSARD_DEVICE void factor_direct(const Arguments& arguments) {
  using S = GroupShape<P, Worker>;
  using T = typename P::T;
  static_assert(P::WARPS * S::GROUP * (Worker::PLACES * P::COLUMN + P::SLAB) * int(sizeof(T)) <= P::SHARED_BYTES);
  static_assert(Worker::WIDTH <= P::COLUMN && !S::SOLVE, "a column; solutions need the factors in shared memory");
  MANSARD_SHARED_ARENA(T, arena);
  const Operands<P, Arguments> operands(arguments);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, team = lane / Worker::TEAM;
  const i64 batch = arguments.BATCH, first = (static_cast<i64>(blockIdx.x) * P::WARPS + warp) * S::GROUP;
  if (first >= batch) return;
  const i64 index = first + team < batch ? first + team : batch - 1;
  Worker worker(lane % Worker::TEAM, P::N, P::LAYOUT_A == Layout::row && P::N % P::ALONG == 0);
  const T* A = matrix_at(operands.A.base, operands.A.matrix, index);
  worker.template fetch<P::LAYOUT_A, P::WIDE_A>(A, operands.A.line, operands.A.step);
  worker.template factor<S::GROUP * P::COLUMN>(arena + (warp * Worker::PLACES * S::GROUP + team) * P::COLUMN);
  // a team beyond the batch factors the last matrix once more and writes the same values
  if (lane % Worker::TEAM == 0) arguments.INFO[index] = worker.info;
  T* F = matrix_at(operands.F.base, operands.F.matrix, index);
  if constexpr (P::SLAB > 0) {
    T* slabs = arena + P::WARPS * Worker::PLACES * S::GROUP * P::COLUMN;
    worker.template put_rows<P::WIDE_F, P::BAND>(F, slabs + (warp * S::GROUP + team) * P::SLAB, lane % Worker::TEAM);
  } else {
    worker.template put<P::LAYOUT_F, P::WIDE_F>(F, operands.F.line, operands.F.step);
  }
}

// Factor a ragged batch: orders differ, up to N, by less than one slot of rows (LANES_M). Matrices are stored without
// gaps. A team beyond the batch factors the last matrix once more. Branches are uniform in a warp.
template <class P, class Worker, class Arguments>
MANSARD_DEVICE void factor_ragged(const Arguments& arguments) {
  using T = typename P::T;
  constexpr int TEAM = Worker::TEAM, GROUP = 32 / TEAM, TEAMS = P::WARPS * GROUP;
  static_assert(TEAMS * (Worker::PLACES * P::COLUMN + P::SLAB) * int(sizeof(T)) <= P::SHARED_BYTES, "shared memory");
  static_assert(Worker::WIDTH <= P::COLUMN && P::NRHS == 0 && GROUP * TEAM == 32, "a column; part of a warp");
  MANSARD_SHARED_ARENA(T, arena);
  const int mine = threadIdx.x / TEAM, rank = threadIdx.x % TEAM, team = mine % GROUP;
  const i64 batch = arguments.BATCH, first = static_cast<i64>(blockIdx.x) * TEAMS + (mine - team);  // warp's first
  if (first >= batch) return;
  const Item item(arguments.ITEMS, first + team < batch ? first + team : batch - 1);
  Worker worker(rank, item.order, P::LAYOUT_A == Layout::row && item.order % P::ALONG == 0);
  if (P::WIDE_A > 1 && item.order % P::WIDE_A == 0)  // vectors of WIDE_A elements are aligned
    worker.template fetch_ragged<P::LAYOUT_A, P::WIDE_A>(arguments.A + item.a);
  else worker.template fetch_ragged<P::LAYOUT_A, 1>(arguments.A + item.a);
  worker.template factor<GROUP * P::COLUMN>(arena + ((mine - team) * Worker::PLACES + team) * P::COLUMN);
  if (rank == 0) arguments.INFO[item.index] = worker.info;
  T* F = arguments.F + item.f;
  if constexpr (P::SLAB == 0) {
    worker.template put_ragged<P::LAYOUT_F, 1>(F);
  } else if (__all_sync(0xffffffffu, item.order % P::WHOLE_F == 0)) {
    worker.template put_ragged<P::LAYOUT_F, P::WIDE_F>(F);
  } else {
    T* slabs = arena + TEAMS * Worker::PLACES * P::COLUMN;
    worker.template put_rows<1, P::BAND>(F, slabs + mine * P::SLAB, rank);
  }
}

// Factor, or solve, with images in shared memory (memory map above; phases in kernel_lanes.cuh and kernel_tile.cuh).
template <class P, class Worker, class Arguments>
MANSARD_DEVICE void factor_group(const Arguments& arguments) {
  constexpr int TEAM = Worker::TEAM;
  using S = GroupShape<P, Worker>;
  using T = typename P::T;
  static_assert(Worker::WIDTH + P::NRHS <= P::COLUMN, "a column and right-hand sides");
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const Operands<P, Arguments> operands(arguments);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, team = lane / TEAM;
  unsigned char* mine = arena + warp * S::OF_WARP;
  T* place_a = reinterpret_cast<T*>(mine);
  T* place_b = reinterpret_cast<T*>(mine + S::PLACE_A);
  T* columns = reinterpret_cast<T*>(mine + S::PLACE_A + S::PLACE_B) + team * P::COLUMN;
  const i64 batch = arguments.BATCH, first = (static_cast<i64>(blockIdx.x) * P::WARPS + warp) * S::GROUP;
  if (first >= batch) return;

  const int count = batch - first < S::GROUP ? static_cast<int>(batch - first) : S::GROUP;
  if constexpr (P::TRIANGLE)
    fill_triangles<typename S::A, P::LAYOUT_A != Layout::col, 32>(place_a, operands.A, first, count, batch, lane);
  else S::A::template fill<32>(place_a, operands.A, first, count, batch, lane);
  if constexpr (S::SOLVE) S::B::template fill<32>(place_b, operands.B, first, count, batch, lane);
  cp_async_commit();
  cp_async_wait<0>();
  __syncwarp();  // A and B images: the copies of all lanes have arrived

  Worker worker(lane % TEAM);
  T* A = S::A::origin(place_a, operands.A, first) + team * S::A::MATRIX;
  T* B = S::B::origin(place_b, operands.B, first) + team * S::B::MATRIX;
  const auto right = [&](int row, int column) -> T& { return B[entry_at<P::LAYOUT_B, S::B::PITCH>(row, column)]; };
  worker.template load<P::LAYOUT_A, typename S::A>(A);
  if constexpr (S::SOLVE)
    worker.for_right([&](int row, int column, T& b, bool) { b = operands.turned(right(row, column)); });
  worker.template factor<S::GROUP * P::COLUMN>(columns);
  if (lane % TEAM == 0 && team < count) arguments.INFO[first + team] = worker.info;
  __syncwarp();  // A image is about to be overwritten by F or L, B image by y or X; all lanes have loaded theirs
  if constexpr (!S::SOLVE) {
    T* F = S::F::origin(place_a, operands.F, first) + team * S::F::MATRIX;
    worker.template store<P::LAYOUT_F, typename S::F>(F);
    __syncwarp();  // F image is complete, written by all lanes
    S::F::template store<32, false>(place_a, operands.F, first, count, Scales{}, renewed(lane));
  } else {
    T* X = S::X::origin(place_b, operands.X, first) + team * S::X::MATRIX;
    const auto result = [&](int row, int column, T x) {
      X[entry_at<P::LAYOUT_X, S::X::PITCH>(row, column)] = operands.turned(x);
    };
    if constexpr (TEAM == 1) {
      worker.substitute_alone();
      worker.for_right([&](int row, int column, T& x, bool) { result(row, column, x); });
    } else {
      worker.template store<P::LAYOUT_A, typename S::A>(A);
      worker.for_right([&](int row, int column, T& y, bool there) {
        if (there) right(row, column) = y;
      });
      __syncwarp();  // L and y are complete, written by all lanes of the team
      const auto entry = [&](int row, int column) { return A[entry_at<P::LAYOUT_A, S::A::PITCH>(row, column)]; };
      solve_back<P, TEAM>(lane % TEAM, entry, right, result);
    }
    __syncwarp();  // X image is complete, written by all lanes
    S::X::template store<32, false>(place_b, operands.X, first, count, Scales{}, renewed(lane));
  }
}

}  // namespace mansard
