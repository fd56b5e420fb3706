// C_b = alpha A_b B_b + beta C_b for a batch of small matrices on CPUs; sizes are compile-time constants.
//
// Lanes run along the rows of C: rows of B are vectors, entries of A are broadcast, and a tile of C stays in registers
// from the first product to the last. A column-major C is the row-major C^T = B^T A^T; the operands are therefore
// called `left` (broadcast, any layout), `right` (vectors) and `out` (rows). A column-major right operand is transposed
// into the workspace first, once if all matrices share it. Interleaved stacks have their own tiles (interleaved.hpp).
//
// Complex entries are two reals. Products with the real and with the imaginary part of a left entry are summed
// separately, so that nothing is shuffled before the sums are complete; conjugations, alpha and beta are applied then.
//
// Threads take contiguous parts of the batch. The products of an entry are added in the order of k, whatever the
// configuration.
//
// Workspace of a thread, in reals: the transposed right operand (PACKED), then results that wait to be written (BLOCK).
//
// Params beside T, M, N, K, ROW_MAJOR_A|B|C, CONJ_A|B, ACCUMULATE, STACK_A|B|C:
//   LANES           reals per vector; the last vector of a row may have fewer
//   TILE_M, TILE_N  rows and vectors of C per register tile
//   UNROLL          steps along K per iteration of the inner loop
//   STREAM          write C with non-temporal stores: lines that are written completely need not be read first
//   GATHER          write C in full cache lines, but to the caches
//   PREFETCH        cache (1, 2) to which the tiles bring later matrices; 0 leaves it to the hardware
//   AHEAD           distance of the prefetch in bytes
#pragma once
#include "kernels/batched/gemm/interleaved.hpp"
#include "kernels/batched/gemm/operands.hpp"

namespace mansard {

template <class P>
struct GemmShape {
  using O = GemmOperands<P>;
  using R = typename O::R;
  using V = Lanes<R, P::LANES>;
  static constexpr int WORDS = O::WORDS, LANES = P::LANES;
  static constexpr int WIDTH = WORDS * O::N;                  // reals in a row of C
  static constexpr int VECTORS = ceil_div(WIDTH, LANES);
  static constexpr int LAST = WIDTH - (VECTORS - 1) * LANES;  // reals in the last vector of a row
  static constexpr int SIZE = O::M * WIDTH;                   // reals of a matrix
  static constexpr int TOGETHER = larger(1, 128 / (SIZE * static_cast<int>(sizeof(R))));  // matrices per iteration
  using Panels = Pieces<VECTORS, P::TILE_N>;
  using Rows = Pieces<O::M, P::TILE_M>;

  // Sizes of the workspace.
  static constexpr int LINE = CACHE_LINE / static_cast<int>(sizeof(R));
  static constexpr int PITCH = round_up(WIDTH, LINE);
  static constexpr int PACKED = O::RIGHT_IN_ROWS ? 0 : O::K * PITCH;
  static constexpr int GROUP = 512 / static_cast<int>(sizeof(R));  // reals written together
  // reals of C that are completed at once: the rows of a tile, if a tile has whole rows, otherwise a matrix
  static constexpr int CHUNK = Panels::COUNT > 1 ? SIZE : smaller(SIZE, P::TILE_M * WIDTH);
  static constexpr bool GATHERS = P::STREAM || P::GATHER;
  static constexpr int BLOCK = GATHERS ? round_up(2 * GROUP + CHUNK, LINE) : 0;

  // Calls visit(first vector, Int<vectors>, Int<reals in the last of them>, is_last) for every panel of columns of C.
  template <class Visit>
  static MANSARD_INLINE void for_each_panel(Visit visit) {
    constexpr int FINAL = Panels::COUNT - 1;
    const auto panel = [&](int i, auto vectors, auto last, auto final) __attribute__((always_inline)) {
      visit(Panels::begin(i), vectors, last, final);
    };
    if constexpr (Panels::LARGER > 0)
      for (int i = 0; i < Panels::LARGER; ++i) panel(i, Int<Panels::SIZE + 1>(), Int<LANES>(), std::false_type());
    if constexpr (Panels::LARGER < FINAL)
      for (int i = Panels::LARGER; i < FINAL; ++i) panel(i, Int<Panels::SIZE>(), Int<LANES>(), std::false_type());
    panel(FINAL, Int<Panels::SIZE>(), Int<LAST>(), std::true_type());
  }

