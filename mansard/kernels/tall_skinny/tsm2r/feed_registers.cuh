// A loaded from global memory straight into the registers that the tensor cores need, one chunk ahead: no shared
// memory, any alignment.
//
// Row-major: a lane loads VECTOR neighbours of a row, which serves a quad for VECTOR steps. Column-major: it loads
// VECTOR neighbouring rows of a column, which are halves of tiles.
#pragma once
#include "kernels/tall_skinny/tsm2r/panels.cuh"

namespace mansard {

// Built-in vector types, which streaming loads accept.
template <class Word, int COUNT>
struct Wide {
  using Type = Word;
  static MANSARD_DEVICE void unpack(Word from, Word (&to)[1]) { to[0] = from; }
};
template <>
struct Wide<double, 2> {
  using Type = double2;
  static MANSARD_DEVICE void unpack(double2 from, double (&to)[2]) { to[0] = from.x, to[1] = from.y; }
};
template <>
struct Wide<float, 4> {
  using Type = float4;
  static MANSARD_DEVICE void unpack(float4 from, float (&to)[4]) {
    to[0] = from.x, to[1] = from.y, to[2] = from.z, to[3] = from.w;
  }
};

template <class P, class Arguments>
struct RegisterFeed {
  using S = TensorShape<P>;
  using Word = typename S::Word;
  static constexpr int THREADS = S::CONSUMERS, BYTES = 0, V = P::VECTOR;
  static constexpr int LOADS = P::TILES * 2 * S::WARP_STEPS / V;  // loads per chunk
  static constexpr int AT_ONCE = S::WARP_STEPS / S::GROUP;  // groups per iteration: all, since registers have no index
  static_assert(!S::COL || 2 * P::TILES % V == 0, "tiles per load");

  const Arguments& arguments;
  const Panels<P, Arguments>& panels;
  int g, t, first_row, first_step;
  Word now[LOADS][V], next[LOADS][V];

  MANSARD_DEVICE RegisterFeed(const Arguments& given, const Panels<P, Arguments>& all, unsigned char*)
      : arguments(given), panels(all), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4) {
    const int warp = threadIdx.x / 32;
    first_row = warp % P::WARPS_M * S::WARP_ROWS, first_step = threadIdx.x / S::TEAM * S::WARP_STEPS;
  }
  // Row of the panel that a lane's sums of a tile belong to, upper or lower half.
  MANSARD_DEVICE int row(int tile, int half) const {
    if constexpr (!S::COL) return first_row + tile * 16 + half * 8 + g;
    const int rows = V == 4 ? 4 : 2, within = V == 4 ? tile % 2 * 2 : 0;
    return first_row + tile * 16 / (8 * rows) * (8 * rows) + rows * g + within + half;
  }
  MANSARD_DEVICE void initialise() const {}
  MANSARD_DEVICE void produce(Cursor, int) {}

  // Load i of a chunk: row-major one of two halves of a tile, for V steps; column-major V halves of tiles, for one.
  static MANSARD_HOST_DEVICE int halves(int i) { return S::COL ? i % (2 * P::TILES / V) * V : i % (2 * P::TILES); }
  static MANSARD_HOST_DEVICE int step(int i) { return S::COL ? i / (2 * P::TILES / V) : i / (2 * P::TILES) * V; }

  MANSARD_DEVICE void fetch(Cursor cursor) {
    const i64 a_row = S::COL ? 1 : arguments.a_row * S::WORDS, a_col = S::COL ? arguments.a_col * S::WORDS : 1;
    const i64 first = panels.first_row(cursor) + row(0, 0), begin = panels.first_column(cursor) + S::k_of(first_step, t);
    const Word* from = reinterpret_cast<const Word*>(arguments.A) + first * a_row + begin * a_col;
    const bool whole = panels.first_row(cursor) + S::ROWS <= panels.rows() &&
                       panels.first_column(cursor) + P::DEPTH <= panels.columns();
    MANSARD_UNROLL
    for (int i = 0; i < LOADS; ++i) {
      const int down = row(halves(i) / 2, halves(i) % 2) - row(0, 0), across = S::k_of(step(i), 0);
      const Word* at = from + down * a_row + across * a_col;
      if (whole) {
        using Vector = typename Wide<Word, V>::Type;
        Wide<Word, V>::unpack(load_streaming(reinterpret_cast<const Vector*>(at)), next[i]);
      } else {
        MANSARD_UNROLL
        for (int v = 0; v < V; ++v) {
          const i64 m = first + down + (S::COL ? v : 0), k = begin + across + (S::COL ? 0 : v);
          next[i][v] = m < panels.rows() && k < panels.columns() ? at[v] : Word(0);
        }
      }
    }
  }
  MANSARD_DEVICE void start(Cursor cursor) {
    fetch(cursor);
    end();
  }
  MANSARD_DEVICE void begin(Cursor behind, bool more) {
    if (more) fetch(behind);
  }
  MANSARD_DEVICE void end() {
    MANSARD_UNROLL
    for (int i = 0; i < LOADS * V; ++i) now[i / V][i % V] = next[i / V][i % V];
  }
  MANSARD_DEVICE void load(int group, Word (&a)[S::GROUP][P::TILES][2]) const {
    MANSARD_UNROLL
    for (int s = 0; s < S::GROUP; ++s)
      MANSARD_UNROLL
      for (int h = 0; h < 2 * P::TILES; ++h) {
        const int q = group * S::GROUP + s;
        if constexpr (S::COL) a[s][h / 2][h % 2] = now[q * (2 * P::TILES / V) + h / V][h % V];
        else a[s][h / 2][h % 2] = now[q / V * (2 * P::TILES) + h][q % V];
      }
  }
};

}  // namespace mansard
