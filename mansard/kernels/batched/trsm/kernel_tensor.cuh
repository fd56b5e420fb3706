// A X = alpha B for a batch of triangles and several right-hand sides, in double precision on the tensor cores.
//
// Step p, eight rows at a time:  B_p -= A_pj X_j for the blocks j < p of eight rows, on the tensor cores; then
// X_p = A_pp^-1 B_p by substitution (eight_rows.cuh).
//
// Team. A thread block has COLUMNS columns of X, a warp 8 * EIGHTS of them, transposed: lane (group, turn) has rows
// 2 turn, 2 turn + 1 of each block in columns group + 8 c. Solved rows are an operand of later products as they are, so
// that a lane never reads what another one has written of X.
//
// A block of threads stays and takes one matrix, or COLUMNS columns of one, after the other.
//
// Shared memory, in doubles: a ring of STAGES places, each with a row of the triangle's 8 x 8 blocks (BLOCKS * 64, in the
// order of in_block); then for each warp a ring of SLOTS blocks of B, which become X, a pair of numbers per lane and 8
// columns. A step reads row p of A and of B, while those of the next STAGES - 1 steps are on their way, also of the next
// matrix: that is why there are STAGES - 1 more slots than blocks.
// Barriers (__syncthreads -> buffer -> writer):
//   arrive -> row p of A -> copies of other threads
//          -> the place of the row before, read by all warps -> the copies that are started next
//
// Limits: reads of shared memory and shuffles, then the chain of N rows of as many blocks of threads as shared memory has
// room for. Loops over the blocks are loops: code without them outgrows the cache of instructions and takes 15 s to
// compile at 128 rows.
//
//   WARPS       warps per block
//   STAGES      rows of blocks in shared memory
//   EIGHTS      columns per warp, in eights: they share what is read of A, and a tensor instruction has two eights
//   INVERT      multiply by inverted diagonal entries instead of dividing by them
//   VECTOR_A    entries of a row of A that are moved at once; VECTOR_B, VECTOR_X entries of a column of B and X
#pragma once
#include "kernels/batched/trsm/eight_rows.cuh"
#include "kernels/batched/trsm/system.cuh"
#include "mansard/gpu/async_words.cuh"
#include "mansard/gpu/mma.cuh"

namespace mansard {

template <class P>
struct TensorShape {
  static constexpr int BLOCKS = ceil_div(P::N, 8);  // padded with rows of the unit matrix
  static constexpr int SLOTS = BLOCKS + P::STAGES - 1, PLACE = BLOCKS * 64, THREADS = 32 * P::WARPS;
  static constexpr int OF_LANE = P::EIGHTS, FRAGMENTS = ceil_div(P::EIGHTS, 2);  // columns; pairs of them
  static constexpr int OF_BLOCK = 64 * OF_LANE, OF_WARP = SLOTS * OF_BLOCK;  // doubles
  static constexpr int COLUMNS = 8 * OF_LANE * P::WARPS, TILES = ceil_div(P::NRHS, COLUMNS);
  static_assert((P::STAGES * PLACE + P::WARPS * OF_WARP) * 8 <= P::SHARED_BYTES, "shared memory");
  static_assert(P::STAGES >= 2);
};

// Rows and columns are numbered in the order in which unknowns become known.
template <class P>
MANSARD_DEVICE int order(int i) {
  return P::UPPER ? P::N - 1 - i : i;
}

// Steps of a block of threads: rows of blocks of one matrix after the other, with their places in both rings.
template <class P>
struct Steps {
  using S = TensorShape<P>;
  i64 item, matrix = 0;
  int first = 0;  // column of X
  int p = 0, place = 0, slot = 0;

  MANSARD_DEVICE explicit Steps(i64 item) : item(item) { begin(); }
  MANSARD_DEVICE void begin() { matrix = item / S::TILES, first = static_cast<int>(item % S::TILES) * S::COLUMNS; }
  MANSARD_DEVICE void advance() {
    if (++place == P::STAGES) place = 0;
    if (++slot == S::SLOTS) slot = 0;
    if (++p < S::BLOCKS) return;
    p = 0, item += gridDim.x;
    begin();
  }
  // The slot of block j <= p of the matrix.
  MANSARD_DEVICE int slot_of(int j) const {
    const int behind = slot - (p - j);
    return behind < 0 ? behind + S::SLOTS : behind;
  }
};

// The triangle, a row of 8 x 8 blocks at a time.
template <class P, class Place>
struct TriangleRows {
  using S = TensorShape<P>;
  static constexpr bool ROW_MAJOR = P::LAYOUT_A != Layout::col;
  double* memory;  // the ring
  const Place& place;

