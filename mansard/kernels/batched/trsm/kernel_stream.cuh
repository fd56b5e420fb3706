// A x = alpha b for a batch of triangles of any size: A is read once, piece by piece, with copies always in flight.
//
// Block i of 32 rows:  r = alpha b_i - sum over j < i of A_ij x_j;  x_i = A_ii^-1 r.
//
// Team. WARPS warps have one matrix after the other. The first warp (the solver) subtracts the newest 32 unknowns and
// solves the diagonal block, one row per lane. The others (helpers) form the sums over all older unknowns for the next
// 32 rows meanwhile. Every warp has a ring of pieces (pieces.cuh) in the order in which it needs them, across the ends
// of rows and matrices: which piece comes next does not depend on the unknowns.
//
// Shared memory of a team (TEAM_BYTES):
//   known     KNOWN numbers           unknowns found so far; written by the solver, read by all
//   partial   2 * HELPERS * 32        sums of the helpers for block i in half i % 2; read by the solver
//   rings     WARPS * RING_BYTES      STAGES pieces per warp
//
// Barriers (barrier -> buffer -> writer):
//   named barrier of the team, once per block -> known -> the solver;  partial of the next block -> the helpers
//   __syncwarp per piece                      -> the piece -> copies of other lanes;  the piece before -> next copies
//
// Limits: memory bandwidth; 72 to 84 % of it from 200 to 1024 rows (float64, H200).
//
//   WARPS      warps per matrix
//   PER_BLOCK  matrices per thread block
//   BLK_K      columns of a piece of A
//   STAGES     pieces in flight per warp
//   INVERT     multiply by inverted diagonal entries instead of dividing by them
#pragma once
#include "kernels/batched/trsm/diagonal.cuh"
#include "kernels/batched/trsm/system.cuh"

namespace mansard {

template <class P>
struct StreamShape {
  using T = typename P::T;
  static constexpr int BLOCKS = ceil_div(P::N, 32), OF_BLOCK = 32 / P::BLK_K, PIECES = ceil_div(P::N, P::BLK_K);
  static constexpr int HELPERS = P::WARPS - 1;
  static constexpr int KNOWN = (BLOCKS - 1) * 32, PARTIAL = 2 * HELPERS * 32;  // no one reads the last block again
  static constexpr int SUMS_BYTES = (KNOWN + PARTIAL) * int(sizeof(T)), RING_BYTES = P::STAGES * Pieces<P>::BYTES;
  static constexpr int TEAM_BYTES = SUMS_BYTES + P::WARPS * RING_BYTES;
  static_assert(P::NRHS == 1 && P::STAGES >= 2 && (P::WARPS == 1 || P::PER_BLOCK < 16));
  static_assert(P::PER_BLOCK * TEAM_BYTES <= P::SHARED_BYTES, "shared memory");

  // Pieces of a block of rows that a warp reads: begin, begin + step, ... below end.
  static MANSARD_DEVICE int begin(int warp, int block) {
    return P::WARPS == 1 ? 0 : warp == 0 ? max(0, block - 1) * OF_BLOCK : warp - 1;
  }
  static MANSARD_DEVICE int end(int warp, int block) {
    return warp == 0 ? min((block + 1) * OF_BLOCK, PIECES) : max(0, block - 1) * OF_BLOCK;
  }
  static MANSARD_DEVICE int step(int warp) { return P::WARPS == 1 || warp == 0 ? 1 : HELPERS; }
};

// The ring of a warp's pieces.
template <class P, class Place>
struct PieceRing {
  using S = StreamShape<P>;
  using Of = Pieces<P>;
  using T = typename P::T;
  unsigned char* memory;
  const Place& place;
  int warp, lane;
  i64 index, step, batch;      // matrix of the next request; distance to the team's next one; number of matrices
  const T *matrix, *upcoming;  // addresses of this and the next matrix, loaded ahead
  int block = 0, piece = 0, stage = 0, free = 0;

