// Chunks of column-major matrices: how they are fetched, how they lie in shared memory, how lanes read fragments.
//
// A chunk is ROWS rows of all columns, fetched by one bulk copy per column. A column lands where it comes from modulo
// 128 bytes (a line), so pitches that are no multiple of a line (SKEW_A, SKEW_B) cost a line of room per column.
//
// A lane reads a column in units of 16 bytes: HEIGHT rows, which are steps of an instruction, and both parts of complex
// numbers. Lane t of a quad owns units t and t + 4 of every line. Eight lanes are served at a time, two columns of four
// units, and where both begin in the same banks they collide:
//
//   SPREAD  rotate: even columns first read the unit that lies in the lower half of the banks, odd ones the other, and
//           two selects per pair of words put them right; no conflicts, whatever the pitch. none: as they come
//   FOLD    a narrow chunk is cut into FOLD blocks of rows, viewed as columns side by side (at most eight in all)
#pragma once
#include "kernels/tall_skinny/gram/kernel_ring.cuh"

namespace mansard {

// One lane of a converged warp. The compiler knows that it is only one, and issues copies without a loop around each.
MANSARD_DEVICE bool elected() {
#if defined(MANSARD_EMULATED)
  return threadIdx.x % 32 == 0;
#else
  u32 yes = 0;
#if MANSARD_BULK
  asm volatile(
      "{\n"
      ".reg .pred mine;\n"
      "elect.sync _|mine, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, mine;\n"
      "}"
      : "=r"(yes));
#endif
  return yes != 0;
#endif
}

template <class Word>
struct alignas(16) Unit16 {
  static constexpr int COUNT = 16 / sizeof(Word);
  Word at[COUNT];
};

template <class P>
struct ColumnsShape : RealShape<P> {
  using R = RealShape<P>;
  using T = typename P::T;
  using Word = typename R::Word;
  static constexpr int LINE = 128, BYTES = P::ROWS * sizeof(T);  // of one column in a chunk
  static constexpr int PITCH_A = BYTES + (P::SKEW_A ? LINE : 0), PITCH_B = BYTES + (P::SKEW_B ? LINE : 0);
  static constexpr int STAGE_A = P::M * PITCH_A + (P::SKEW_A ? 0 : LINE);
  static constexpr int STAGE_B = P::SAME ? 0 : P::N * PITCH_B + (P::SKEW_B ? 0 : LINE), STAGE = STAGE_A + STAGE_B;

  static constexpr bool ROTATE = P::SPREAD == Spread::rotate;
  static constexpr int HEIGHT = 16 / sizeof(T);                      // rows of a unit: steps of the instruction
  static constexpr int LINES = BYTES / LINE / P::FOLD / P::WARPS_K;  // of a column, per warp and chunk
  // Units that a lane reads at once: one, both of a line to exchange them, or what an instruction needs.
  static constexpr int NEEDED = ceil_div(P::KSTEP / 4, HEIGHT);
  static constexpr int UNITS = ROTATE && NEEDED < 2 ? 2 : NEEDED;
  static_assert(BYTES % (LINE * P::FOLD * P::WARPS_K) == 0 && 2 * LINES % UNITS == 0, "rows per chunk");
  static_assert(P::FOLD == 1 || (P::FOLD * P::M <= 8 && P::FOLD * P::N <= 8), "folded columns are eight at most");
};

// Bytes from the beginning of a line to that of a column.
MANSARD_DEVICE int displacement(const void* column) { return static_cast<int>(reinterpret_cast<u64>(column) % 128); }

// The two matrices as a sequence of chunks.
template <class P, class Arguments>
struct ColumnStream {
  using S = ColumnsShape<P>;
  using T = typename P::T;
  const T *A, *B;
  i64 pitch_a, pitch_b, K, chunks;  // chunks that lie wholly inside the matrices

  MANSARD_DEVICE explicit ColumnStream(const Arguments& given)
      : A(given.A), B(given.B), pitch_a(given.a_col), pitch_b(given.b_col), K(given.K), chunks(given.K / P::ROWS) {}

  // One warp fetches a chunk.
  MANSARD_DEVICE void fill(unsigned char* stage, mbarrier* arrival, i64 chunk) const {
    if (elected()) {
      mbarrier_arrive_expect(arrival, (P::M + (P::SAME ? 0 : P::N)) * S::BYTES);
      fetch<P::M, S::PITCH_A, P::SKEW_A>(stage, A + chunk * P::ROWS, pitch_a, arrival);
      if constexpr (!P::SAME)
        fetch<P::N, S::PITCH_B, P::SKEW_B>(stage + S::STAGE_A, B + chunk * P::ROWS, pitch_b, arrival);
    }
    __syncwarp();  // reconverge after the elected lane
  }
  template <int WIDTH, int PITCH, bool SKEW>
  static MANSARD_DEVICE void fetch(unsigned char* to, const T* from, i64 pitch, mbarrier* arrival) {
    if constexpr (!SKEW) to += displacement(from);
MANSARD_UNROLL_BY(8)
    for (int c = 0; c < WIDTH; ++c, to += PITCH, from += pitch)
      bulk_load(to + (SKEW ? displacement(from) : 0), from, S::BYTES, arrival);
  }

