// Global memory side of W = A C for column-major A: tiles of rows to shared memory, a few columns at a time, and back.
//
// Columns start anywhere, and every column lands where it comes from modulo 16 bytes: copies are of 16 bytes, those that
// cover a column's rows of the tile, with up to 12 bytes before and behind. First and last tiles, around which there may
// be no memory, are copied entry by entry; complex numbers between their boundaries word by word. In shared memory
// columns are PITCH bytes apart, 32 more than a multiple of 64: four columns of a quad of lanes begin in different banks.
#pragma once
#include "kernels/tall_skinny/tsmm/pairs.cuh"
#include "mansard/gpu/async_words.cuh"

namespace mansard {

enum class Order { tickets, cyclic };

template <class P>
struct ColumnsShape {
  using T = typename P::T;
  using Word = typename Scalar<T>::Real;
  static constexpr int WORDS = Scalar<T>::WORDS, SIZE = int(sizeof(T));
  static constexpr int TEAM = P::WARPS_N, TEAM_THREADS = TEAM * 32, THREADS = P::GROUPS * TEAM_THREADS;
  static constexpr bool LANES = P::UNIT == Unit::fma, TF32 = P::UNIT == Unit::tf32x3;
  static constexpr int PITCH = P::ROWS * SIZE + 32, STAGE_BYTES = P::DEPTH * PITCH;
  static constexpr int STEPS = ceil_div(P::M, P::DEPTH), LAST = P::M - (STEPS - 1) * P::DEPTH;  // columns of the last
  static constexpr int BLOCKS = ceil_div(P::M * WORDS, 8), STEP_BLOCKS = P::DEPTH * WORDS / 8;  // of eight words
  static constexpr int COLUMNS = ceil_div(P::N, 8), COLUMNS_OF_WARP = ceil_div(COLUMNS, TEAM);
  static constexpr int SMALL_COLUMNS = COLUMNS_OF_WARP * TEAM;  // zeros beyond the last
  static constexpr int OCTETS = P::ROWS / 8, TILES_M = P::ROWS / 16, TILES_N = COLUMNS_OF_WARP * WORDS;
  // odd for lanes with whole rows, which would meet in the same banks
  static constexpr int OUT_PITCH = LANES ? P::N + (P::N + 1) % 2 : P::N;
  static constexpr int OUT_BYTES = ceil_div(P::OUT * OUT_PITCH * SIZE, 16) * 16;
  // Memory: tickets and the tiles of stages; stages; results of teams; C.
  static constexpr int TILES_AT = P::GROUPS * 16, RING_AT = ceil_div(TILES_AT + P::GROUPS * P::STAGES * 8, 128) * 128;
  static constexpr int OUT_AT = RING_AT + P::GROUPS * P::STAGES * STAGE_BYTES;
  static constexpr int SMALL_AT = OUT_AT + P::GROUPS * OUT_BYTES;
  static constexpr int SMALL_BYTES = LANES ? ceil_div(P::M * P::N * SIZE, 16) * 16
                                           : BLOCKS * SMALL_COLUMNS * 32 * int(sizeof(Fragment));
  static_assert(SMALL_AT + SMALL_BYTES <= P::SHARED_BYTES, "shared memory");
  static_assert(P::STAGES >= 2 && P::ROWS % 16 == 0 && (LANES || P::DEPTH * WORDS % 8 == 0), "blocks of eight words");
  static_assert(!LANES || (TEAM == 1 && P::ROWS % 32 == 0 && (P::OUT == 0 || P::OUT == P::ROWS)), "rows of lanes");
  static_assert(P::OUT % 8 == 0 && (P::OUT == 0 || P::ROWS % P::OUT == 0), "rows of results");
};

// One team's tiles: which they are, what is under way, where it is. Barriers: see kernel_columns.cuh.
template <class P, class Arguments>
struct ColumnsStream {
  using S = ColumnsShape<P>;
  using T = typename P::T;
  using Word = typename S::Word;
  const Arguments& arguments;
  unsigned char* arena;
  i64 tiles, ahead = -1, pitch;  // tiles of A; the one that is being loaded; bytes between columns
  u32 ticket = 0;
  int team, thread, step = 0, slot = 0, phase = 0;  // of what is loaded next
  int base, rise;                                   // displacement of column 0, and from one to the next, modulo 16
  bool leader, entries, scaled;                     // entries lie on multiples of their size; W is read

