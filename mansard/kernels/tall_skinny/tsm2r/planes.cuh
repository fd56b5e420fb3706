// The skinny matrix B for warpgroups: pieces of PIECE rows, split into TF32 halves once for all warpgroups.
//
// All consumer threads load the next piece into registers while they work on the present one, and store it in the
// layout of mansard/gpu/warpgroup.cuh: for every eight rows a plane of high halves and one of low halves. There are two
// places. Barrier (mbarrier at % 2 -> buffer -> writer): place at % 2 is complete -> all consumer warps. A warp that
// arrives there also declares that it has finished reading the other place, which may then be overwritten.
//
// Real columns of A are assigned to lanes by `k_of`. A thread takes the four rows of a step, one for each lane of a
// quad, in one column: 16 bytes of a plane. Eight neighbouring threads take eight columns, the next ones the other
// steps, then COLUMNS columns further on.
#pragma once
#include "kernels/tall_skinny/tsm2r/panels.cuh"
#include "mansard/gpu/warpgroup.cuh"

namespace mansard {

// `number`, but opaque to the compiler: values that are rarely needed are then not computed in advance and kept.
MANSARD_DEVICE int opaque(int number) {
#if !defined(MANSARD_EMULATED)
  asm volatile("" : "+r"(number));
#endif
  return number;
}

// Descriptor of a plane as instructions take it; equal in all lanes of a warp, so that it is advanced by the uniform
// unit.
#if defined(MANSARD_EMULATED)
using PlaneName = const u32*;
MANSARD_DEVICE PlaneName plane_name(const u32* words) { return words; }
MANSARD_DEVICE PlaneName plane_behind(PlaneName name, int words) { return name + words; }
template <int TILES>
MANSARD_DEVICE void add_plane(float (&c)[TILES][4], const u32 (&a)[4], PlaneName b, bool add, MANSARD_HERE) {
  wgmma_tf32(c, a, b, add, site);
}
#else
using PlaneName = u64;
MANSARD_DEVICE PlaneName plane_name(const u32* words) {
  const u64 name = warpgroup_matrix(words);
  return (name & ~0xffffffffull) | __shfl_sync(~0u, static_cast<u32>(name), 0);
}
MANSARD_DEVICE PlaneName plane_behind(PlaneName name, int words) { return name + words / 4; }  // in units of 16 bytes
template <int TILES>
MANSARD_DEVICE void add_plane(float (&c)[TILES][4], const u32 (&a)[4], PlaneName b, bool add) {
  Wgmma<TILES>::multiply(c, a, b, add);
}
#endif

template <class P>
struct PlanesShape : TensorShape<P> {
  using S = TensorShape<P>;
  static constexpr int PIECE = P::DEPTH / P::PARTS, PIECE_STEPS = PIECE / 4;
  static constexpr int PLANE = S::TILES_N * 64, PLACE = PIECE_STEPS * PLANE;  // words
  static constexpr int BARRIERS_AT = 2 * PLACE * 4, BYTES = BARRIERS_AT + 2 * int(sizeof(mbarrier));
  static constexpr int COLUMNS = S::CONSUMERS / PIECE_STEPS, PASSES = ceil_div(S::TILES_N * 8, COLUMNS);
  static constexpr int PIECE_ROWS = PIECE / S::K_WORDS, STRIDE = S::ADJACENT / S::K_WORDS;  // in rows of B
  static_assert(P::DEPTH % P::PARTS == 0 && PIECE % (4 * S::GROUP) == 0 && S::ADJACENT % S::K_WORDS == 0, "pieces");
  static_assert(S::CONSUMERS % (8 * PIECE_STEPS) == 0, "threads for all steps of eight columns");
};

template <class P, class Arguments>
struct Planes {
  using S = PlanesShape<P>;
  const Arguments& arguments;
  u32* places;
  mbarrier* barriers;
  float held[S::PASSES][4];

  MANSARD_DEVICE Planes(const Arguments& given, unsigned char* arena)
      : arguments(given), places(reinterpret_cast<u32*>(arena)),
        barriers(reinterpret_cast<mbarrier*>(arena + S::BARRIERS_AT)) {}
  // Called by one thread before a barrier of the block.
  MANSARD_DEVICE void initialise() const {
    mbarrier_init(barriers, S::CONSUMERS / 32);
    mbarrier_init(barriers + 1, S::CONSUMERS / 32);
  }

