// A through shared memory: FEEDERS warps of their own fetch chunks by bulk copies (mansard/gpu/ring.cuh), row by row (or column
// by column) as they lie in memory, and the other warps read them as fragments. One lane of a warp issues all of its copies:
// lanes that issue one each take turns, at five times the cost. ONCE lets copies leave the second cache first, where B is
// to stay.
//
// Rows of a chunk begin in the same banks. Row-major, a lane takes sixteen bytes at a time, and the two rows that are read
// together take the halves of a line in turns. Column-major, a lane takes two neighbouring rows, the four columns of a step
// take four tiles in turns, and each tile has its rows in another order, such that no two lanes meet in a bank. What was read
// in turns is put right by selects (SPREAD=rotate); with SPREAD=none lanes collide, and nothing needs to be put right.
#pragma once
#include "kernels/tall_skinny/tsm2r/once.cuh"
#include "kernels/tall_skinny/tsm2r/panels.cuh"
#include "mansard/gpu/ring.cuh"

namespace mansard {

template <class Word>
MANSARD_DEVICE void swap_if(bool swap, Word& x, Word& y) {
  const Word first = swap ? y : x;
  y = swap ? x : y;
  x = first;
}

template <class P, class Arguments>
struct BulkFeed {
  using S = TensorShape<P>;
  using Word = typename S::Word;
  using Chunks = Ring<1, S::CONSUMERS / 32, P::STAGES, S::ROWS * P::DEPTH * int(sizeof(Word)), Feed::producer>;
  static constexpr int THREADS = S::CONSUMERS + P::FEEDERS * 32, BYTES = Chunks::BYTES;
  // Words between rows (or columns) of a chunk, and how many of those there are.
  static constexpr int PITCH = S::COL ? S::ROWS : P::DEPTH, LINES = S::COL ? P::DEPTH : S::ROWS;
  static constexpr int AT_ONCE = S::GROUP <= 2 ? 2 : 1;  // groups in a turn of the loop over a chunk
  static constexpr bool ROTATE = P::SPREAD == Spread::rotate;
  static constexpr int TURNS = !S::COL ? 2 : !ROTATE ? 1 : P::TILES % 4 == 0 ? 4 : P::TILES % 2 == 0 ? 2 : 1;

  const Arguments& arguments;
  const Panels<P, Arguments>& panels;
  Chunks chunks;
  const Word* lane;        // of the warp's part of stage 0, what this lane reads first
  int order[TURNS], turn;  // words from there, in the order of the turns
  int g, t, first_row, first_step, stage = 0;
  u32 parity = 0;

  MANSARD_DEVICE BulkFeed(const Arguments& given, const Panels<P, Arguments>& all, unsigned char* arena)
      : arguments(given), panels(all), chunks{arena, 0}, g(threadIdx.x % 32 / 4), t(threadIdx.x % 4) {
    const int warp = threadIdx.x / 32;
    first_row = warp % P::WARPS_M * S::WARP_ROWS, first_step = threadIdx.x / S::TEAM * S::WARP_STEPS;
    turn = !ROTATE ? 0 : S::COL ? t & (TURNS - 1) : g & 1;
    lane = reinterpret_cast<const Word*>(chunks.stage_of(0, 0));
    if constexpr (S::COL) lane += (first_step * 4 + t) * PITCH + first_row;
    else lane += (first_row + g) * PITCH + S::k_of(first_step, t);
    MANSARD_UNROLL
    for (int n = 0; n < TURNS; ++n) order[n] = S::COL ? row_in(n ^ turn) : (n ^ turn) * 4 * S::ADJACENT;
  }

  // The first of two rows of a tile that the lane reads, column-major.
  MANSARD_DEVICE int row_in(int tile) const {
    const int i = tile % TURNS;
    return tile * 16 + 2 * (g ^ (sizeof(Word) == 8 ? 2 * i : i / 2 * 4));
  }
  // Row of the panel that a lane's sums of a tile belong to, upper or lower half.
  MANSARD_DEVICE int row(int tile, int half) const {
    return first_row + (S::COL ? row_in(tile) + half : tile * 16 + half * 8 + g);
  }

  MANSARD_DEVICE void initialise() const {
    // rows that no copy fills are read, and must not look like a NaN
    if (P::UNIT == Unit::tf32x3 && panels.rows() % S::ROWS != 0) {
      float4* at = reinterpret_cast<float4*>(chunks.stage_of(0, 0));
      for (int i = threadIdx.x; i < P::STAGES * Chunks::STAGE_BYTES / int(sizeof(float4)); i += THREADS)
        at[i] = make_float4(0, 0, 0, 0);
      fence_async_shared();
    }
    chunks.initialise();
  }

  // --- The warps that fetch ----------------------------------------------------------------------------------

