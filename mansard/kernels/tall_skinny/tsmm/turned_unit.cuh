// Tensor cores that form W transposed: tiles of 16 columns (or the real and imaginary parts of eight) and eight rows.
//
// Rows of A are then the right operand, whose words are in registers as they were loaded, and fragments of C the left
// one, arranged for it beforehand: nothing has to be moved between a load and an instruction. Lane (g, t) ends with
// columns g and g + 8, rows 2 t and 2 t + 1.
#pragma once
#include "kernels/tall_skinny/tsmm/pairs.cuh"

namespace mansard {

template <class P>
struct TurnedShape : PairShape<P> {
  using S = PairShape<P>;
  static constexpr int OCTETS = P::ROWS / P::WARPS_K / P::PASSES / 8;  // octets of rows per warp and pass
  static constexpr int TILES = ceil_div(ceil_div(P::N * S::WORDS, 16), P::WARPS_N);  // of 16 real columns, per warp
  static constexpr int ALL_TILES = TILES * P::WARPS_N;                               // zeros beyond the last
  static constexpr int PLANES = S::WORDS == 2 ? 1 : 2;  // fragments per lane, block and tile
  static constexpr int FRAGMENTS = S::BLOCKS * ALL_TILES * PLANES, SMALL_BYTES = FRAGMENTS * 32 * int(sizeof(Fragment));
  static_assert(OCTETS % S::STEP == 0 && P::ROWS == OCTETS * 8 * P::WARPS_K * P::PASSES, "rows per chunk");
  // row of an octet that lane 0 loads, relative to the warp's first row
  static MANSARD_HOST_DEVICE int row_of(int octet) { return octet / S::STEP * 8 * S::STEP + octet % S::STEP; }
};

template <class P>
struct TurnedUnit {
  using S = TurnedShape<P>;
  using Word = typename S::Word;
  int warp_k, warp_n, g, t, turn, pass = 0;
  u32 nothing = 0;                      // zero, but unknown to the compiler: see `operand`
  const Fragment* small;                // the lane's first fragment
  double rows[S::OCTETS][S::TILES][4];  // W: [octet][tile][2 * (upper or lower columns) + (first or second row)]

  MANSARD_DEVICE TurnedUnit(int member, const unsigned char* memory)
      : warp_k(member / P::WARPS_N), warp_n(member % P::WARPS_N), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4),
        turn(g % S::AT_ONCE / (S::AT_ONCE / S::CLASH)),
        small(reinterpret_cast<const Fragment*>(memory) + warp_n * S::TILES * S::PLANES * 32 + threadIdx.x % 32) {}

  template <int THREADS, class Arguments>
  MANSARD_DEVICE void hold(const Arguments& arguments, unsigned char* memory) {
    nothing = static_cast<u32>(arguments.K >> 62);
    Fragment* to = reinterpret_cast<Fragment*>(memory);
    for (int i = threadIdx.x; i < S::FRAGMENTS * 32; i += THREADS)
      to[i] = of_lane(arguments, i / 32 / S::PLANES / S::ALL_TILES, i / 32 / S::PLANES % S::ALL_TILES, i / 32 % S::PLANES,
                      i % 32 / 4, i % 4);
  }
  // A lane's fragment of C. Complex: one number. Real: the numbers of two columns, for the first words of the lanes'
  // pairs (plane 0) or the second ones (plane 1).
  template <class Arguments>
  static MANSARD_DEVICE Fragment of_lane(const Arguments& arguments, int block, int tile, int plane, int g, int t) {
    Fragment result;
    result.wide[0] = result.wide[1] = 0.0;
    if constexpr (S::WORDS == 2) {
      if (block * 4 + t < P::M && tile * 8 + g < P::N) {
        const auto c = small_entry<P>(arguments, block * 4 + t, tile * 8 + g);
        result.wide[0] = c.re, result.wide[1] = c.im;
      }
    } else {
      const int m = block * 8 + (plane ? S::y_of(t) : S::x_of(t));
      MANSARD_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int n = tile * 16 + half * 8 + g;
        if (m < P::M && n < P::N) result.wide[half] = small_entry<P>(arguments, m, n);
      }
    }
    return result;
  }

  MANSARD_DEVICE int first_row(int octet) const { return (warp_k * P::PASSES + pass) * S::OCTETS * 8 + S::row_of(octet); }

  MANSARD_DEVICE void multiply(const unsigned char* stage, int number) {
    pass = number;
    const Word* from = reinterpret_cast<const Word*>(stage) + (first_row(0) + S::STEP * g) * S::LDA;
    MANSARD_UNROLL
    for (int i = 0; i < S::OCTETS * S::TILES * 4; ++i) rows[i / 4 / S::TILES][i / 4 % S::TILES][i % 4] = 0.0;
    for_each_block<P>([&](auto size, int block) { add<decltype(size)::VALUE>(from, block); });
  }
  template <int SIZE>
  MANSARD_DEVICE void add(const Word* from, int block) {
    Pair<Word> a[S::OCTETS][SIZE];
    load_pairs<P>(from, block, turn, t, a, [](int octet) { return S::row_of(octet); });
    MANSARD_UNROLL
    for (int n = 0; n < SIZE; ++n)
      MANSARD_UNROLL
      for (int tile = 0; tile < S::TILES; ++tile) {
        double left[4];
        operand(block + n, tile, left);
        MANSARD_UNROLL
        for (int o = 0; o < S::OCTETS; ++o) mma_m16n8k8(rows[o][tile], left, {double(a[o][n].x), double(a[o][n].y)});
      }
  }
  MANSARD_DEVICE void operand(int block, int tile, double (&left)[4]) const {
    const Fragment* c = small + (block * S::ALL_TILES + tile) * S::PLANES * 32;
    const Fragment first = c[0], second = c[S::PLANES == 2 ? 32 : 0];
    left[0] = first.wide[0], left[1] = first.wide[1], left[2] = second.wide[0], left[3] = second.wide[1];
    if constexpr (S::WORDS == 2) {
      // If one register served two places of an operand, it would be copied for every instruction; `twin` is a copy
      // that the compiler does not recognise as one.
      Fragment twin = first;
      twin.halves[0] ^= nothing, twin.halves[1] ^= nothing;
      left[2] = -first.wide[1], left[3] = twin.wide[0];
    }
  }

  // Calls use(row of the chunk, column, entry) for all results of the pass; `use` may change the entries.
  template <class Use>
  MANSARD_DEVICE void for_each_entry(Use use) {
    MANSARD_UNROLL
    for (int o = 0; o < S::OCTETS; ++o)
      MANSARD_UNROLL
      for (int tile = 0; tile < S::TILES; ++tile)
        MANSARD_UNROLL
        for (int e = 0; e < 2; ++e) {
          double(&four)[4] = rows[o][tile];
          const int row = first_row(o) + S::STEP * (2 * t + e), place = warp_n * S::TILES + tile;
          if constexpr (S::WORDS == 2) {
            Complex<double> entry = {four[e], four[2 + e]};
            if (place * 8 + g < P::N) use(row, place * 8 + g, entry);
            four[e] = entry.re, four[2 + e] = entry.im;
          } else {
            MANSARD_UNROLL
            for (int half = 0; half < 2; ++half)
              if (place * 16 + half * 8 + g < P::N) use(row, place * 16 + half * 8 + g, four[2 * half + e]);
          }
        }
  }
  template <class Pair, class Single>
  MANSARD_DEVICE void for_each_result(Pair, Single use) {
    for_each_entry(use);
  }
};

}  // namespace mansard
