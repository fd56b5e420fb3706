// Groups of small matrices, a team of TEAM lanes for each: what `lanes` and `tile` have in common.
//
// A warp takes as many consecutive matrices as it has teams, copies them to shared memory 16 bytes at a time (gemm's
// image.cuh), lets every team factor one in registers, and returns the factors, or X, through shared memory. Warps meet
// nobody else, and come and go: other warps' work hides their copies.
//
// A Worker is a lane's part of a matrix and of its right-hand sides.
//   WARPS     warps per block
//   TRIANGLE  leave out what lies on the other side of the diagonal
//   DIRECT    from global memory to registers and back; only columns go through shared memory. WIDE_A and WIDE_F
//             elements are moved at once
//   SLAB      elements of the place through which factors go in that case, BAND slots of rows at a time; zero: they do
//             not. Of ragged ones, those whose order is a multiple of WHOLE_F do without
//   COLUMN    elements between the places for columns on their way
//   ALONG     rows of a multiple of so many elements have the same places in lines of the first cache, where the lanes
//             that read them at once would take turns: there neighbours have neighbouring columns
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

// L^H X = Y for a matrix in shared memory, by a team; `right` gives right-hand sides, `result` takes solutions.
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
  __syncwarp();  // everybody has read what is overwritten
  MANSARD_UNROLL
  for (int slot = 0; slot < SLOTS; ++slot)
    if (slot * TEAM + rank < P::N) MANSARD_UNROLL
      for (int c = 0; c < P::NRHS; ++c) result(slot * TEAM + rank, c, y[slot][c]);
}

// Factors without images: every lane reads and writes what it holds.
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
  // without a matrix of its own a team has the last one once more
  if (lane % Worker::TEAM == 0) arguments.INFO[index] = worker.info;
  T* F = matrix_at(operands.F.base, operands.F.matrix, index);
  if constexpr (P::SLAB > 0) {
    T* slabs = arena + P::WARPS * Worker::PLACES * S::GROUP * P::COLUMN;
    worker.template put_rows<P::WIDE_F, P::BAND>(F, slabs + (warp * S::GROUP + team) * P::SLAB, lane % Worker::TEAM);
  } else {
    worker.template put<P::LAYOUT_F, P::WIDE_F>(F, operands.F.line, operands.F.step);
  }
}

// The same for matrices of different orders, no more than N and in one slot of rows. They lie row after row. A team
// without a matrix of its own has the last one once more here, too; teams of a warp go the same ways.
template <class P, class Worker, class Arguments>
MANSARD_DEVICE void factor_ragged(const Arguments& arguments) {
  using T = typename P::T;
  constexpr int TEAM = Worker::TEAM, GROUP = 32 / TEAM, TEAMS = P::WARPS * GROUP;
  static_assert(TEAMS * (Worker::PLACES * P::COLUMN + P::SLAB) * int(sizeof(T)) <= P::SHARED_BYTES, "shared memory");
  static_assert(Worker::WIDTH <= P::COLUMN && P::NRHS == 0 && GROUP * TEAM == 32, "a column; part of a warp");
  MANSARD_SHARED_ARENA(T, arena);
  const int mine = threadIdx.x / TEAM, rank = threadIdx.x % TEAM, team = mine % GROUP;
  const i64 batch = arguments.BATCH, first = static_cast<i64>(blockIdx.x) * TEAMS + (mine - team);  // of the warp
  if (first >= batch) return;
  const Item item(arguments.ITEMS, first + team < batch ? first + team : batch - 1);
  Worker worker(rank, item.order, P::LAYOUT_A == Layout::row && item.order % P::ALONG == 0);
  if (P::WIDE_A > 1 && item.order % P::WIDE_A == 0)  // pieces begin where they may
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
  __syncwarp();

  Worker worker(lane % TEAM);
  T* A = S::A::origin(place_a, operands.A, first) + team * S::A::MATRIX;
  T* B = S::B::origin(place_b, operands.B, first) + team * S::B::MATRIX;
  const auto right = [&](int row, int column) -> T& { return B[entry_at<P::LAYOUT_B, S::B::PITCH>(row, column)]; };
  worker.template load<P::LAYOUT_A, typename S::A>(A);
  if constexpr (S::SOLVE)
    worker.for_right([&](int row, int column, T& b, bool) { b = operands.turned(right(row, column)); });
  worker.template factor<S::GROUP * P::COLUMN>(columns);
  if (lane % TEAM == 0 && team < count) arguments.INFO[first + team] = worker.info;
  __syncwarp();  // everybody has read what is overwritten
  if constexpr (!S::SOLVE) {
    T* F = S::F::origin(place_a, operands.F, first) + team * S::F::MATRIX;
    worker.template store<P::LAYOUT_F, typename S::F>(F);
    __syncwarp();
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
      __syncwarp();
      const auto entry = [&](int row, int column) { return A[entry_at<P::LAYOUT_A, S::A::PITCH>(row, column)]; };
      solve_back<P, TEAM>(lane % TEAM, entry, right, result);
    }
    __syncwarp();
    S::X::template store<32, false>(place_b, operands.X, first, count, Scales{}, renewed(lane));
  }
}

}  // namespace mansard
