// W = alpha A C + beta D and G = W^H W, in one pass over A. D may be W.
//
// Chunks of A come and chunks of W go as in tsmm's kernel_ring.cuh. Tensor cores form W transposed (tsmm's
// turned_unit.cuh), and what a lane then holds is exactly what W^H W wants as its operands, if rows are taken in the
// order that the lanes have them. So the second product reads nothing; its sums stay in registers until the end.
//
// Work of a stream may be queued before it is known whether it is wanted: where `gate` points to zero, nothing is done.
//
//   WARPS_K, GROUPS, STAGES  warps of a team, teams of a block, chunks of A per team
//   ROWS, PASSES             rows per chunk; how often a warp comes back to it for more of them
//   OUT                      chunks of W per team on their way out
//   REDUCE                   how the blocks' sums of G are added: mansard/gpu/reduce.cuh
#pragma once
#include "kernels/tall_skinny/tsmm/stream.cuh"
#include "kernels/tall_skinny/tsmm/turned_unit.cuh"
#include "mansard/gpu/reduce.cuh"
#include "mansard/gpu/ticket_ring.cuh"

namespace mansard {

template <class P>
struct FusedShape : TurnedShape<P> {
  using S = TurnedShape<P>;
  using Word = typename S::Word;
  using Sum = typename Scalar<typename P::T>::template With<double>;
  using Chunks = TicketRing<P::GROUPS, P::WARPS_K, P::STAGES, P::ROWS * S::LDA * int(sizeof(Word)), true>;
  static constexpr int OUT_BYTES = P::ROWS * P::N * int(sizeof(typename P::T));
  static constexpr int OUT_AT = Chunks::BYTES + 128, SMALL_AT = OUT_AT + P::GROUPS * P::OUT * OUT_BYTES;
  static_assert(SMALL_AT + S::SMALL_BYTES <= P::SHARED_BYTES && OUT_BYTES % 16 == 0, "shared memory");

  // G in slots of eight real columns: those of W, or real parts and imaginary parts of eight columns in turn. Two slots
  // and one make a tile of sums; tiles below the diagonal are left out.
  static constexpr int SLOTS = S::WORDS == 2 ? 2 * S::TILES : S::COLUMNS, PAIRS = ceil_div(SLOTS, 2);
  static constexpr int SIDE = 16 * PAIRS, PITCH = SIDE + 1;
  static constexpr int PRODUCTS = PAIRS * (2 * SLOTS - 2 * PAIRS + 2) / 2;  // sum over p of SLOTS - 2 p
  static constexpr int WARPS = P::GROUPS * P::WARPS_K, ROOM = P::SHARED_BYTES / (SIDE * PITCH * 8);
  static constexpr int MEETING = ROOM < WARPS ? ROOM : WARPS;
  static_assert(MEETING >= 1, "shared memory");

  // Where part `part` (0: real) of column n of W stands among the real ones.
  static MANSARD_DEVICE int place_of(int n, int part) { return S::WORDS == 2 ? n / 8 * 16 + part * 8 + n % 8 : n; }
};

// A turned unit that goes on to multiply what it has with itself.
template <class P>
struct FusedUnit : TurnedUnit<P> {
  using S = FusedShape<P>;
  double sums[S::PRODUCTS][4] = {};  // of G
  using TurnedUnit<P>::TurnedUnit;

