// W = alpha A C + beta W on tensor cores, between bulk copies in and out: the kernel for every width, odd ones too.
//
// Chunks of ROWS rows of A arrive in shared memory as they lie (mansard/ticket_ring.cuh). The warps of a team multiply
// them with C', whose fragments wait in shared memory or in registers, lay the results down row by row, and a bulk copy
// carries these out: whole lines, whatever the width. Each row is read before it is written, so that W may be A.
//
// Lane g of eight reads row STEP g + u. With STEP = 4 / gcd(pitch, 4) rows begin in different banks for every pitch that is
// not a multiple of eight words; otherwise CLASH of them begin in the same ones. Those take as many blocks of four columns
// in turns, each in an order of its own, and put them right in registers. Columns past the width belong to the next row, or
// to nobody, and are replaced by zeros.
//
//   WARPS_K x WARPS_N  warps of a team: along the rows of a chunk, along the columns of W
//   GROUPS, STAGES     teams per block, chunks of A per team
//   ROWS               rows per chunk, at least 16 for every warp along them
//   OUT                chunks of W per team on their way out; 0: lanes store to memory themselves
//   SOURCE             of C': shared | registers
#pragma once
#include "families/tsmm/real_shape.cuh"
#include "mansard/ticket_ring.cuh"

namespace mansard {

enum class Source { shared, registers };

template <class P>
struct RingShape : RealShape<P> {
  using R = RealShape<P>;
  using Word = typename R::Word;
  static constexpr int LDA = P::PITCH_A * R::WORDS, LDW = R::WIDTH_N;
  static constexpr bool PADDED = P::PITCH_A != P::M;
  static constexpr int AT_ONCE = sizeof(Word) == 8 ? 4 : 8;  // rows that a read reaches at a time
  static constexpr int STEP = 4 / gcd(LDA, 4), CLASH = gcd(STEP * LDA / 4, AT_ONCE);
  static constexpr int OCTETS = P::ROWS / 8 / P::WARPS_K;  // rows of a warp, eight at a time
  static constexpr int TILES_M = OCTETS / 2, TILES_N = ceil_div(R::BLOCKS_N, P::WARPS_N);
  static_assert(P::ROWS % (16 * P::WARPS_K) == 0 && OCTETS % STEP == 0, "rows per chunk");
  // row of an octet that lane 0 reads, relative to the warp's first
  static MANSARD_HOST_DEVICE int row_of(int octet) { return octet / STEP * 8 * STEP + octet % STEP; }

  using Chunks = TicketRing<P::GROUPS, P::WARPS_K * P::WARPS_N, P::STAGES, P::ROWS * LDA * int(sizeof(Word))>;
  static constexpr int OUT_BYTES = P::ROWS * LDW * int(sizeof(Word));
  static constexpr int FRAGMENTS = P::SOURCE == Source::shared ? R::BLOCKS_M * R::BLOCKS_N : 0;
  // the ring, a line that its last row is read past, results on their way out, C'
  static constexpr int OUT_AT = Chunks::BYTES + 128, SMALL_AT = OUT_AT + P::GROUPS * P::OUT * OUT_BYTES;
  static_assert(SMALL_AT + FRAGMENTS * R::FRAGMENT * 8 <= P::SHARED_BYTES, "shared memory");
};

// Memory-side view: chunks of A in, chunks of W out.
template <class P, class Arguments>
struct Stream {
  using S = RingShape<P>;
  using Word = typename S::Word;
  const Arguments& arguments;
  i64 chunks;  // that lie wholly inside A

  MANSARD_DEVICE explicit Stream(const Arguments& given) : arguments(given) {
    // the last row of a padded matrix may end with the array
    chunks = (given.K - (S::PADDED ? 1 : 0)) / P::ROWS;
  }
  MANSARD_DEVICE const Word* A() const { return reinterpret_cast<const Word*>(arguments.A); }
  MANSARD_DEVICE Word* W() const { return reinterpret_cast<Word*>(arguments.W); }