  MANSARD_DEVICE void produce(Cursor cursor, int count) {
    const u64 policy = P::ONCE ? once_policy() : 0;
    parity = 1;
MANSARD_UNROLL_BY(1)
    for (; count > 0; --count) {
      mbarrier_wait(chunks.empty(0, stage), parity);
      __syncwarp();
      fill(reinterpret_cast<Word*>(chunks.stage_of(0, stage)), chunks.full(0, stage), cursor, policy);
      cursor = panels.behind(cursor);
      next_stage();
    }
  }
  MANSARD_DEVICE void fill(Word* to, mbarrier* arrival, Cursor cursor, u64 policy) const {
    const i64 pitch = (S::COL ? arguments.a_col : arguments.a_row) * S::WORDS;
    const i64 first = panels.first_row(cursor), begin = panels.first_column(cursor);
    const Word* from = reinterpret_cast<const Word*>(arguments.A) + (S::COL ? begin * pitch + first : first * pitch + begin);
    const i64 rows = panels.rows() - first, columns = panels.columns() - begin;
    const int lines = clipped(S::COL ? columns : rows, LINES), length = clipped(S::COL ? rows : columns, PITCH);
    const u32 bytes = length * sizeof(Word) / 16 * 16;  // the rest of a line is no multiple of sixteen
    const int thread = threadIdx.x - S::CONSUMERS, warp = thread / 32;
    if (columns < P::DEPTH || int(bytes / sizeof(Word)) < length) {
      fill_rest(to, from, pitch, lines, length, bytes / sizeof(Word), thread);
      fence_async_shared();  // later copies will land there
      named_barrier_sync(2, 32 * P::FEEDERS);
    }
    if (thread == 0) mbarrier_arrive_expect(arrival, lines * bytes);  // what all warps fetch
    __syncwarp();
    if (bytes > 0 && elected()) {
      const i64 further = P::FEEDERS * pitch;
      from += warp * pitch, to += warp * PITCH;
MANSARD_UNROLL_BY(8)
      for (int left = lines - warp; left > 0; left -= P::FEEDERS, from += further, to += P::FEEDERS * PITCH)
        if constexpr (P::ONCE) bulk_load_once(to, from, bytes, arrival, policy);
        else bulk_load(to, from, bytes, arrival);
    }
    __syncwarp();
  }
  // What bulk copies leave out, and zeros where A has no columns: rows past the end are read, but their sums are not.
  static MANSARD_DEVICE void fill_rest(Word* to, const Word* from, i64 pitch, int lines, int length, int copied, int thread) {
    for (int line = thread; line < lines; line += 32 * P::FEEDERS)
      for (int word = copied; word < length; ++word) to[line * PITCH + word] = from[line * pitch + word];
    for (int line = (S::COL ? lines : 0) + thread / 32; line < (S::COL ? LINES : lines); line += P::FEEDERS)
      for (int word = (S::COL ? 0 : length) + thread % 32; word < PITCH; word += 32) to[line * PITCH + word] = Word(0);
  }
  static MANSARD_DEVICE int clipped(i64 left, int most) { return left < most ? static_cast<int>(left) : most; }
  MANSARD_DEVICE void next_stage() {
    if (++stage == P::STAGES) stage = 0, parity ^= 1;
  }

  // --- The warps that multiply -------------------------------------------------------------------------------

  MANSARD_DEVICE void start(Cursor) {}
  MANSARD_DEVICE void begin(Cursor, bool) {
    mbarrier_wait(chunks.full(0, stage), parity);
    __syncwarp();  // the warp must be converged again for mma.sync
  }
  MANSARD_DEVICE void end() {
    __threadfence_block();  // the reads are done before the next chunk may land under them: see mansard/gpu/ring.cuh
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(chunks.empty(0, stage));
    next_stage();
  }
  MANSARD_DEVICE const Word* here() const { return lane + stage * (S::ROWS * P::DEPTH); }

  // The lane's numbers of a group of steps: a[step][tile][upper or lower half].
  MANSARD_DEVICE void load(int group, Word (&a)[S::GROUP][P::TILES][2]) const {
    if constexpr (S::COL) load_columns(here() + group * (S::GROUP * 4 * PITCH), a);
    else load_rows(here() + group * (S::GROUP * 4), a);
  }
  MANSARD_DEVICE void load_rows(const Word* from, Word (&a)[S::GROUP][P::TILES][2]) const {
    using Vector = Words<Word, S::ADJACENT>;
    MANSARD_UNROLL
    for (int i = 0; i < 2 * P::TILES; ++i) {
      Vector first = *reinterpret_cast<const Vector*>(from + order[0] + i * 8 * PITCH);
      Vector second = *reinterpret_cast<const Vector*>(from + order[1] + i * 8 * PITCH);
      MANSARD_UNROLL
      for (int v = 0; v < S::ADJACENT; ++v) {
        if (ROTATE) swap_if(turn, first.at[v], second.at[v]);
        a[v][i / 2][i % 2] = first.at[v];
        a[S::ADJACENT + v][i / 2][i % 2] = second.at[v];
      }
    }
  }
  MANSARD_DEVICE void load_columns(const Word* from, Word (&a)[S::GROUP][P::TILES][2]) const {
    using Vector = Words<Word, 2>;
    MANSARD_UNROLL
    for (int s = 0; s < S::GROUP; ++s) {
      MANSARD_UNROLL
      for (int i = 0; i < P::TILES; ++i) {
        const int at = order[i % TURNS] + i / TURNS * (TURNS * 16);
        const Vector pair = *reinterpret_cast<const Vector*>(from + at + s * 4 * PITCH);
        a[s][i][0] = pair.at[0], a[s][i][1] = pair.at[1];
      }
      MANSARD_UNROLL
      for (int bit = 1; bit < TURNS; bit *= 2)
        MANSARD_UNROLL
        for (int i = 0; i < P::TILES; ++i)
          if ((i & bit) == 0)
            for (int half = 0; half < 2; ++half) swap_if(turn & bit, a[s][i][half], a[s][i | bit][half]);
    }
  }
  // One number alone, conflicts or not.
  MANSARD_DEVICE Word load_one(int step, int tile, int half) const {
    if constexpr (S::COL) return here()[step * 4 * PITCH + row_in(tile) + half];
    else return here()[S::k_of(step, 0) + (tile * 16 + half * 8) * PITCH];
  }
};

}  // namespace mansard
