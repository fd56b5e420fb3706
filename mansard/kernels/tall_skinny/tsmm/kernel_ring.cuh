// W = alpha A C + beta W between bulk copies in and out: the kernel for every width, odd ones too.
//
// Chunks of ROWS rows of A arrive in shared memory as they lie (mansard/gpu/ticket_ring.cuh). The warps of a team multiply them
// with C (tensor_units.cuh, turned_unit.cuh, thirds_unit.cuh, group_unit.cuh, lane_unit.cuh), lay the results down row by row,
// and a bulk copy carries these out: whole lines, whatever the width. Each row is read before it is written, so that W may be A.
//
//   WARPS_K x WARPS_N  warps of a team: along the rows of a chunk, along the columns of W
//   GROUPS, STAGES     teams per block, chunks of A per team
//   ROWS, PASSES       rows per chunk; how often a warp comes back to it for more of them
//   OUT                chunks of W per team on their way out; 0: results take the place of the rows they came from, or, if
//                      rows of W are padded (DIRECT), lanes store them to memory themselves
//   UNIT, SOURCE       who multiplies; where C waits: shared | registers
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
  static constexpr bool BACK = P::OUT == 0 && !P::DIRECT;  // results go where their rows came from
  static_assert(!BACK || OUT_BYTES <= Chunks::STAGE_BYTES && P::PASSES == 1, "no room in the stage");
  static_assert(P::OUT == 0 || !P::DIRECT, "padded rows are not copied out");
  // the ring, a line that its last row is read past, results on their way out, C
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

  const auto store = [&](i64 first) {  // to memory
    const auto one = [&](int row, int column, auto value) {
      if (first + row < arguments.K && column < P::N)
        *stream.place(first + row, column) = stream.entry(value, first + row, column);
    };
    unit.for_each_result([&](int row, int column, auto left, auto right) {
      one(row, column, left);
      one(row, column + 1, right);
    }, one);
  };
  const auto lay_down = [&](T* rows, i64 first) {  // in shared memory
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

  int slot = 0, emptied = -1;  // the stage whose results are on their way out
MANSARD_UNROLL_BY(1)
  for (i64 chunk; (chunk = ring.wait()) >= 0; ring.advance()) {
    unsigned char* to = S::BACK ? ring.current() : arena + S::OUT_AT + (ring.group * P::OUT + slot) * S::OUT_BYTES;
    unit.multiply(ring.current(), 0);
    if (ring.leader && P::OUT > 0) bulk_wait_read<P::OUT - (P::OUT > 0)>();  // room for what is written next
    if (ring.leader && S::BACK) bulk_wait_read<0>();
    ring.meet();
    if (S::BACK && emptied >= 0) ring.refill(emptied, fill);
    if (!S::BACK && P::PASSES == 1) ring.refill(ring.stage, fill);
MANSARD_UNROLL_BY(1)
    for (int pass = 0; pass < P::PASSES; ++pass) {
      if (pass > 0) unit.multiply(ring.current(), pass);
      if constexpr (P::DIRECT) store(chunk * P::ROWS);
      else lay_down(reinterpret_cast<T*>(to), chunk * P::ROWS);
    }
    if constexpr (!P::DIRECT) fence_async_shared();
    if (!P::DIRECT || P::PASSES > 1) ring.meet();
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
    ring.meet();
    stream.fill_tail(reinterpret_cast<Word*>(stage), threadIdx.x, S::Chunks::TEAM * 32);
    ring.meet();
MANSARD_UNROLL_BY(1)
    for (int pass = 0; pass < P::PASSES; ++pass) {
      unit.multiply(stage, pass);
      store(stream.chunks * P::ROWS);
    }
  }
  if (!P::DIRECT && ring.leader) bulk_wait<0>();
}

}  // namespace mansard