  MANSARD_DEVICE void fill(unsigned char* stage, mbarrier* arrival, i64 chunk) const {
    if (threadIdx.x % 32 == 0) {
      mbarrier_arrive_expect(arrival, S::Chunks::STAGE_BYTES);
      bulk_load(stage, A() + chunk * (P::ROWS * S::LDA), S::Chunks::STAGE_BYTES, arrival);
    }
    __syncwarp();
  }
  // The rows behind the last whole chunk, and zeros.
  MANSARD_DEVICE void fill_tail(Word* stage, int thread, int threads) const {
    const i64 first = chunks * P::ROWS;
    for (int i = thread; i < P::ROWS * S::LDA; i += threads) {
      const bool inside = first + i / S::LDA < arguments.K && i % S::LDA < S::WIDTH_M;
      stage[i] = inside ? A()[first * S::LDA + i] : Word(0);
    }
  }
  // Word `column` of a row of W; null if there is none.
  MANSARD_DEVICE Word* place(i64 row, int column) const {
    return row < arguments.K && column < S::WIDTH_N ? W() + row * arguments.w_row * S::WORDS + column : nullptr;
  }
  // Two neighbours, the first one even: of a complex matrix one number.
  MANSARD_DEVICE void add_scaled(double (&pair)[2], i64 row, int column) const {
    const Word *first = place(row, column), *second = place(row, column + 1);
    const double x = first ? static_cast<double>(*first) : 0.0, y = second ? static_cast<double>(*second) : 0.0;
    pair[0] += arguments.beta_re * x - (S::WORDS == 2 ? arguments.beta_im * y : 0.0);
    pair[1] += arguments.beta_re * y + (S::WORDS == 2 ? arguments.beta_im * x : 0.0);
  }
};

template <class Word>
struct alignas(2 * sizeof(Word)) Pair {
  Word x, y;
};

template <class P>
struct Warp {
  using S = RingShape<P>;
  using Word = typename S::Word;
  int group, member, warp_k, warp_n, g, t, turn;
  FragmentLane<P> lane;
  const double* small;  // the warp's first fragment of C' in shared memory
  double held[P::SOURCE == Source::registers ? S::BLOCKS_M : 1][S::TILES_N];
  double sums[S::TILES_M][S::TILES_N][4];

  MANSARD_DEVICE explicit Warp(const double* fragments)
      : group(threadIdx.x / 32 / S::Chunks::TEAM), member(threadIdx.x / 32 % S::Chunks::TEAM),
        warp_k(member / P::WARPS_N), warp_n(member % P::WARPS_N), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4),
        turn(g % S::AT_ONCE / (S::AT_ONCE / S::CLASH)), lane(g, t), small(fragments + warp_n * S::TILES_N * S::FRAGMENT) {}

  template <class Arguments>
  MANSARD_DEVICE void hold(const Arguments& arguments) {
    if constexpr (P::SOURCE == Source::registers) {
      MANSARD_UNROLL
      for (int i = 0; i < S::BLOCKS_M; ++i)
        MANSARD_UNROLL
        for (int j = 0; j < S::TILES_N; ++j)
          held[i][j] = wide_entry<P>(arguments, i * 4 + t, (warp_n * S::TILES_N + j) * 8 + g);
    }
  }

  // Rows of the chunk that are this lane's.
  MANSARD_DEVICE int row(int octet) const { return warp_k * S::OCTETS * 8 + S::row_of(octet) + S::STEP * g; }

  MANSARD_DEVICE void multiply(const unsigned char* stage) {
    const Word* rows = reinterpret_cast<const Word*>(stage) + row(0) * S::LDA + t;
    constexpr int WHOLE = S::WIDTH_M / 4 / S::CLASH * S::CLASH;  // blocks in full groups, all of them inside the width
    MANSARD_UNROLL
    for (int i = 0; i < S::TILES_M * S::TILES_N * 4; ++i) sums[i / 4 / S::TILES_N][i / 4 % S::TILES_N][i % 4] = 0.0;
MANSARD_UNROLL_BY(8)
    for (int block = 0; block < WHOLE; block += S::CLASH) add_blocks<S::CLASH>(rows, block);
    add_rest<S::CLASH, WHOLE>(rows);
  }
  template <int SIZE, int BLOCK>
  MANSARD_DEVICE void add_rest(const Word* rows) {
    if constexpr (BLOCK + SIZE <= S::BLOCKS_M) {
      add_blocks<SIZE>(rows, BLOCK);
      add_rest<SIZE, BLOCK + SIZE>(rows);
    } else if constexpr (SIZE > 1) {
      add_rest<SIZE / 2, BLOCK>(rows);
    }
  }

  // SIZE blocks of four columns of A, times as many blocks of rows of C'.
  template <int SIZE>
  MANSARD_DEVICE void add_blocks(const Word* rows, int block) {
    Word a[S::OCTETS][SIZE];
    MANSARD_UNROLL
    for (int o = 0; o < S::OCTETS; ++o) {
      MANSARD_UNROLL
      for (int n = 0; n < SIZE; ++n)
        a[o][n] = rows[S::row_of(o) * S::LDA + block * 4 + (n ^ (turn & (SIZE - 1))) * 4];
      MANSARD_UNROLL
      for (int bit = 1; bit < SIZE; bit *= 2)
        MANSARD_UNROLL
        for (int n = 0; n < SIZE; ++n)
          if ((n & bit) == 0) swap_if(turn & bit, a[o][n], a[o][n | bit]);
    }
    MANSARD_UNROLL
    for (int n = 0; n < SIZE; ++n) {
      double b[S::TILES_N];
      MANSARD_UNROLL
      for (int j = 0; j < S::TILES_N; ++j) b[j] = fragment(block + n, j);
      MANSARD_UNROLL
      for (int i = 0; i < S::TILES_M; ++i) {
        const double upper = inside(block + n, a[2 * i][n]), lower = inside(block + n, a[2 * i + 1][n]);
        MANSARD_UNROLL
        for (int j = 0; j < S::TILES_N; ++j) mma_m16n8k4(sums[i][j], upper, lower, b[j]);
      }
    }
  }
  MANSARD_DEVICE double fragment(int block, int j) const {
    if constexpr (P::SOURCE == Source::registers) return held[block][j];
    else return lane.load(small + (block * S::BLOCKS_N + j) * S::FRAGMENT);
  }
  MANSARD_DEVICE double inside(int block, Word value) const {
    const bool past = S::WIDTH_M % 4 != 0 && block == S::BLOCKS_M - 1 && t >= S::WIDTH_M % 4;
    return past ? 0.0 : static_cast<double>(value);
  }
  static MANSARD_DEVICE void swap_if(bool swap, Word& x, Word& y) {
    const Word first = swap ? y : x;
    y = swap ? x : y;
    x = first;
  }

