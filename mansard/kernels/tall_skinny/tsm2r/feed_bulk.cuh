// A through shared memory: FEEDERS producer warps fetch chunks by bulk copies, row by row (or column by column) in the
// layout of global memory; the consumer warps load them as fragments (mansard/gpu/ring.cuh).
//
// One lane of a producer warp issues all its copies: lanes that issue one each are serialised, at five times the cost.
// ONCE marks copies of A to be evicted from L2 first, so that B stays there.
//
// Rows of a chunk begin in the same banks. Row-major: a lane loads 16 bytes, and the two rows that are loaded together
// take the halves of a line in turn. Column-major: a lane loads two neighbouring rows, the four columns of a step take
// four tiles in turn, and each tile has its rows in another order, so that no two lanes hit the same bank. Words that
// were loaded in another order are exchanged by selects (SPREAD=rotate). SPREAD=none: bank conflicts, but no selects.
//
// Barriers (barrier -> buffer -> writer): mbarrier full[stage] -> chunk -> bulk copies of the producers;  mbarrier
// empty[stage] -> chunk, read by all consumer warps -> the next bulk copies;  named barrier 2 -> words and zeros that
// producers store themselves -> all producer warps, before the chunk is announced.
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
  // Words between rows (or columns) of a chunk, and the number of rows (or columns).
  static constexpr int PITCH = S::COL ? S::ROWS : P::DEPTH, LINES = S::COL ? P::DEPTH : S::ROWS;
  static constexpr int AT_ONCE = S::GROUP <= 2 ? 2 : 1;  // groups per iteration of the loop over a chunk
  static constexpr bool ROTATE = P::SPREAD == Spread::rotate;
  static constexpr int TURNS = !S::COL ? 2 : !ROTATE ? 1 : P::TILES % 4 == 0 ? 4 : P::TILES % 2 == 0 ? 2 : 1;

  const Arguments& arguments;
  const Panels<P, Arguments>& panels;
  Chunks chunks;
  const Word* lane;        // the lane's first word in its warp's part of stage 0
  int order[TURNS], turn;  // offsets from there in the lane's own order, and which order that is
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

  // The first of the lane's two rows of a tile, column-major.
  MANSARD_DEVICE int row_in(int tile) const {
    const int i = tile % TURNS;
    return tile * 16 + 2 * (g ^ (sizeof(Word) == 8 ? 2 * i : i / 2 * 4));
  }
  // Row of the panel that a lane's sums of a tile belong to, upper or lower half.
  MANSARD_DEVICE int row(int tile, int half) const {
    return first_row + (S::COL ? row_in(tile) + half : tile * 16 + half * 8 + g);
  }

  MANSARD_DEVICE void initialise() const {
    // rows beyond the end of A are loaded although no copy fills them; zeros keep them from being NaNs
    if (P::UNIT == Unit::tf32x3 && panels.rows() % S::ROWS != 0) {
      float4* at = reinterpret_cast<float4*>(chunks.stage_of(0, 0));
      for (int i = threadIdx.x; i < P::STAGES * Chunks::STAGE_BYTES / int(sizeof(float4)); i += THREADS)
        at[i] = make_float4(0, 0, 0, 0);
      fence_async_shared();  // stages: zeros are visible to the bulk copies that overwrite them
    }
    chunks.initialise();
  }

  // --- Producer warps ----------------------------------------------------------------------------------------

  MANSARD_DEVICE void produce(Cursor cursor, int count) {
    const u64 policy = P::ONCE ? once_policy() : 0;
    parity = 1;
MANSARD_UNROLL_BY(1)
    for (; count > 0; --count) {
      mbarrier_wait(chunks.empty(0, stage), parity);  // stage: all consumer warps have read it
      __syncwarp();  // reconverge the warp after the wait
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
    const u32 bytes = length * sizeof(Word) / 16 * 16;  // the rest of a line is stored by fill_rest
    const int thread = threadIdx.x - S::CONSUMERS, warp = thread / 32;
    if (columns < P::DEPTH || int(bytes / sizeof(Word)) < length) {
      fill_rest(to, from, pitch, lines, length, bytes / sizeof(Word), thread);
      fence_async_shared();  // these stores come before later bulk copies to the same stage
      named_barrier_sync(2, 32 * P::FEEDERS);  // stage: words and zeros of all producer warps are stored
    }
    if (thread == 0) mbarrier_arrive_expect(arrival, lines * bytes);  // bytes of all producer warps
    __syncwarp();  // reconverge for `elected`
    if (bytes > 0 && elected()) {
      const i64 further = P::FEEDERS * pitch;
      from += warp * pitch, to += warp * PITCH;
MANSARD_UNROLL_BY(8)
      for (int left = lines - warp; left > 0; left -= P::FEEDERS, from += further, to += P::FEEDERS * PITCH)
        if constexpr (P::ONCE) bulk_load_once(to, from, bytes, arrival, policy);
        else bulk_load(to, from, bytes, arrival);
    }
    __syncwarp();  // reconverge after the elected lane
  }
  // Store words that bulk copies leave out, and zeros beyond the last column of A. Rows beyond the end need no zeros:
  // their sums are not stored.
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

  // --- Consumer warps ----------------------------------------------------------------------------------------

  MANSARD_DEVICE void start(Cursor) {}
  MANSARD_DEVICE void begin(Cursor, bool) {
    mbarrier_wait(chunks.full(0, stage), parity);
    __syncwarp();  // the warp must be converged again for mma.sync
  }
  MANSARD_DEVICE void end() {
    __threadfence_block();  // reads of this stage come before the next bulk copy to it: see mansard/gpu/ring.cuh
    __syncwarp();  // stage: all lanes of the warp have read it before lane 0 arrives
    if (threadIdx.x % 32 == 0) mbarrier_arrive(chunks.empty(0, stage));
    next_stage();
  }
  MANSARD_DEVICE const Word* here() const { return lane + stage * (S::ROWS * P::DEPTH); }

  // Load the lane's numbers of a group of steps: a[step][tile][upper or lower half].
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
  // Load one number, whatever the bank conflicts.
  MANSARD_DEVICE Word load_one(int step, int tile, int half) const {
    if constexpr (S::COL) return here()[step * 4 * PITCH + row_in(tile) + half];
    else return here()[S::k_of(step, 0) + (tile * 16 + half * 8) * PITCH];
  }
};

}  // namespace mansard
