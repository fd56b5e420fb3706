// W = alpha A C + beta W for tall A (K x M) and small C (M x N), between bulk copies in and out; any width.
//
// Team. WARPS_K x WARPS_N warps take chunks of ROWS rows of A, by ticket (mansard/gpu/ticket_ring.cuh). A unit multiplies
// the rows of a chunk with C (tensor_units.cuh, turned_unit.cuh, thirds_unit.cuh, group_unit.cuh, lane_unit.cuh).
// Results are gathered in shared memory row by row, and a bulk copy writes them to W in full lines. Each row is read
// before it is written, so that W may be A.
//
// Shared memory: the ring (GROUPS * STAGES chunks of A and barriers); 128 bytes that the reads of the last row may
// touch; GROUPS * OUT chunks of W (OUT_AT); C as the unit wants it (SMALL_AT). OUT = 0: results replace the chunk
// (BACK).
//
// Per chunk, with barriers as barrier -> buffer -> writer:
//   wait             mbarrier of the stage -> chunk of A -> its bulk copy
//   multiply pass 0
//   bulk_wait_read   place for results -> results of an earlier chunk, which a bulk store still reads
//   ring.meet        place for results -> this chunk's results;  BACK, or one pass: chunk of A, read by all -> results,
//                    or the next bulk copy
//   write results; more passes
//   fence, meet      results -> other warps, before the leader's bulk store reads them
//
// Limits: memory bandwidth; see docs/families/tsmm.md.
//
//   WARPS_K x WARPS_N  warps of a team: along the rows of a chunk, along the columns of W
//   GROUPS, STAGES     teams per block, chunks of A per team
//   ROWS, PASSES       rows per chunk; passes of a warp over a chunk, for more of its rows
//   OUT                chunks of W per team that bulk stores may still be reading; 0: results replace the rows they
//                      came from, or, if rows of W are padded (DIRECT), lanes store them to memory themselves
//   UNIT, SOURCE       who multiplies; where C is held: shared | registers
//   TURNED             tensor cores form W transposed (turned_unit.cuh)
//   PRODUCTS           real products per complex one: 4, or 3 (thirds_unit.cuh)
#pragma once
#include "kernels/tall_skinny/tsmm/group_unit.cuh"
#include "kernels/tall_skinny/tsmm/lane_unit.cuh"
#include "kernels/tall_skinny/tsmm/stream.cuh"
#include "kernels/tall_skinny/tsmm/tensor_units.cuh"
#include "kernels/tall_skinny/tsmm/thirds_unit.cuh"
#include "kernels/tall_skinny/tsmm/turned_unit.cuh"
#include "mansard/gpu/ticket_ring.cuh"