  // Both rows of a lane at once: slot s of row e is rows[o][s / 2][s % 2 * 2 + e].
  MANSARD_DEVICE void add_products() {
    MANSARD_UNROLL
    for (int o = 0; o < S::OCTETS; ++o)
      for_each_product([&](int product, int pair, int slot) {
        const double(&l)[4] = this->rows[o][pair];
        const double* r = this->rows[o][slot / 2] + slot % 2 * 2;
        mma_m16n8k8(sums[product], {l[0], l[2], l[1], l[3]}, {r[0], r[1]});
      });
  }
  // Calls use(number, pair of slots, slot) for all tiles of G.
  template <class Use>
  static MANSARD_DEVICE void for_each_product(Use use) {
    int product = 0;
    MANSARD_UNROLL
    for (int pair = 0; pair < S::PAIRS; ++pair)
      MANSARD_UNROLL
      for (int slot = 2 * pair; slot < S::SLOTS; ++slot) use(product++, pair, slot);
  }
  // Writes the warp's sums to a tile in shared memory, or adds them to what is there.
  MANSARD_DEVICE void add_to(double* tile, bool add) const {
    for_each_product([&](int product, int pair, int slot) {
      MANSARD_UNROLL
      for (int e = 0; e < 4; ++e) {
        double* entry = tile + (pair * 16 + e / 2 * 8 + this->g) * S::PITCH + slot * 8 + 2 * this->t + e % 2;
        *entry = add ? *entry + sums[product][e] : sums[product][e];
      }
    });
  }
};

// Entry (m, n) of this block's G, m <= n, from the MEETING tiles of its warps.
template <class P>
MANSARD_DEVICE typename FusedShape<P>::Sum gram_entry(const double* tiles, int m, int n) {
  using S = FusedShape<P>;
  const auto product = [&](int part_m, int part_n) {
    const int i = S::place_of(m, part_m), j = S::place_of(n, part_n);
    const double* at = tiles + (i / 8 <= j / 8 ? i * S::PITCH + j : j * S::PITCH + i);
    double sum = 0.0;
    for (int k = 0; k < S::MEETING; ++k) sum += at[k * S::SIDE * S::PITCH];
    return sum;
  };
  if constexpr (S::WORDS == 2) return {product(0, 0) + product(1, 1), m == n ? 0.0 : product(0, 1) - product(1, 0)};
  else return product(0, 0);
}

// Chunks of A in, entries of W out, where beta multiplies D.
template <class P, class Arguments>
struct FusedStream : Stream<P, Arguments> {
  using typename Stream<P, Arguments>::T;
  using Stream<P, Arguments>::Stream;
  template <class Value>
  MANSARD_DEVICE T entry(Value value, i64 row, int column) const {
    const Arguments& given = this->arguments;
    if (!this->scaled) return this->narrowed(value);
    const T* from = given.D + row * given.d_row + column;
    return mansard::scaled<T>(this->widened(value), 1.0, 0.0, given.beta_re, given.beta_im, from);
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void matmul_gram_ring(const Arguments& arguments) {
  if (arguments.gate != nullptr && *arguments.gate == 0) return;
  using S = FusedShape<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const FusedStream<P, Arguments> stream(arguments);
  typename S::Chunks ring(arena, stream.chunks, arguments.counters);
  FusedUnit<P> unit(ring.member, arena + S::SMALL_AT);
  unit.template hold<S::Chunks::THREADS>(arguments, arena + S::SMALL_AT);
  const auto fill = [&](unsigned char* stage, mbarrier* arrival, i64 chunk) { stream.fill(stage, arrival, chunk); };
  ring.start(fill);

  int slot = 0;
MANSARD_UNROLL_BY(1)
  for (i64 chunk; (chunk = ring.wait()) >= 0; ring.advance()) {
    unsigned char* to = arena + S::OUT_AT + (ring.group * P::OUT + slot) * S::OUT_BYTES;
    const i64 first = chunk * P::ROWS;
MANSARD_UNROLL_BY(1)
    for (int pass = 0; pass < P::PASSES; ++pass) {
      unit.multiply(ring.current(), pass);
      if (pass == 0) {
        if (ring.leader) bulk_wait_read<P::OUT - 1>();  // `to` is not read by a bulk store any more
        ring.meet();  // `to` is about to be overwritten; with one pass the stage is read by all and may be refilled
        if (P::PASSES == 1) ring.refill(ring.stage, fill);
      }
      unit.for_each_entry([&](int row, int column, auto& value) {
        const T entry = stream.entry(value, first + row, column);
        lay(reinterpret_cast<T*>(to) + row * P::N + column, entry);
        value = Stream<P, Arguments>::widened(entry);  // G is that of W as it stands in memory
      });
      unit.add_products();
    }
    fence_async_shared();
    ring.meet();  // results in `to` are complete, before the leader's bulk store reads them
    if (ring.leader) {
      bulk_store(arguments.W + chunk * (P::ROWS * P::N), to, S::OUT_BYTES);
      bulk_commit();
    }
    if (P::PASSES > 1) ring.refill(ring.stage, fill);
    if (++slot == P::OUT) slot = 0;
  }
  ring.finish();

  if (blockIdx.x == 0 && ring.group == 0 && stream.chunks * P::ROWS < arguments.K) {
    const i64 first = stream.chunks * P::ROWS;
    stream.fill_tail(reinterpret_cast<typename S::Word*>(ring.stage_at(0)), threadIdx.x, S::Chunks::TEAM * 32);
    ring.meet();  // stage 0 holds the tail, written by all threads of the team
MANSARD_UNROLL_BY(1)
    for (int pass = 0; pass < P::PASSES; ++pass) {
      unit.multiply(ring.stage_at(0), pass);
      unit.for_each_entry([&](int row, int column, auto& value) {  // rows past the last are zeros, and stay so
        if (first + row >= arguments.K) return;
        const T entry = stream.entry(value, first + row, column);
        *stream.place(first + row, column) = entry;
        value = Stream<P, Arguments>::widened(entry);
      });
      unit.add_products();
    }
  }
  if (ring.leader) bulk_wait<0>();
  ring.retire();

  double* tiles = reinterpret_cast<double*>(arena);
  const int number = threadIdx.x / 32;
MANSARD_UNROLL_BY(1)
  for (int turn = 0; turn < S::WARPS; turn += S::MEETING) {
    if (number >= turn && number < turn + S::MEETING) unit.add_to(tiles + (number - turn) * S::SIDE * S::PITCH, turn > 0);
    __syncthreads();  // tiles of these warps are complete, before the next warps add to them or they are read
  }
  using Sum = typename S::Sum;
  const auto value = [&](int entry) {
    const int m = entry / P::N, n = entry % P::N;
    return m <= n ? gram_entry<P>(tiles, m, n) : conjugate(gram_entry<P>(tiles, n, m));
  };
  const auto store = [&](int entry, Sum sum) { arguments.G[entry] = Stream<P, Arguments>::narrowed(sum); };
  reduce_over_blocks<P::REDUCE, Sum, P::N * P::N, S::Chunks::THREADS>(
      arguments.partials, arguments.counters, 0, gridDim.x, reinterpret_cast<Sum*>(arena), value, store);
}

}  // namespace mansard