  static_assert(LANES >= WORDS && LANES <= larger(native_lanes<R>, WORDS) && P::UNROLL <= P::K);
  static_assert(!GATHERS || (P::STACK_C == StackC::packed && !P::ACCUMULATE));
};

// ---- prefetch ---------------------------------------------------------------------------------------------

// Prefetches the reals that are AHEAD bytes behind those of an iteration, at the pace of the tiles.
template <class P, bool IN_A_RUN, int SIZE>
struct AheadOf {
  using S = GemmShape<P>;
  static constexpr int STEPS = S::TOGETHER > 1 ? 1 : S::Panels::COUNT * S::Rows::COUNT * (P::K / P::UNROLL);
  static constexpr int LINES = ceil_div(ceil_div(S::TOGETHER * SIZE, S::LINE), STEPS);
  const typename S::R* next;

  MANSARD_INLINE void advance() {
    if constexpr (IN_A_RUN && P::PREFETCH > 0) {
      MANSARD_UNROLL
      for (int line = 0; line < LINES; ++line) prefetch<P::PREFETCH>(next + line * S::LINE);
      next += LINES * S::LINE;
    }
  }
};

template <class P>
struct Ahead {
  using S = GemmShape<P>;
  static constexpr int FAR = P::AHEAD / static_cast<int>(sizeof(typename S::R));
  AheadOf<P, P::STACK_A == StackA::packed, S::WORDS * P::M * P::K> a;
  AheadOf<P, P::STACK_B == StackB::packed, S::WORDS * P::K * P::N> b;
  AheadOf<P, P::STACK_C == StackC::packed && P::ACCUMULATE, S::WORDS * P::M * P::N> c;

  MANSARD_INLINE Ahead(const GemmOperands<P>& o, i64 i)
      : a{o.A[i].data + FAR}, b{o.B[i].data + FAR}, c{o.C[i].data + FAR} {
    if (S::TOGETHER > 1) advance_all();
  }
  MANSARD_INLINE void advance() {
    if (S::TOGETHER == 1) advance_all();
  }
  MANSARD_INLINE void advance_all() { a.advance(), b.advance(), c.advance(); }
};

// ---- one matrix -------------------------------------------------------------------------------------------

// Write a tile of ROWS rows and VECTORS vectors of C, the last of which has LAST reals; below, compute and write it.
template <class P, int LAST, bool UNIT, int ROWS, int VECTORS, class R = typename GemmShape<P>::R>
MANSARD_INLINE void write_tile(const GemmOperands<P>& o, Entries<R> out,
                               const typename GemmShape<P>::V (&sums)[ROWS][VECTORS][GemmShape<P>::WORDS]) {
  constexpr int LANES = GemmShape<P>::LANES;
  MANSARD_UNROLL
  for (int m = 0; m < ROWS; ++m) {
    MANSARD_UNROLL
    for (int n = 0; n < VECTORS; ++n) {
      R* const to = out.data + m * out.row + n * LANES;
      const auto write = [&](auto count) __attribute__((always_inline)) {
        store_part<LANES, count, !P::ACCUMULATE>(to, o.template entries_of_c<LANES, count, UNIT>(to, sums[m][n]));
      };
      if (n < VECTORS - 1) write(Int<LANES>());
      else write(Int<LAST>());
    }
  }
}
template <class P, int ROWS, int VECTORS, int LAST, class R = typename GemmShape<P>::R>
MANSARD_INLINE void gemm_tile(const GemmOperands<P>& o, Entries<const R> left, Entries<const R> right, Entries<R> out,
                              Ahead<P>& ahead) {
  using S = GemmShape<P>;
  using V = typename S::V;
  constexpr bool PEEL = true;
  V sums[ROWS][VECTORS][S::WORDS];
  if constexpr (!PEEL)
    for (auto& row : sums) for (auto& vector : row) for (V& sum : vector) sum = V{};

  const auto step = [&](int k, bool first) __attribute__((always_inline)) {
    V row[VECTORS];
    MANSARD_UNROLL
    for (int n = 0; n < VECTORS; ++n) {
      const R* const from = right.data + k * right.row + n * S::LANES;
      row[n] = in_register(n < VECTORS - 1 ? load_part<S::LANES, S::LANES>(from) : load_part<S::LANES, LAST>(from));
    }
    MANSARD_UNROLL
    for (int m = 0; m < ROWS; ++m) {
      MANSARD_UNROLL
      for (int word = 0; word < S::WORDS; ++word) {
        const R entry = left.data[m * left.row + k * left.column + word];
        MANSARD_UNROLL
        for (int n = 0; n < VECTORS; ++n) {
          if (first) sums[m][n][word] = entry * row[n];  // so sums need no clearing
          else add_product(sums[m][n][word], entry, row[n]);
        }
      }
    }
  };
  int k = 0;
  if constexpr (PEEL) {
    ahead.advance();
    MANSARD_UNROLL
    for (; k < P::UNROLL; ++k) step(k, k == 0);
  }
  for (; k + P::UNROLL <= P::K; k += P::UNROLL) {
    ahead.advance();
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u) step(k + u, false);
  }
  MANSARD_UNROLL
  for (int u = 0; u < P::K % P::UNROLL; ++u) step(k + u, false);
  o.for_alpha([&](auto unit) __attribute__((always_inline)) { write_tile<P, LAST, unit>(o, out, sums); });
}