  // Step and column of a thread's first numbers.
  static MANSARD_DEVICE int step_of(int thread) { return thread / 8 % S::PIECE_STEPS; }
  static MANSARD_DEVICE int column_of(int thread) { return thread / (8 * S::PIECE_STEPS) * 8 + thread % 8; }
  // First row of B of a step; for complex numbers a step is of real or imaginary parts (`below`) of A.
  static MANSARD_DEVICE int first_row(int step) { return S::k_of(step, 0) / S::K_WORDS; }
  static MANSARD_DEVICE int below(int step) { return S::k_of(step, 0) % S::K_WORDS; }
  static MANSARD_DEVICE bool imaginary(int step, int n) { return (n % S::WORDS ^ below(step)) == 1; }
  // Sign of an entry of B' = (Br, Bi; -Bi, Br), with conjugations.
  static MANSARD_DEVICE float with_sign(float x, int step, int n) {
    const bool flips = (imaginary(step, n) && P::CONJ_B) != (below(step) == 1 && (n % S::WORDS == 0) != P::CONJ_A);
    return S::WORDS == 2 ? __uint_as_float(__float_as_uint(x) ^ (flips ? 0x80000000u : 0u)) : x;
  }
  MANSARD_DEVICE const float* address(i64 row, int n, bool im) const {
    const auto* entry = arguments.B + row * arguments.b_row + n / S::WORDS * arguments.b_col;
    return reinterpret_cast<const float*>(entry) + im;
  }

  MANSARD_DEVICE void fetch(int piece) {
    const int thread = opaque(threadIdx.x), step = step_of(thread), column = column_of(thread);
    const i64 first = static_cast<i64>(piece) * S::PIECE_ROWS + first_row(step);
    const i64 rest = arguments.K - first, down = S::STRIDE * S::WORDS * arguments.b_row;
    const int left = rest < 4 * S::STRIDE ? static_cast<int>(rest) : 4 * S::STRIDE;
    const float* from = address(first, column, imaginary(step, column));
    MANSARD_UNROLL
    for (int t = 0; t < 4; ++t, from += down)
      MANSARD_UNROLL
      for (int i = 0; i < S::PASSES; ++i) {
        const bool inside = t * S::STRIDE < left && column + i * S::COLUMNS < S::WIDTH;
        held[i][t] = inside ? from[i * S::COLUMNS * arguments.b_col] : 0.0f;
      }
  }
  // Store piece `at`, counted from the block's first, in its place; columns beyond the width are zeros.
  MANSARD_DEVICE void put(u32 at) const {
    const int thread = opaque(threadIdx.x), step = step_of(thread), column = column_of(thread);
    u32* words = places + at % 2 * S::PLACE + step / 2 * (2 * S::PLANE) + warpgroup_word(step % 2 * 4, column);
    MANSARD_UNROLL
    for (int i = 0; i < S::PASSES; ++i, words += S::COLUMNS * 8) {
      if (S::TILES_N * 8 % S::COLUMNS != 0 && column + i * S::COLUMNS >= S::TILES_N * 8) continue;
      uint4 high, low;
      split_tf32(with_sign(held[i][0], step, column), high.x, low.x);
      split_tf32(with_sign(held[i][1], step, column), high.y, low.y);
      split_tf32(with_sign(held[i][2], step, column), high.z, low.z);
      split_tf32(with_sign(held[i][3], step, column), high.w, low.w);
      *reinterpret_cast<uint4*>(words) = high;
      *reinterpret_cast<uint4*>(words + S::PLANE) = low;
    }
  }
  // Arrive: this warp has stored its share of piece `at` and has finished reading the piece before it.
  MANSARD_DEVICE void hand_over(u32 at) const {
    fence_async_shared();  // place: stores are visible to the tensor cores
    __syncwarp();          // place: all lanes have stored their share before lane 0 arrives
    if (threadIdx.x % 32 == 0) mbarrier_arrive(barriers + at % 2);
  }
  MANSARD_DEVICE PlaneName wait(u32 at) const {
    mbarrier_wait(barriers + at % 2, at / 2 % 2);  // place at % 2 is complete, from all consumer warps
    __syncwarp();                                  // reconverge the warp for wgmma
    return plane_name(places + at % 2 * S::PLACE);
  }
  // One number from global memory: the halves do not show whether it was an infinity or a NaN.
  MANSARD_DEVICE float entry(int piece, int of_step, int t, int n) const {
    const i64 row = static_cast<i64>(piece) * S::PIECE_ROWS + first_row(of_step) + t * S::STRIDE;
    return n < S::WIDTH && row < arguments.K ? with_sign(*address(row, n, imaginary(of_step, n)), of_step, n) : 0.0f;
  }
};

}  // namespace mansard
