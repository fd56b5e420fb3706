// C = A^H B for complex matrices from three real products instead of four, a quarter less work for the tensor cores:
//   t1 = re re,  t2 = im im,  t3 = (re + im) (im - re);   re = t1 + t2,  im = t3 + t1 - t2
// (A^T B: t3 = (re + im) (re + im), re = t1 - t2, im = t3 - t1 - t2). Errors stay within a small multiple of |a| |b|,
// as with four products, but an imaginary part that is much smaller than the real one no longer has small errors of its
// own, and an infinity may become a NaN.
//
// Otherwise the ring kernel (kernel_ring.cuh), with the same parameters: a slot is eight complex columns here, and a
// word a complex number.
#pragma once
#include "kernels/tall_skinny/gram/kernel_ring.cuh"

namespace mansard {

template <class R>
struct alignas(2 * sizeof(R)) Number {
  R re, im;
  Number() = default;
  explicit MANSARD_DEVICE Number(int) : re(0), im(0) {}
};

// The problem with complex numbers as words.
template <class P>
struct Whole : P {
  using T = Number<typename Scalar<typename P::T>::Real>;
  static constexpr int FOLD = 1;
};

template <class P>
struct ThirdsShape : ChunkShape<Whole<P>> {
  using C = ChunkShape<Whole<P>>;
  using Word = typename C::Word;
  using Real = typename Scalar<typename P::T>::Real;
  using Sum = Complex<double>;
  using Chunks =
      Ring<P::GROUPS, P::WARPS_M * P::WARPS_N * P::WARPS_K, P::STAGES, C::STAGE * int(sizeof(Word)), P::FEED>;
  static_assert(!P::SAME && Scalar<typename P::T>::COMPLEX, "for two complex matrices");

  static constexpr int SLOTS_M = ceil_div(ceil_div(P::M, 8), P::WARPS_M), SLOTS_N = ceil_div(ceil_div(P::N, 8), P::WARPS_N);
  static constexpr int BLOCK_M = SLOTS_M * 8 * P::WARPS_M, BLOCK_N = SLOTS_N * 8 * P::WARPS_N, PITCH = BLOCK_N + 1;
  static constexpr bool ROTATE = P::SPREAD == Spread::rotate;
  using A = Slots<Word, SLOTS_M, ROTATE ? clashing_rows(C::LANE_A, sizeof(Word)) : 1>;
  using B = Slots<Word, SLOTS_N, ROTATE ? clashing_rows(C::LANE_B, sizeof(Word)) : 1>;
  using Tiles = Tiling<A, B, false>;

  static constexpr int SLACK = BLOCK_M > BLOCK_N ? BLOCK_M : BLOCK_N;  // columns read past the last row
  // The teams' sums meet in as many tiles as the ring's memory holds.
  static constexpr int TEAMS = P::GROUPS * P::WARPS_K, TILE = BLOCK_M * PITCH;
  static constexpr int ROOM = P::SHARED_BYTES / (TILE * int(sizeof(Sum))), MEETING = ROOM < TEAMS ? ROOM : TEAMS;
  static_assert(Chunks::BYTES + SLACK * int(sizeof(Word)) <= P::SHARED_BYTES && MEETING >= 1, "shared memory");
};

// Plane 0, 1, 2 of a number of A or of B: what is multiplied for t1, t2, t3.
template <class P, bool OF_A, int PLANE, class Word>
MANSARD_DEVICE auto part(Word x) {
  if constexpr (PLANE == 0) return x.re;
  else if constexpr (PLANE == 1) return x.im;
  else if constexpr (!OF_A && P::CONJ) return x.im - x.re;
  else return x.re + x.im;
}
template <class P, class R>
MANSARD_DEVICE Complex<R> of_thirds(R t1, R t2, R t3) {
  if constexpr (P::CONJ) return {t1 + t2, t3 + t1 - t2};
  else return {t1 - t2, t3 - t1 - t2};
}

// A warp: its place in the block, where its lanes read, and its sums: t1, t2, t3, or with TF32 the parts of their
// result.
template <class P>
struct ThirdsWarp {
  using S = ThirdsShape<P>;
  using Word = typename S::Word;
  using Tiles = typename S::Tiles;
  static constexpr bool TF32 = P::UNIT == Unit::tf32x3;
  int group, member, warp_m, warp_n, warp_k, g, t, row_a, row_b;
  typename S::A a;
  typename S::B b;
  typename SumOf<P::UNIT>::Type sums[TF32 ? 2 : 3][Tiles::COUNT][4] = {};
  Chain<Tiles::COUNT, TF32 ? P::ROWS / P::WARPS_K : 0> t1, t2, t3;  // in step with each other