// Compute one matrix. place(m) is the destination of rows from m on; done(rows) is called when so many more rows of C
// are complete.
template <class P, class Place, class Done, class R = typename GemmShape<P>::R>
MANSARD_INLINE void gemm_matrix(const GemmOperands<P>& o, i64 b, Entries<const R> right, Place place,
                                Ahead<P>& ahead, Done done) {
  using S = GemmShape<P>;
  const Entries<const R> left = o.left(b);
  S::for_each_panel([&](int n, auto vectors, auto last, auto final) __attribute__((always_inline)) {
    S::Rows::for_each([&](int m, auto rows) __attribute__((always_inline)) {
      gemm_tile<P, rows, vectors, last>(o, left.below(m), right.beside(n * S::LANES),
                                        place(m).beside(n * S::LANES), ahead);
      if constexpr (final) done(rows);
    });
  });
}

// ---- the batch --------------------------------------------------------------------------------------------

// Gathers results in a block until GROUP reals are complete, and writes them to C in full cache lines. A partial line
// waits: written in two parts, it would have to be read first. If tiles are whole rows, the block is little larger than
// a tile, since it shares the L1 cache with A, B and prefetched data.
template <class P, class R = typename GemmShape<P>::R>
struct Departures {
  using S = GemmShape<P>;
  R* block;
  R* target;                   // destination of the block
  i64 complete = 0, gone = 0;  // reals of the block that are complete, and that are written

  MANSARD_INLINE Entries<R> room() {
    if (complete + S::CHUNK > S::BLOCK) {
      std::memmove(block, block + gone, static_cast<std::size_t>(complete - gone) * sizeof(R));
      target += gone, complete -= gone, gone = 0;
    }
    return {block + complete, S::WIDTH, S::WORDS};
  }
  MANSARD_INLINE void add(i64 reals) {
    complete += reals;
    if (complete - gone >= S::GROUP) leave();
  }
  void leave() { gone += copy_lines<P::STREAM>(target + gone, block + gone, complete - gone); }
  void finish() {
    leave();
    std::memcpy(target + gone, block + gone, static_cast<std::size_t>(complete - gone) * sizeof(R));
    if (P::STREAM) finish_streams();
  }
};