  // Calls put(row of the chunk, column, pair of results) for all that the lane holds.
  template <class Put>
  MANSARD_DEVICE void for_each_pair(Put put) const {
    MANSARD_UNROLL
    for (int o = 0; o < S::OCTETS; ++o)
      MANSARD_UNROLL
      for (int j = 0; j < S::TILES_N; ++j) {
        const double(&four)[4] = sums[o / 2][j];
        double pair[2] = {four[o % 2 * 2], four[o % 2 * 2 + 1]};
        put(row(o), (warp_n * S::TILES_N + j) * 8 + 2 * t, pair);
      }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void tsmm_ring(const Arguments& arguments) {
  using S = RingShape<P>;
  using Word = typename S::Word;
  using Chunks = typename S::Chunks;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const Stream<P, Arguments> stream(arguments);
  const Chunks chunks{arena, stream.chunks, arguments.counters};
  double* small = reinterpret_cast<double*>(arena + S::SMALL_AT);
  if constexpr (P::SOURCE == Source::shared) stage_fragments<P, Chunks::THREADS>(arguments, small);
  Warp<P> warp(small);
  warp.hold(arguments);
  chunks.initialise();

  const bool leader = warp.member == 0 && threadIdx.x % 32 == 0;
  unsigned char* out = arena + S::OUT_AT + warp.group * P::OUT * S::OUT_BYTES;
  int slot = 0;
  const bool scaled = arguments.beta_re != 0.0 || arguments.beta_im != 0.0;
  const auto store = [&](i64 first) {
    warp.for_each_pair([&](int row, int column, double(&pair)[2]) {
      if (scaled) stream.add_scaled(pair, first + row, column);
      for (int i = 0; i < 2; ++i)
        if (Word* at = stream.place(first + row, column + i)) *at = static_cast<Word>(pair[i]);
    });
  };
  const auto fill = [&](unsigned char* stage, mbarrier* arrival, i64 chunk) { stream.fill(stage, arrival, chunk); };
  const auto read = [&](const unsigned char* stage) {
    warp.multiply(stage);
    if (P::OUT > 0 && leader) bulk_wait_read<P::OUT - (P::OUT > 0)>();  // room for what is written next
  };
  const auto write = [&](i64 chunk) {
    if constexpr (P::OUT == 0) {
      store(chunk * P::ROWS);
    } else {
      Word* rows = reinterpret_cast<Word*>(out + slot * S::OUT_BYTES);
      warp.for_each_pair([&](int row, int column, double(&pair)[2]) {
        if (column >= S::WIDTH_N) return;
        if (scaled) stream.add_scaled(pair, chunk * P::ROWS + row, column);
        Word* at = rows + row * S::LDW + column;
        if constexpr (S::LDW % 2 == 0) {
          *reinterpret_cast<Pair<Word>*>(at) = {static_cast<Word>(pair[0]), static_cast<Word>(pair[1])};
        } else {
          at[0] = static_cast<Word>(pair[0]);
          if (column + 1 < S::WIDTH_N) at[1] = static_cast<Word>(pair[1]);
        }
      });
      fence_async_shared();
      Chunks::meet(warp.group);
      if (leader) {
        bulk_store(stream.W() + chunk * (P::ROWS * S::LDW), rows, S::OUT_BYTES);
        bulk_commit();
      }
      if (++slot == P::OUT) slot = 0;
    }
  };
  chunks.run(warp.group, warp.member == 0, fill, read, write);

  if (blockIdx.x == 0 && warp.group == 0 && stream.chunks * P::ROWS < arguments.K) {
    unsigned char* stage = chunks.stage_of(0, 0);
    stream.fill_tail(reinterpret_cast<Word*>(stage), threadIdx.x, Chunks::TEAM * 32);
    Chunks::meet(0);
    warp.multiply(stage);
    store(stream.chunks * P::ROWS);
  }
  if (P::OUT > 0 && leader) bulk_wait<0>();
}

}  // namespace mansard