  MANSARD_DEVICE ThirdsWarp()
      : group(threadIdx.x / 32 / S::Chunks::TEAM), member(threadIdx.x / 32 % S::Chunks::TEAM),
        warp_m(member / P::WARPS_N % P::WARPS_M), warp_n(member % P::WARPS_N),
        warp_k(member / (P::WARPS_M * P::WARPS_N)), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4),
        a(S::LANE_A, g, t, warp_m), b(S::LANE_B, g, t, warp_m) {
    row_a = S::first_row(warp_k) * S::LDA + warp_m * S::SLOTS_M * 8;
    row_b = S::STAGE_A + S::first_row(warp_k) * S::LDB + warp_n * S::SLOTS_N * 8;
  }
  MANSARD_DEVICE const Word* at_a(const Word* stage, int q) const { return stage + row_a + S::row_of(q) * S::LDA; }
  MANSARD_DEVICE const Word* at_b(const Word* stage, int q) const { return stage + row_b + S::row_of(q) * S::LDB; }

  MANSARD_DEVICE void multiply(const unsigned char* bytes) {
    const Word* stage = reinterpret_cast<const Word*>(bytes);
    if constexpr (TF32) multiply_tf32(stage);
    else multiply_float64(stage);
  }

  MANSARD_DEVICE void multiply_float64(const Word* stage) {
    constexpr int STEPS = P::KSTEP / 4;
    MANSARD_UNROLL
    for (int q = 0; q < S::QUADS; q += STEPS) {
      Word slots_a[STEPS][S::SLOTS_M], slots_b[STEPS][S::SLOTS_N];
      MANSARD_UNROLL
      for (int z = 0; z < STEPS; ++z) {
        a.load(at_a(stage, q + z), t, slots_a[z]);
        b.load(at_b(stage, q + z), t, slots_b[z]);
      }
      add_plane<0>(slots_a, slots_b);
      add_plane<1>(slots_a, slots_b);
      add_plane<2>(slots_a, slots_b);
    }
  }
  template <int PLANE, int STEPS>
  MANSARD_DEVICE void add_plane(const Word (&slots_a)[STEPS][S::SLOTS_M], const Word (&slots_b)[STEPS][S::SLOTS_N]) {
    double of_a[STEPS][S::SLOTS_M], of_b[STEPS][S::SLOTS_N];
    MANSARD_UNROLL
    for (int z = 0; z < STEPS; ++z) parts<PLANE>(slots_a[z], slots_b[z], of_a[z], of_b[z]);
    MANSARD_UNROLL
    for (int tile = 0; tile < Tiles::COUNT; ++tile) {
      double left[2 * STEPS], right[STEPS];
      MANSARD_UNROLL
      for (int z = 0; z < STEPS; ++z) {
        MANSARD_UNROLL
        for (int half = 0; half < 2; ++half) {
          const int slot = Tiles::left(tile, half);
          left[2 * z + half] = Tiles::upright(tile) ? of_a[z][slot] : of_b[z][slot];
        }
        right[z] = Tiles::upright(tile) ? of_b[z][Tiles::right(tile)] : of_a[z][Tiles::right(tile)];
      }
      mma_steps<P::KSTEP>(sums[PLANE][tile], left, right);
    }
  }
  template <int PLANE, class R>
  static MANSARD_DEVICE void parts(const Word (&slots_a)[S::SLOTS_M], const Word (&slots_b)[S::SLOTS_N],
                                   R (&of_a)[S::SLOTS_M], R (&of_b)[S::SLOTS_N]) {
    MANSARD_UNROLL
    for (int s = 0; s < S::SLOTS_M; ++s) of_a[s] = part<P, true, PLANE>(slots_a[s]);
    MANSARD_UNROLL
    for (int s = 0; s < S::SLOTS_N; ++s) of_b[s] = part<P, false, PLANE>(slots_b[s]);
  }