// Compute matrices [begin, end), the part of one thread.
template <class P, class Arguments>
__attribute__((noinline)) MANSARD_AS_WRITTEN void gemm_part(const Arguments& a, i64 begin, i64 end, typename GemmShape<P>::R* workspace) {
  using S = GemmShape<P>;
  using O = typename S::O;
  using R = typename S::R;
  const O operands(a);
  Departures<P> departures{workspace + S::PACKED, operands.out(begin).data};

  const auto matrix = [&](i64 b, Ahead<P>& ahead) __attribute__((always_inline)) {
    Entries<const R> right = operands.right(b);
    if constexpr (!O::RIGHT_IN_ROWS) {
      if (b == begin || !O::RIGHT_SHARED) columns_to_rows<S::WORDS, O::K, O::N>(workspace, S::PITCH, right);
      right = {workspace, S::PITCH, S::WORDS};
    }
    const auto leave = [&](int rows) __attribute__((always_inline)) {
      if constexpr (S::GATHERS) departures.add(rows * S::WIDTH);
    };
    if constexpr (S::GATHERS && S::Panels::COUNT == 1) {
      gemm_matrix<P>(operands, b, right, [&](int) { return departures.room(); }, ahead, leave);
    } else {
      const Entries<R> out = S::GATHERS ? departures.room() : operands.out(b);
      gemm_matrix<P>(operands, b, right, [&](int m) { return out.below(m); }, ahead, leave);
    }
  };
  i64 b = begin;
  for (; b + S::TOGETHER <= end; b += S::TOGETHER) {
    Ahead<P> ahead(operands, b);
    MANSARD_UNROLL
    for (int i = 0; i < S::TOGETHER; ++i) matrix(b + i, ahead);
  }
  for (; b < end; ++b) {
    Ahead<P> ahead(operands, b);
    matrix(b, ahead);
  }
  if constexpr (S::GATHERS) departures.finish();
}

// Calls part(begin, end, index) for contiguous parts of the items [0, count), in as many threads as the work is worth.
template <class Part>
inline void in_parts(i64 count, i64 threads, i64 products, Part part) {
  constexpr i64 LEAST = 1 << 19;  // products per thread: less is done before another thread has woken up
  if (count == 0) return;
  const i64 parts = smaller(smaller(threads, count), ceil_div(products, LEAST));
  // parts may be 0 if there is little work; a parallel region of one thread would cost a third of a microsecond
  if (parts <= 1) return part(i64(0), count, i64(0));
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(parts))
  for (i64 p = 0; p < parts; ++p) part(count * p / parts, count * (p + 1) / parts, p);
}

// Tight: lines of all operands follow each other without gaps, so that strides are constants. Loose: they are
// arguments.
template <class P>
struct Tight : P {
  static constexpr bool TIGHT = true;
};
template <class P>
struct Loose : P {
  static constexpr bool TIGHT = false;
};

template <class P, class Arguments>
int gemm_simd(const Arguments& a) {
  using R = typename Scalar<typename P::T>::Real;
  R* const workspace = reinterpret_cast<R*>(a.partials);
  const i64 products = a.BATCH * P::M * P::N * P::K;
  if constexpr (P::STACK_C == StackC::interleaved) {
    const i64 groups = ceil_div(a.BATCH, interleaved_width<P>(a));
    in_parts(groups, a.threads, products, [&](i64 begin, i64 end, i64) { interleaved_part<P>(a, begin, end); });
  } else {
    const auto run = [&](auto params) {
      using Q = decltype(params);
      in_parts(a.BATCH, a.threads, products, [&](i64 begin, i64 end, i64 p) {
        gemm_part<Q>(a, begin, end, workspace + p * (GemmShape<Q>::PACKED + GemmShape<Q>::BLOCK));
      });
    };
    constexpr bool PACKED_A = P::STACK_A == StackA::packed, PACKED_B = P::STACK_B == StackB::packed;
    if constexpr (PACKED_A && PACKED_B && P::STACK_C == StackC::packed) run(Tight<P>());
    else if (is_tight<P>(a)) run(Tight<P>());
    else run(Loose<P>());
  }
  return 0;
}

}  // namespace mansard