  MANSARD_DEVICE const double* entry(const double* matrix, int row, int column) const {
    return matrix + order<P>(ROW_MAJOR ? row : column) * place.line + order<P>(ROW_MAJOR ? column : row) * place.step;
  }
  MANSARD_DEVICE double* blocks(const Steps<P>& step) const { return memory + step.place * S::PLACE; }

  // Start the copies of a row of blocks: neighbouring threads have neighbours in memory.
  MANSARD_DEVICE void request(const Steps<P>& step) const {
    constexpr int V = P::VECTOR_A, BESIDE = S::THREADS / 8;
    const int thread = static_cast<int>(threadIdx.x), row = ROW_MAJOR ? thread / BESIDE : thread % 8;
    const int first = (ROW_MAJOR ? thread % BESIDE : thread / 8) * V, last = 8 * step.p + row;
    const double* const matrix = matrix_at(place.base, place.matrix, step.matrix);
    double* const to = blocks(step);
    const auto at = [&](int column) { return column / 8 * 64 + in_block(row, column % 8); };
    if (P::N % 8 == 0 || last < P::N) {
MANSARD_UNROLL_BY(4)
      for (int column = first; column <= last; column += BESIDE * V)
        cp_async_word<8 * V>(to + at(column), entry(matrix, last, column));
    } else {  // rows of the unit matrix
MANSARD_UNROLL_BY(1)
      for (int column = first; column < first + V || column <= last; column += BESIDE * V)
        MANSARD_UNROLL
        for (int i = 0; i < V; ++i)
          if (column + i <= last) to[at(column + i)] = column + i == last ? 1.0 : 0.0;
    }
  }
};

// 8 * EIGHTS columns of X per warp, from `first` on in the columns of the block of threads.
template <class P>
struct WarpColumns {
  using S = TensorShape<P>;
  static constexpr int ENTRIES = 2 * S::OF_LANE;  // of a lane in a block of eight rows: pairs of rows of each column
  using Pair = Pack<double, 2>;
  int first, group, turn;
  double* memory;  // of the lane: a pair of rows of each slot and column

  MANSARD_DEVICE WarpColumns(int warp, double* of_warps)
      : first(warp * 8 * S::OF_LANE), group(threadIdx.x % 32 / 4), turn(threadIdx.x % 4),
        memory(of_warps + warp * S::OF_WARP + threadIdx.x % 32 * 2) {}

  MANSARD_DEVICE bool active(const Steps<P>& step) const { return step.first + first < P::NRHS; }
  MANSARD_DEVICE Pair& pair(int slot, int column) const {
    return *reinterpret_cast<Pair*>(memory + slot * S::OF_BLOCK + column * 64);
  }

  // Calls use(i, exists, address) for the lane's entries in a step's block, V rows at a time.
  template <int V, Layout LAYOUT, class Place, class Use>
  MANSARD_DEVICE void for_entries(const Steps<P>& step, const Place& place, Use use) const {
    const i64 row = LAYOUT == Layout::col ? place.step : place.line, column = LAYOUT == Layout::col ? place.line : place.step;
    const int r0 = 8 * step.p + 2 * turn, c0 = step.first + first + group;
    auto* const own = matrix_at(place.base, place.matrix, step.matrix) + order<P>(r0) * row + c0 * column;
    MANSARD_UNROLL
    for (int i = 0; i < ENTRIES; i += V) {
      const bool there = (P::N % 8 == 0 || r0 + i % 2 < P::N) && c0 + i / 2 * 8 < P::NRHS;
      auto* const address = own + i / 2 * 8 * column;
      use(i, there, i % 2 == 0 ? address : P::UPPER ? address - row : address + row);
    }
  }
  // Start the copies of a step's block of B; what does not exist is zero.
  template <class Place>
  MANSARD_DEVICE void request(const Steps<P>& step, const Place& place) const {
    constexpr int V = P::VECTOR_B;
    for_entries<V, P::LAYOUT_B>(step, place, [&](int i, bool there, const double* from) {
      double* const to = pair(step.slot, i / 2).e + i % 2;
      if (there) cp_async_word<8 * V>(to, from);
      else
        MANSARD_UNROLL
        for (int e = 0; e < V; ++e) to[e] = 0.0;
    });
  }
  template <class Place>
  MANSARD_DEVICE void store(const Steps<P>& step, const double (&x)[ENTRIES], const Place& place) const {
    constexpr int V = P::VECTOR_X;
    for_entries<V, P::LAYOUT_X>(step, place, [&](int i, bool there, double* to) {
      Pack<double, V> pack;
      MANSARD_UNROLL
      for (int e = 0; e < V; ++e) pack.e[e] = x[i + e];
      if (there) *reinterpret_cast<Pack<double, V>*>(to) = pack;
    });
  }