  // Chains of sums are short, and are combined and added with rounding (halves.cuh).
  MANSARD_DEVICE void multiply_tf32(const Word* stage) {
    MANSARD_UNROLL
    for (int q = 0; q < S::QUADS; q += 2) {
      Word slots_a[2][S::SLOTS_M], slots_b[2][S::SLOTS_N];
      MANSARD_UNROLL
      for (int z = 0; z < 2; ++z) {
        a.load(at_a(stage, q + z), t, slots_a[z]);
        b.load(at_b(stage, q + z), t, slots_b[z]);
      }
      add_thrice<0>(t1.sums, slots_a, slots_b);
      add_thrice<1>(t2.sums, slots_a, slots_b);
      add_thrice<2>(t3.sums, slots_a, slots_b);
    }
    if (t1.is_long()) end_chains();
  }
  MANSARD_DEVICE void end_chains() {
    MANSARD_UNROLL
    for (int i = 0; i < 4 * Tiles::COUNT; ++i) {
      const Complex<float> sum = of_thirds<P>(t1.sums[i / 4][i % 4], t2.sums[i / 4][i % 4], t3.sums[i / 4][i % 4]);
      sums[0][i / 4][i % 4] += sum.re;
      sums[1][i / 4][i % 4] += sum.im;
    }
    t1.restart(), t2.restart(), t3.restart();
  }
  MANSARD_DEVICE bool spoilt() {
    end_chains();
    return !(watched<Tiles>(sums[0]) + watched<Tiles>(sums[1]) <= 3.0e38f);
  }
  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int i = 0; i < 4 * Tiles::COUNT; ++i) sums[0][i / 4][i % 4] = sums[1][i / 4][i % 4] = 0;
  }
  // With four products.
  MANSARD_DEVICE void redo(const unsigned char* bytes) { redo<0>(reinterpret_cast<const Word*>(bytes)); }
  template <int PLANE>
  static MANSARD_DEVICE void add_thrice(float (&to)[Tiles::COUNT][4], const Word (&slots_a)[2][S::SLOTS_M],
                                        const Word (&slots_b)[2][S::SLOTS_N]) {
    float of_a[2][S::SLOTS_M], of_b[2][S::SLOTS_N];
    MANSARD_UNROLL
    for (int z = 0; z < 2; ++z) parts<PLANE>(slots_a[z], slots_b[z], of_a[z], of_b[z]);
    multiply_thrice<Tiles>(to, of_a, of_b, 0);
  }
  // Tile by tile, with few registers.
  template <int TILE>
  MANSARD_DEVICE void redo(const Word* stage) {
    if constexpr (TILE < Tiles::COUNT) {
      constexpr bool UPRIGHT = Tiles::upright(TILE);
      double products[4][4] = {};  // of re and im of the left with re and im of the right
MANSARD_UNROLL_BY(1)
      for (int q = 0; q < S::QUADS; ++q) {
        const auto word = [&](bool of_a, int slot) {
          return of_a ? a.load_one(at_a(stage, q), slot, g) : b.load_one(at_b(stage, q), slot, g);
        };
        const Word first = word(UPRIGHT, Tiles::left(TILE, 0)), second = word(UPRIGHT, Tiles::left(TILE, 1));
        const Word right = word(!UPRIGHT, Tiles::right(TILE));
        mma_m16n8k4(products[0], first.re, second.re, right.re);
        mma_m16n8k4(products[1], first.im, second.im, right.im);
        mma_m16n8k4(products[2], first.re, second.re, right.im);
        mma_m16n8k4(products[3], first.im, second.im, right.re);
      }
      MANSARD_UNROLL
      for (int e = 0; e < 4; ++e) {
        const double re_im = products[UPRIGHT ? 2 : 3][e], im_re = products[UPRIGHT ? 3 : 2][e];  // of A with B
        sums[0][TILE][e] += static_cast<float>(products[0][e] + (P::CONJ ? products[1][e] : -products[1][e]));
        sums[1][TILE][e] += static_cast<float>(re_im + (P::CONJ ? -im_re : im_re));
      }
      redo<TILE + 1>(stage);
    }
  }

  MANSARD_DEVICE Complex<double> sum(int tile, int e) const {
    if constexpr (TF32) return {sums[0][tile][e], sums[1][tile][e]};
    else return of_thirds<P>(sums[0][tile][e], sums[1][tile][e], sums[2][tile][e]);
  }
  // Writes the warp's sums to its part of a tile in shared memory, or adds them to what is there.
  MANSARD_DEVICE void put(Complex<double>* tile, bool add) const {
    Complex<double>* origin = tile + warp_m * S::SLOTS_M * 8 * S::PITCH + warp_n * S::SLOTS_N * 8;
    MANSARD_UNROLL
    for (int n = 0; n < Tiles::COUNT; ++n)
      MANSARD_UNROLL
      for (int e = 0; e < 4; ++e) {
        if (e / 2 == 1 && Tiles::doubled(n)) continue;
        const int left = Tiles::left(n, e / 2), right = Tiles::right(n), column = 2 * t + e % 2;
        const int row = Tiles::upright(n) ? S::A::column(left, g) : S::A::column(right, column);
        const int beside = Tiles::upright(n) ? S::B::column(right, column) : S::B::column(left, g);
        Complex<double>& entry = origin[row * S::PITCH + beside];
        Complex<double> value = sum(n, e);
        if (add) add_to(value, entry);
        entry = value;
      }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void gram_thirds(const Arguments& arguments) {
  using S = ThirdsShape<P>;
  using Chunks = typename S::Chunks;
  using Sum = typename S::Sum;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  if constexpr (P::UNIT == Unit::tf32x3) clear<P::SHARED_BYTES, Chunks::THREADS>(arena);
  const Stream<Whole<P>, Arguments> stream(arguments);
  const Chunks chunks{arena, stream.chunks};
  chunks.initialise();

  ThirdsWarp<P> warp;
  const auto fill = [&](unsigned char* stage, mbarrier* arrival, i64 chunk) { stream.fill(stage, arrival, chunk); };
  if (warp.group == P::GROUPS) {
    chunks.produce(fill);
  } else {
    const auto multiply = [&](const unsigned char* stage) { warp.multiply(stage); };
    const i64 end = chunks.consume(warp.group, warp.member == 0, fill, multiply);
    if (end == stream.chunks && end * P::ROWS < arguments.K)  // one team meets the remaining rows
      by_hand<S>(chunks, stream, warp.group, end, multiply);
    if constexpr (P::UNIT == Unit::tf32x3) do_again<S>(chunks, stream, warp);
  }

  chunks.retire();
  Sum* tiles = reinterpret_cast<Sum*>(arena);
  const int team = warp.group * P::WARPS_K + warp.warp_k;
MANSARD_UNROLL_BY(1)
  for (int first = 0; first < S::TEAMS; first += S::MEETING) {
    if (team >= first && team < first + S::MEETING) warp.put(tiles + (team - first) * S::TILE, first > 0);
    __syncthreads();  // tiles of these teams are complete, before the next teams add to them or they are read
  }
  const auto value = [&](int entry) {
    Sum sum = zero<Sum>();
MANSARD_UNROLL_BY(4)
    for (int n = 0; n < S::MEETING; ++n) add_to(sum, tiles[n * S::TILE + entry / P::N * S::PITCH + entry % P::N]);
    return sum;
  };
  const auto store = [&](int entry, Sum sum) { store_entry<P>(arguments, entry / P::N, entry % P::N, sum); };
  reduce_over_blocks<P::REDUCE, Sum, P::M * P::N, Chunks::THREADS>(arguments.partials, arguments.counters, 0, gridDim.x, tiles,
                                                                   value, store);
}

}  // namespace mansard