namespace mansard {

template <class P, Unit UNIT = P::UNIT, bool TURNED = P::TURNED, int PRODUCTS = P::PRODUCTS>
struct UnitOf {
  using Type = FloatUnit<P>;
  using Shape = UnitShape<P>;
};
template <class P>
struct UnitOf<P, Unit::float64, true, 4> {
  using Type = TurnedUnit<P>;
  using Shape = TurnedShape<P>;
};
template <class P>
struct UnitOf<P, Unit::tf32x3, false, 4> {
  using Type = HalvesUnit<P>;
  using Shape = UnitShape<P>;
};
template <class P>
struct UnitOf<P, Unit::wgmma, false, 4> {
  using Type = GroupUnit<P>;
  using Shape = GroupShape<P>;
};
template <class P>
struct UnitOf<P, Unit::fma, false, 4> {
  using Type = LaneUnit<P>;
  using Shape = UnitShape<P>;
};

template <class P>
struct UnitOf<P, Unit::tf32x3, false, 3> {
  using Type = ThirdsUnit<P>;
  using Shape = ThirdsShape<P>;
};

template <class P>
struct RingShape : UnitOf<P>::Shape {
  using U = typename UnitOf<P>::Shape;
  using Word = typename U::Word;
  using Chunks = TicketRing<P::GROUPS, P::WARPS_K * P::WARPS_N, P::STAGES, P::ROWS * U::LDA * int(sizeof(Word))>;
  static constexpr int OUT_BYTES = P::ROWS * P::N * int(sizeof(typename P::T));
  static constexpr bool BACK = P::OUT == 0 && !P::DIRECT;  // results replace the rows they came from
  static_assert(!BACK || OUT_BYTES <= Chunks::STAGE_BYTES && P::PASSES == 1, "no room in the stage");
  static_assert(P::OUT == 0 || !P::DIRECT, "padded rows are not copied out");
  // the ring; 128 bytes that reads of its last row may touch; results; C
  static constexpr int OUT_AT = Chunks::BYTES + 128, SMALL_AT = OUT_AT + P::GROUPS * P::OUT * OUT_BYTES;
  static_assert(SMALL_AT + U::SMALL_BYTES <= P::SHARED_BYTES && OUT_BYTES % 16 == 0, "shared memory");
};

template <class P, class Arguments>
MANSARD_DEVICE void tsmm_ring(const Arguments& arguments) {
  using S = RingShape<P>;
  using T = typename P::T;
  using Word = typename S::Word;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const Stream<P, Arguments> stream(arguments);
  typename S::Chunks ring(arena, stream.chunks, arguments.counters);
  typename UnitOf<P>::Type unit(ring.member, arena + S::SMALL_AT);
  unit.template hold<S::Chunks::THREADS>(arguments, arena + S::SMALL_AT);
  const auto fill = [&](unsigned char* stage, mbarrier* arrival, i64 chunk) { stream.fill(stage, arrival, chunk); };
  ring.start(fill);

  const auto store = [&](i64 first) {  // results to global memory
    const auto one = [&](int row, int column, auto value) {
      if (first + row < arguments.K && column < P::N)
        *stream.place(first + row, column) = stream.entry(value, first + row, column);
    };
    unit.for_each_result([&](int row, int column, auto left, auto right) {
      one(row, column, left);
      one(row, column + 1, right);
    }, one);
  };
  const auto lay_down = [&](T* rows, i64 first) {  // results to shared memory
    const auto one = [&](int row, int column, auto value) {
      if (column < P::N) lay(rows + row * P::N + column, stream.entry(value, first + row, column));
    };
    unit.for_each_result([&](int row, int column, auto left, auto right) {
      if constexpr (S::WORDS == 1 && P::N % 2 == 0) {
        if (column >= P::N) return;
        const Word x = stream.entry(left, first + row, column), y = stream.entry(right, first + row, column + 1);
        *reinterpret_cast<Pair<Word>*>(rows + row * P::N + column) = {x, y};
      } else if constexpr (S::WORDS == 2 && sizeof(T) == 8 && P::N % 2 == 0) {
        if (column >= P::N) return;
        const T x = stream.entry(left, first + row, column), y = stream.entry(right, first + row, column + 1);
        *reinterpret_cast<Pair<Pair<Word>>*>(rows + row * P::N + column) = {{x.re, x.im}, {y.re, y.im}};
      } else {
        one(row, column, left);
        one(row, column + 1, right);
      }
    }, one);
  };

  int slot = 0, emptied = -1;  // BACK: the stage whose results a bulk store is reading
MANSARD_UNROLL_BY(1)
  for (i64 chunk; (chunk = ring.wait()) >= 0; ring.advance()) {
    unsigned char* to = S::BACK ? ring.current() : arena + S::OUT_AT + (ring.group * P::OUT + slot) * S::OUT_BYTES;
    unit.multiply(ring.current(), 0);
    if (ring.leader && P::OUT > 0) bulk_wait_read<P::OUT - (P::OUT > 0)>();  // `to` is not read any more
    if (ring.leader && S::BACK) bulk_wait_read<0>();  // the stage `emptied` is not read any more
    ring.meet();  // `to` is about to be overwritten by results, the stage by results or copies; all warps have read it
    if (S::BACK && emptied >= 0) ring.refill(emptied, fill);
    if (!S::BACK && P::PASSES == 1) ring.refill(ring.stage, fill);
MANSARD_UNROLL_BY(1)
    for (int pass = 0; pass < P::PASSES; ++pass) {
      if (pass > 0) unit.multiply(ring.current(), pass);
      if constexpr (P::DIRECT) store(chunk * P::ROWS);
      else lay_down(reinterpret_cast<T*>(to), chunk * P::ROWS);
    }
    if constexpr (!P::DIRECT) fence_async_shared();
    if (!P::DIRECT || P::PASSES > 1) ring.meet();  // results in `to` are complete; all passes have read the stage
    if (!P::DIRECT && ring.leader) {
      bulk_store(arguments.W + chunk * (P::ROWS * P::N), to, S::OUT_BYTES);
      bulk_commit();
    }
    if (P::PASSES > 1) ring.refill(ring.stage, fill);
    if (++slot >= P::OUT) slot = 0;
    emptied = ring.stage;
  }
  ring.finish();

  if (blockIdx.x == 0 && ring.group == 0 && stream.chunks * P::ROWS < arguments.K) {
    unsigned char* stage = ring.stage_at(0);
    if (ring.leader && S::BACK) bulk_wait_read<0>();
    ring.meet();  // stage 0 is about to be overwritten by the tail; no warp and no bulk store reads it any more
    stream.fill_tail(reinterpret_cast<Word*>(stage), threadIdx.x, S::Chunks::TEAM * 32);
    ring.meet();  // stage 0 holds the tail, written by all threads of the team
MANSARD_UNROLL_BY(1)
    for (int pass = 0; pass < P::PASSES; ++pass) {
      unit.multiply(stage, pass);
      store(stream.chunks * P::ROWS);
    }
  }
  if (!P::DIRECT && ring.leader) bulk_wait<0>();
}

}  // namespace mansard