  // The rows behind the last whole chunk, padded with zeros, by `threads` threads.
  MANSARD_DEVICE void fill_tail(unsigned char* stage, int thread, int threads) const {
    fill_operand<P::M, S::PITCH_A>(stage, A, pitch_a, thread, threads);
    if constexpr (!P::SAME) fill_operand<P::N, S::PITCH_B>(stage + S::STAGE_A, B, pitch_b, thread, threads);
  }
  template <int WIDTH, int PITCH>
  MANSARD_DEVICE void fill_operand(unsigned char* to, const T* from, i64 pitch, int thread, int threads) const {
    const i64 first = chunks * P::ROWS, left = K - first;
    for (int i = thread; i < P::ROWS * WIDTH; i += threads) {
      const int c = i / P::ROWS, row = i % P::ROWS;
      const T* column = from + c * pitch;
      reinterpret_cast<T*>(to + c * PITCH + displacement(column))[row] = row < left ? column[first + row] : T{};
    }
  }
};

// A warp's slots of one operand. Eight columns are one slot, or two if they are complex: real parts, imaginary parts.
// Lanes whose column lies past the last one read that: nobody looks at its products.
template <class P, int WIDTH, int WARPS, int PITCH>
struct Columns {
  using S = ColumnsShape<P>;
  using T = typename P::T;
  using Word = typename S::Word;
  static constexpr int ALL = ceil_div(P::FOLD * WIDTH, 8), PAIRS = ceil_div(ALL * S::WORDS, 2), OF_PAIR = 2 / S::WORDS;
  static constexpr int OCTETS = P::TRIANGLE ? PAIRS * OF_PAIR : ceil_div(ALL, WARPS), COUNT = OCTETS * S::WORDS;

  // Column g of a slot, counted in words from the warp's first.
  static MANSARD_HOST_DEVICE int column(int slot, int g) {
    return (slot / S::WORDS * 8 + g) * S::WORDS + slot % S::WORDS;
  }
  // The same where warps that share a triangle begin at different pairs (`Turn` in slots.cuh).
  MANSARD_DEVICE int place(int slot, int g) const {
    return column(P::TRIANGLE ? octet_of(slot / S::WORDS) * S::WORDS + slot % S::WORDS : slot, g);
  }

  int first;              // warp
  int at[OCTETS], other;  // bytes from a stage to the unit that a lane reads first, and from there to the other
  bool turned;

  MANSARD_DEVICE Columns(const T* matrix, i64 pitch, int g, int t, int warp) : first(warp) {
    MANSARD_UNROLL
    for (int o = 0; o < OCTETS; ++o) {
      const int wanted = octet_of(o) * 8 + g, last = P::FOLD * WIDTH - 1, j = wanted < last ? wanted : last;
      const int c = j % WIDTH;
      at[o] = c * PITCH + displacement(matrix + c * pitch) + j / WIDTH * (S::BYTES / P::FOLD) + 16 * t;
    }
    turned = S::ROTATE && ((at[0] / 64 ^ g) & 1);
    other = turned ? -64 : 64;
    MANSARD_UNROLL
    for (int o = 0; o < OCTETS; ++o) at[o] += turned ? 64 : 0;
  }
  MANSARD_DEVICE int octet_of(int o) const {
    return P::TRIANGLE ? (first + o / OF_PAIR) % PAIRS * OF_PAIR + o % OF_PAIR : first * OCTETS + o;
  }
  // Octets that are whole in every warp lie at constant distances.
  MANSARD_DEVICE int unit_of(int o) const {
    const bool whole = !P::TRIANGLE && P::FOLD == 1 && ((WARPS - 1) * OCTETS + o + 1) * 8 <= WIDTH;
    return whole ? at[0] + o * (8 * PITCH) : at[o];
  }

  // UNITS units from unit `n` of the lane's on: HEIGHT steps each.
  MANSARD_DEVICE void load(const unsigned char* lines, int n, Word (&slot)[S::UNITS * S::HEIGHT][COUNT]) const {
    const auto unit = [&](int at) { return *reinterpret_cast<const Unit16<Word>*>(lines + n / 2 * S::LINE + at); };
    MANSARD_UNROLL
    for (int o = 0; o < OCTETS; ++o) {
      if constexpr (S::UNITS == 1) {
        keep(unit(unit_of(o) + n % 2 * other), 0, o, slot);
      } else {
        MANSARD_UNROLL
        for (int u = 0; u < S::UNITS; u += 2) {
          Unit16<Word> x = unit(u / 2 * S::LINE + unit_of(o)), y = unit(u / 2 * S::LINE + unit_of(o) + other);
          if constexpr (S::ROTATE)
            MANSARD_UNROLL
            for (int i = 0; i < Unit16<Word>::COUNT; ++i) swap_if(turned, x.at[i], y.at[i]);
          keep(x, u, o, slot);
          keep(y, u + 1, o, slot);
        }
      }
    }
  }
  static MANSARD_DEVICE void keep(const Unit16<Word>& unit, int u, int o, Word (&slot)[S::UNITS * S::HEIGHT][COUNT]) {
    MANSARD_UNROLL
    for (int i = 0; i < Unit16<Word>::COUNT; ++i)
      slot[u * S::HEIGHT + i / S::WORDS][o * S::WORDS + i % S::WORDS] = unit.at[i];
  }

  // Step q of one slot alone.
  MANSARD_DEVICE Word load_one(const unsigned char* lines, int s, int q) const {
    const int n = q / S::HEIGHT, at = unit_of(s / S::WORDS) + (turned == (n % 2 == 1) ? 0 : other);
    const Word* words = reinterpret_cast<const Word*>(lines + n / 2 * S::LINE + at);
    return words[q % S::HEIGHT * S::WORDS + s % S::WORDS];
  }
};

}  // namespace mansard