  MANSARD_DEVICE PieceRing(unsigned char* memory, const Place& place, int warp, int lane, i64 first, i64 step,
                           i64 batch)
      : memory(memory), place(place), warp(warp), lane(lane), index(first), step(step), batch(batch) {
    matrix = address(first), upcoming = address(first + step);
    piece = S::begin(warp, 0);
    settle();
MANSARD_UNROLL_BY(1)
    for (int i = 0; i < P::STAGES - 1; ++i) request();
  }
  MANSARD_DEVICE const T* address(i64 which) const {
    return which < batch ? matrix_at(place.base, place.matrix, which) : nullptr;
  }
  MANSARD_DEVICE T* at(int which) const { return reinterpret_cast<T*>(memory + which * Of::BYTES); }
  // Move on to the next block, or matrix, that has a piece for this warp.
  MANSARD_DEVICE void settle() {
    while (index < batch && piece >= S::end(warp, block)) {
      if (++block == S::BLOCKS) {
        block = 0, index += step, matrix = upcoming;
        upcoming = address(index + step);
      }
      piece = S::begin(warp, block);
    }
  }
  // Start the copy of the next piece into the free place.
  MANSARD_DEVICE void request() {
    if (index < batch) {
      Of::fill(at(free), matrix, place, typename Of::Origin(block, piece), lane);
      piece += S::step(warp);
      settle();
    }
    cp_async_commit();
    if (++free == P::STAGES) free = 0;
  }
  // Wait for the next piece, which is `its_piece` of `its_block`, and refill the place of the piece before.
  MANSARD_DEVICE Piece<P> next(const T* from, int its_block, int its_piece) {
    cp_async_wait<P::STAGES - 2>();
    __syncwarp();  // piece: copies of all lanes have arrived; the one before, read by all, is about to be overwritten
    request();
    const T* now = at(stage);
    if (++stage == P::STAGES) stage = 0;
    return {now, typename Of::Shifts(from, place.line, typename Of::Origin(its_block, its_piece))};
  }
  // Address from which a matrix's shifts are computed; not needed without shifts.
  MANSARD_DEVICE const T* reckoned_from(i64 which) const { return Of::SHIFTED ? address(which) : nullptr; }
};

// Sum over a lane's row of pieces times the known unknowns.
template <class P>
struct RowSums {
  using T = typename P::T;
  T sums[2] = {zero<T>(), zero<T>()};

  MANSARD_DEVICE void add(const Piece<P>& piece, const T* known, int lane) {
    constexpr int READ = Pieces<P>::READ;
    MANSARD_UNROLL
    for (int column = 0; column < P::BLK_K; column += READ) {
      T entries[READ];
      piece.load(entries, lane, column);
      const auto factors = *reinterpret_cast<const Pack<T, READ>*>(known + column);
      MANSARD_UNROLL
      for (int i = 0; i < READ; ++i) multiply_add<P::CONJ>(sums[(column + i) % 2], entries[i], factors.e[i]);
    }
  }
  MANSARD_DEVICE T total() const {
    T sum = sums[0];
    add_to(sum, sums[1]);
    return sum;
  }
};

// A team: its first warp solves, the others prepare sums.
template <class P, class Arguments>
struct StreamTeam {
  using S = StreamShape<P>;
  using T = typename P::T;
  const System<P, Arguments>& system;
  i64 first, step, batch;  // the team's first matrix; distance to its next one; number of matrices
  T *known, *partial;      // unknowns found so far; sums of the helpers, for even and odd blocks
  int team, lane;

  // Row of unknown number `at`.
  static MANSARD_DEVICE int row_of(int at) { return P::UPPER ? P::N - 1 - at : at; }
  template <class Place>
  static MANSARD_DEVICE auto* entry(const Place& place, Layout layout, i64 index, int at) {
    return matrix_at(place.base, place.matrix, index) + row_of(at) * (layout == Layout::col ? place.step : place.line);
  }
  MANSARD_DEVICE bool has(int block) const { return Pieces<P>::EVEN || block * 32 + lane < P::N; }
  MANSARD_DEVICE T right_hand_side(i64 index, int block) const {
    return index < batch && has(block) ? *entry(system.B, P::LAYOUT_B, index, block * 32 + lane) : zero<T>();
  }
  // Barrier of the team: known (solver) and partial (helpers) of this block are complete.
  MANSARD_DEVICE void meet() const {
    if constexpr (P::WARPS > 1) named_barrier_sync(1 + team, 32 * P::WARPS);
    else __syncwarp();
  }
  MANSARD_DEVICE T* sums_of(int helper, int block) const {
    return partial + (block % 2 * S::HELPERS + helper) * 32 + lane;
  }