  // Solve for a step's block, and keep -X where B was.
  MANSARD_DEVICE void solve(const Steps<P>& step, double (&x)[ENTRIES], const double* row, const Scales& scales) const {
    const int p = step.p;
    double sums[2][S::FRAGMENTS][4] = {};
    const double* const mine = row + in_block(group, 2 * turn);
    const auto add = [&](double (&sum)[S::FRAGMENTS][4], int j) {
      const Pair entries = *reinterpret_cast<const Pair*>(mine + j * 64);
      const int slot = step.slot_of(j);
      MANSARD_UNROLL
      for (int tile = 0; tile < S::FRAGMENTS; ++tile) {
        const Pair left = pair(slot, 2 * tile);
        Pair right = {};  // of an odd number of eights, nothing
        if (2 * tile + 1 < S::OF_LANE) right = pair(slot, 2 * tile + 1);
        // the order along k is permuted alike in both operands: a lane's entries of k are adjacent pairs
        const double known[4] = {left.e[0], right.e[0], left.e[1], right.e[1]};
        mma_m16n8k8(sum[tile], known, entries.e);
      }
    };
MANSARD_UNROLL_BY(2)
    for (int j = 1; j < p; j += 2) add(sums[0], j - 1), add(sums[1], j);
    if (p % 2 == 1) add(sums[0], p - 1);
    MANSARD_UNROLL
    for (int i = 0; i < ENTRIES; i += 2) {
      const Pair right_hand_side = pair(step.slot, i / 2);
      MANSARD_UNROLL
      for (int s = 0; s < 2; ++s)
        x[i + s] = scales.product(right_hand_side.e[s]) + (sums[0][i / 4][i % 4 + s] + sums[1][i / 4][i % 4 + s]);
    }
    EightRows<P, S::OF_LANE>{turn}.solve(x, row + p * 64);
    MANSARD_UNROLL
    for (int i = 0; i < ENTRIES; i += 2) pair(step.slot, i / 2) = {-x[i], -x[i + 1]};
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void trsm_tensor(const Arguments& arguments) {
  using S = TensorShape<P>;
  MANSARD_SHARED_ARENA(double, arena);
  const System<P, Arguments> system(arguments);
  const TriangleRows<P, decltype(system.A)> triangle{arena, system.A};
  const WarpColumns<P> columns(static_cast<int>(threadIdx.x) / 32, arena + P::STAGES * S::PLACE);
  const i64 items = arguments.BATCH * S::TILES;
  Steps<P> now(blockIdx.x), ahead(blockIdx.x);
  const auto request = [&] {
    if (ahead.item < items && !system.vanishes) {
      triangle.request(ahead);  // all warps take part, also those without columns
      if (columns.active(ahead)) columns.request(ahead, system.B);
    }
    cp_async_commit();
    ahead.advance();
  };
MANSARD_UNROLL_BY(1)
  for (int step = 0; step + 1 < P::STAGES; ++step) request();
MANSARD_UNROLL_BY(1)
  for (; now.item < items; now.advance()) {
    cp_async_wait<P::STAGES - 2>();
    __syncthreads();  // row p: of all threads; the place of the row before has been read by all
    request();
    if (!columns.active(now)) continue;
    double x[WarpColumns<P>::ENTRIES] = {};
    if (!system.vanishes) columns.solve(now, x, triangle.blocks(now), system.scales);
    columns.store(now, x, system.X);
  }
}

}  // namespace mansard
