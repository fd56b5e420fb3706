// W = alpha A C + beta W for column-major, tall A (K x M) and small C (M x N); columns start at any address.
//
// Team. WARPS_N warps take tiles of ROWS rows of A, by ticket or cyclically. A tile streams through a ring of STAGES
// stages, DEPTH columns at a time, by asynchronous copies of the team's own lanes (columns_stream.cuh), which run
// STAGES - 1 steps ahead, beyond the end of a tile. Tensor cores or lanes multiply each step with rows of C
// (columns_units.cuh); sums stay in registers until the tile ends. W(tile) leaves by lanes: OUT rows at a time through
// shared memory, one after the other in memory, if W is row-major without gaps; straight from registers elsewhere.
// A row is read before it is written, by the same team, so that W may be A.
//
// Shared memory: two tickets per team; tile of each stage; stages; OUT rows of results per team; C as the unit wants it.
//
// Per step, with barriers as barrier -> buffer -> writer:
//   cp_async_wait    stage -> the lane's own copies
//   advance (meet)   stage -> all lanes' copies;  stage before it, read by all -> the next copies;  ticket -> the leader
//   multiply; at the end of a tile, OUT rows at a time:
//   meet             results, read by all -> the next results (not before the first)
//   lay, meet        results -> all lanes, before they are copied out
//
// Limits: copy bandwidth; see docs/families/tsmm.md.
//
//   WARPS_N, GROUPS  warps of a team, side by side over the columns of W; teams per block
//   ROWS, DEPTH      rows of a tile; columns of A per stage
//   STAGES           stages per team
//   OUT              rows of results in shared memory at once; 0: lanes store them to memory themselves
//   UNIT             who multiplies: float64 | tf32x3 | fma
//   ROLLED           tensor cores take sixteen words of a row at a time, for fewer registers
//   ORDER            tiles by a counter (tickets) or one after the other (cyclic)
#pragma once
#include "kernels/tall_skinny/tsmm/columns_units.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void tsmm_columns(const Arguments& arguments) {
  using S = ColumnsShape<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  ColumnsStream<P, Arguments> stream(arguments, arena);
  typename ColumnsUnit<P>::Type unit(threadIdx.x / 32 % S::TEAM, arena + S::SMALL_AT);
  for (int i = 0; i < P::STAGES - 1; ++i) stream.advance();
  unit.hold(arguments, arena + S::SMALL_AT);
  __syncthreads();  // C is complete, written by all threads

  int slot = 0, step = 0;
  i64 tile = 0;
MANSARD_UNROLL_BY(1)
  for (;;) {
    cp_async_wait<P::STAGES - 2>();  // this lane's copies to stage `slot` are complete
    stream.advance();                // and those of the whole team, which has read the stage before it
    if (step == 0) {
      tile = stream.tile_of(slot);
      if (tile < 0) break;
      unit.clear();
    }
    if (S::LAST == P::DEPTH || step < S::STEPS - 1) unit.template multiply<P::DEPTH>(stream, stream.stage(slot), step);
    else unit.template multiply<S::LAST>(stream, stream.stage(slot), step);
    if (++slot == P::STAGES) slot = 0;
    if (++step < S::STEPS) continue;
    step = 0;
    const i64 first = tile * P::ROWS;
    unit.settle(arguments, first);
    if constexpr (P::OUT == 0) {
      if (S::TEAM > 1 && S::TF32) stream.meet();  // rows of A in memory, read again by `settle` -> results in their place
      unit.for_each(arguments, [&](int row, int column, T entry) {
        if (first + row < arguments.K) stream.put(first + row, column, entry);
      });
    } else {
      MANSARD_UNROLL
      for (int row = 0; row < P::ROWS; row += P::OUT) {
        if (row > 0) stream.meet();  // results are about to be overwritten; all lanes have copied theirs out
        unit.lay(arguments, stream.results(), row / 8);
        stream.meet();  // OUT rows of results, written by all lanes of the team
        stream.copy_out(first + row);
      }
    }
  }
  stream.finish();
}

}  // namespace mansard