  MANSARD_DEVICE ColumnsStream(const Arguments& given, unsigned char* memory)
      : arguments(given), arena(memory), tiles((given.K + P::ROWS - 1) / P::ROWS), pitch(given.a_col * S::SIZE),
        team(threadIdx.x / S::TEAM_THREADS), thread(threadIdx.x % S::TEAM_THREADS), leader(thread == 0),
        scaled(given.beta_re != 0.0 || given.beta_im != 0.0) {
    entries = reinterpret_cast<u64>(given.A) % S::SIZE == 0;
    base = entries ? static_cast<int>(reinterpret_cast<u64>(given.A) % 16) : 0;
    rise = entries && P::M > 1 ? static_cast<int>(static_cast<u64>(pitch) % 16) : 0;
    if (leader) ticket = P::ORDER == Order::cyclic ? blockIdx.x * P::GROUPS + team : atomicAdd(given.counters + 2, 1u);
  }

  // Barrier of the team.
  MANSARD_DEVICE void meet() const {
    if constexpr (S::TEAM == 1) __syncwarp();
    else named_barrier_sync(1 + team, S::TEAM_THREADS);
  }
  MANSARD_DEVICE volatile i64& tile_of(int of) const {
    return reinterpret_cast<volatile i64*>(arena + S::TILES_AT)[team * P::STAGES + of];
  }
  MANSARD_DEVICE unsigned char* stage(int of) const {
    return arena + S::RING_AT + (team * P::STAGES + of) * S::STAGE_BYTES;
  }
  MANSARD_DEVICE T* results() const { return reinterpret_cast<T*>(arena + S::OUT_AT + team * S::OUT_BYTES); }

  // Start the next copy. Called by all threads of the team; contains a barrier.
  MANSARD_DEVICE void advance() {
    volatile u32* mail = reinterpret_cast<volatile u32*>(arena) + team * 4 + phase;
    if (leader && step == 0) *mail = ticket;
    meet();  // mail: the leader's ticket;  stage `slot`: all threads have read it and may overwrite it
    if (step == 0) {
      ahead = *mail;
      phase ^= 1;  // the next ticket may be written while others still read this one
      if (leader && ahead < tiles)
        ticket = P::ORDER == Order::cyclic ? ticket + gridDim.x * P::GROUPS : atomicAdd(arguments.counters + 2, 1u);
    }
    if (leader) tile_of(slot) = ahead < tiles ? ahead : -1;
    if (ahead < tiles) load();
    cp_async_commit();
    if (++slot == P::STAGES) slot = 0;
    if (++step == S::STEPS) step = 0;
  }
  // Bytes from a multiple of 16 to the beginning of a column.
  MANSARD_DEVICE int displacement(int column) const { return (base + column * rise) & 15; }