  // The solver's loop over matrices and blocks.
  template <class Ring>
  MANSARD_DEVICE void solve(Ring& ring) const {
    T next = right_hand_side(first, 0);
MANSARD_UNROLL_BY(1)
    for (i64 index = first; index < batch; index += step) {
      const T* from = ring.reckoned_from(index);
MANSARD_UNROLL_BY(1)
      for (int block = 0; block < S::BLOCKS; ++block) {
        DiagonalRows<P> rows{lane, system.scales.product(next), zero<T>()};
        next = block + 1 < S::BLOCKS ? right_hand_side(index, block + 1) : right_hand_side(index + step, 0);
        MANSARD_UNROLL
        for (int helper = 0; helper < S::HELPERS; ++helper)
          if (block > 1) add_to(rows.x, negative(*sums_of(helper, block)));
        int piece = S::begin(0, block);
        RowSums<P> sums;
MANSARD_UNROLL_BY(1)
        for (; piece < block * S::OF_BLOCK; ++piece)
          sums.add(ring.next(from, block, piece), known + piece * P::BLK_K, lane);
        add_to(rows.x, negative(sums.total()));
MANSARD_UNROLL_BY(1)
        for (; piece < S::end(0, block); ++piece)
          rows.solve(ring.next(from, block, piece), piece * P::BLK_K - block * 32,
                     Pieces<P>::EVEN ? P::BLK_K : min(P::BLK_K, P::N - piece * P::BLK_K));
        if (block + 1 < S::BLOCKS) known[block * 32 + lane] = rows.solved;
        if (has(block)) *entry(system.X, P::LAYOUT_X, index, block * 32 + lane) = rows.solved;
        meet();  // known has x of this block; partial of the next block is complete
      }
    }
  }

  // A helper's loop: sums for block `block` while the block before it is solved.
  template <class Ring>
  MANSARD_DEVICE void prepare(Ring& ring, int warp) const {
MANSARD_UNROLL_BY(1)
    for (i64 index = first; index < batch; index += step) {
      const T* from = ring.reckoned_from(index);
MANSARD_UNROLL_BY(1)
      for (int block = 1; block <= S::BLOCKS; ++block) {  // block - 1 is being solved
        if (block < S::BLOCKS) {
          RowSums<P> sums;
MANSARD_UNROLL_BY(1)
          for (int piece = S::begin(warp, block); piece < S::end(warp, block); piece += S::step(warp))
            sums.add(ring.next(from, block, piece), known + piece * P::BLK_K, lane);
          *sums_of(warp - 1, block) = sums.total();
        }
        meet();  // partial of this block is complete; known has x of block - 1
      }
    }
  }

  // X = 0, where alpha is zero.
  MANSARD_DEVICE void clear() const {
MANSARD_UNROLL_BY(1)
    for (i64 index = first; index < batch; index += step)
MANSARD_UNROLL_BY(1)
      for (int block = 0; block < S::BLOCKS; ++block)
        if (has(block)) *entry(system.X, P::LAYOUT_X, index, block * 32 + lane) = zero<T>();
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void trsm_stream(const Arguments& arguments) {
  using S = StreamShape<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const System<P, Arguments> system(arguments);
  const int warp = threadIdx.x / 32 % P::WARPS, team = threadIdx.x / (32 * P::WARPS), lane = threadIdx.x % 32;
  unsigned char* mine = arena + team * S::TEAM_BYTES;
  T* known = reinterpret_cast<T*>(mine);
  const i64 first = static_cast<i64>(blockIdx.x) * P::PER_BLOCK + team;
  const i64 step = static_cast<i64>(gridDim.x) * P::PER_BLOCK;
  const StreamTeam<P, Arguments> members{system, first, step, arguments.BATCH, known, known + S::KNOWN, team, lane};
  if (system.vanishes) {
    if (warp == 0) members.clear();
    return;
  }
  PieceRing<P, decltype(system.A)> ring(mine + S::SUMS_BYTES + warp * S::RING_BYTES, system.A, warp, lane, first, step,
                                        arguments.BATCH);
  if constexpr (P::WARPS > 1) {
    if (warp > 0) members.prepare(ring, warp);
  }
  if (P::WARPS == 1 || warp == 0) members.solve(ring);
  cp_async_wait<0>();
}

}  // namespace mansard
