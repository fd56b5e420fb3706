// A chunk of C rows of a matrix in SELL-C-sigma or ELLPACK, as a warp reads it.
#pragma once
#include "mansard/gpu/sparse.cuh"

namespace mansard {

template <class P>
struct Chunk {
  using V = typename P::V;
  using Stored = typename ColumnOf<P::INDEX>::Type;
  using Column = typename ColumnOf<P::INDEX>::Full;
  static constexpr bool SELL = P::FORMAT == Format::sell;
  const V* values;
  const Stored* columns;
  const int* bases;
  i64 step;  // elements from one entry of a row to the next (ELLPACK)
  int width;
  bool ragged;  // whether some rows are shorter

  // Value of entry j of row `place` of the chunk; j must be less than `width`.
  MANSARD_DEVICE V value(int j, int place) const { return load_entry<P::CACHE>(values + at(j, place)); }
  MANSARD_DEVICE Column column(int j, int place) const {
    const Column stored = load_entry<P::CACHE>(columns + at(j, place));
    if constexpr (P::INDEX == Index::delta16) return stored + __ldg(bases + j);
    else return stored;
  }
  template <class Arguments>
  MANSARD_DEVICE int length(const Arguments& a, i64 row) const {
    if (row >= a.ROWS) return 0;
    if constexpr (P::RAGGED) return ragged ? __ldg(a.LENGTHS + row) : width;
    else return width;
  }

 private:
  MANSARD_DEVICE i64 at(int j, int place) const {
    if constexpr (SELL) return j * P::C + place;  // entries of a chunk are fewer than 2^31
    else return j * step + place;
  }
};

// Positions of a warp's chunks, loaded together: lane i holds that of chunk number i.
template <class P, class Arguments>
struct Chunks {
  int start, width, common;

  MANSARD_DEVICE Chunks(const Arguments& a, int first, int chunks, int lane) {
    if constexpr (P::FORMAT == Format::sell) {
      const int mine = min(first + (P::CHUNKS == 1 ? 0 : lane), chunks - 1);
      start = __ldg(a.STARTS + mine), width = __ldg(a.WIDTHS + mine);
      common = P::RAGGED ? __ldg(a.COMMON + mine) : 0;
    }
  }
  MANSARD_DEVICE Chunk<P> at(const Arguments& a, int i, int number) const {
    using Stored = typename Chunk<P>::Stored;
    using V = typename P::V;
    if constexpr (P::FORMAT == Format::sell) {
      const bool alone = P::CHUNKS == 1;
      const int wide = alone ? width : from_lane(width, i), from = alone ? start : from_lane(start, i);
      const int least = !P::RAGGED || alone ? common : from_lane(common, i);
      const unsigned char* base = a.MATRIX + static_cast<i64>(from) * 128;
      using Places = Parts<V, P::INDEX, P::C>;
      return {reinterpret_cast<const V*>(base), reinterpret_cast<const Stored*>(base + Places::columns(wide)),
              reinterpret_cast<const int*>(base + Places::bases(wide)), P::C, wide, least < wide};
    } else {
      const i64 row = static_cast<i64>(number) * P::C;
      return {a.MATRIX + row, a.COLUMNS + row, nullptr, a.pitch, static_cast<int>(a.width), true};
    }
  }
};

}  // namespace mansard