  MANSARD_DEVICE void load() const {
    constexpr int BEHIND = 16 / S::SIZE;  // rows that copies may touch behind a tile
    const unsigned char* from = reinterpret_cast<const unsigned char*>(arguments.A) + ahead * (P::ROWS * S::SIZE) +
                                step * P::DEPTH * pitch;
    const bool inside = (ahead > 0 || base == 0) && (ahead + 1) * P::ROWS + BEHIND <= arguments.K;
    if (entries && inside) {
      if (S::LAST == P::DEPTH || step < S::STEPS - 1) copy<P::DEPTH>(from);
      else copy<S::LAST>(from);
    } else if (entries) {
      copy_singly<S::SIZE>(from);
    } else {
      copy_singly<int(sizeof(Word))>(from);
    }
  }
  template <int COLUMNS>
  MANSARD_DEVICE void copy(const unsigned char* from) const {
    if (S::SIZE == 16 || (base | rise) == 0) copy_covering<COLUMNS, P::ROWS * S::SIZE / 16>(from);
    else copy_covering<COLUMNS, P::ROWS * S::SIZE / 16 + 1>(from);
  }
  template <int COLUMNS, int PIECES>
  MANSARD_DEVICE void copy_covering(const unsigned char* from) const {
    unsigned char* to = stage(slot);
    MANSARD_UNROLL
    for (int first = 0; first < COLUMNS * PIECES; first += S::TEAM_THREADS) {
      const int i = first + thread, column = i / PIECES, piece = i % PIECES * 16;
      if (COLUMNS * PIECES % S::TEAM_THREADS == 0 || i < COLUMNS * PIECES) {
        const u64 place = reinterpret_cast<u64>(from + column * pitch) & ~static_cast<u64>(15);
        cp_async_word<16>(to + column * S::PITCH + piece, reinterpret_cast<const unsigned char*>(place) + piece);
      }
    }
  }
  // The first and the last tile, or unaligned entries. Rows beyond the last are copies of it.
  template <int BYTES>
  MANSARD_DEVICE void copy_singly(const unsigned char* from) const {
    constexpr int PIECES = P::ROWS * S::SIZE / BYTES, OF_ROW = S::SIZE / BYTES;
    const i64 left = arguments.K - ahead * P::ROWS;
    const int rows = left < P::ROWS ? static_cast<int>(left) : P::ROWS;
    const int columns = step < S::STEPS - 1 ? P::DEPTH : S::LAST;
MANSARD_UNROLL_BY(1)
    for (int i = thread; i < columns * PIECES; i += S::TEAM_THREADS) {
      const int column = i / PIECES, row = i % PIECES / OF_ROW, part = i % OF_ROW * BYTES;
      unsigned char* to = stage(slot) + column * S::PITCH + displacement(step * P::DEPTH + column);
      cp_async_word<BYTES>(to + row * S::SIZE + part,
                           from + column * pitch + (row < rows ? row : rows - 1) * S::SIZE + part);
    }
  }

  // The last team to finish resets the counters for the next launch.
  MANSARD_DEVICE void finish() const {
    if (P::ORDER == Order::tickets && leader && atomicAdd(arguments.counters + 3, 1u) == gridDim.x * P::GROUPS - 1)
      arguments.counters[2] = arguments.counters[3] = 0;
  }

  MANSARD_DEVICE T* place(i64 row, int column) const {
    return arguments.W + row * arguments.w_row + column * arguments.w_col;
  }
  // W(row, column) = entry + beta W(row, column).
  MANSARD_DEVICE void put(i64 row, int column, T entry) const {
    T* w = place(row, column);
    if constexpr (S::WORDS == 2) {
      const Complex<Word> sum = {entry.re, entry.im};
      entry = mansard::scaled<T>(sum, 1.0, 0.0, arguments.beta_re, arguments.beta_im, w);
      if (reinterpret_cast<u64>(arguments.W) % sizeof(T) == 0) {
        *reinterpret_cast<Pair<Word>*>(w) = {entry.re, entry.im};
        return;
      }
      *w = entry;
    } else {
      *w = mansard::scaled<T>(entry, 1.0, 0.0, arguments.beta_re, arguments.beta_im, w);
    }
  }
  // Copy OUT rows of results, `first` on, to a W without gaps between rows; whole sectors wherever rows fill them.
  MANSARD_DEVICE void copy_out(i64 first) const {
    const T* from = results();
    constexpr int COUNT = P::OUT * P::N;
    if (S::OUT_PITCH == P::N && first + P::OUT <= arguments.K && !scaled &&
        reinterpret_cast<u64>(arguments.W) % 16 == 0) {
      using Vector = Pair<double>;
      Vector* to = reinterpret_cast<Vector*>(arguments.W + first * P::N);
      constexpr int VECTORS = COUNT * S::SIZE / 16;
      MANSARD_UNROLL_BY(8)
      for (int i = thread; i < VECTORS; i += S::TEAM_THREADS) to[i] = reinterpret_cast<const Vector*>(from)[i];
      return;
    }
MANSARD_UNROLL_BY(4)
    for (int i = thread; i < COUNT; i += S::TEAM_THREADS) {
      const int row = i / P::N, column = i % P::N;
      if (first + row < arguments.K) put(first + row, column, from[row * S::OUT_PITCH + column]);
    }
  }
};

}  // namespace mansard
