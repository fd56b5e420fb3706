// Lower triangles in shared memory without the upper half, for tiles.
//
// A band is LANES_M lines of the triangle: rows (FALLING), or columns for column-major matrices. All lines of a band
// are as long as its longest, so that 64 rows of doubles take 20 KB instead of 35 and more matrices are in flight.
// Bands match the tile's slots: EMPTY rows and columns come before the first one, so that all bands are full.
//
//   band 0   offset(0)   LANES_M - EMPTY lines of pitch(0)
//   band b   offset(b)   LANES_M lines of pitch(b) = PITCH + b * STEP; STEP < 0 if not FALLING (lines get shorter)
//
// PIECE elements are moved at once, eight lanes per run of a line. Matrices are adjacent in global memory. Zeros beyond
// the triangle are written without being in shared memory.
// Barriers of factor_wedges (Worker::meet -> buffer -> writer): after the copies -> triangles -> copies of other lanes;
// during the steps, see tile.cuh; before the store -> triangles, now L -> other lanes of the team.
#pragma once
#include "kernels/factor/cholesky/group.cuh"
#include "mansard/gpu/async_words.cuh"

namespace mansard {

template <class T, int N, int LANES_M, bool FALLING, int PIECE>
struct Wedge {
  static constexpr int BANDS = ceil_div(N, LANES_M), HEIGHT = BANDS * LANES_M, EMPTY = HEIGHT - N;
  static constexpr int WIDTH = FALLING ? LANES_M - EMPTY : HEIGHT, STEP = FALLING ? LANES_M : -LANES_M;
  // Pitch of the first band. Lines are an odd number of pieces apart, so that eight of them lie in different banks.
  static constexpr int PITCH = WIDTH + (WIDTH / PIECE % 2 == 0 ? PIECE : 0);

  static MANSARD_DEVICE constexpr int offset(int band) {
    return LANES_M * (band * PITCH + STEP * (band * (band - 1) / 2)) - EMPTY * PITCH;
  }
  static constexpr int BYTES = ceil_div(offset(BANDS) * int(sizeof(T)), 16) * 16;
  static_assert(N % PIECE == 0 && LANES_M % PIECE == 0, "pieces are whole");

  // Elements [begin, end) of a band's lines are in shared memory.
  static MANSARD_DEVICE constexpr int begin(int band) { return FALLING ? 0 : max(band * LANES_M - EMPTY, 0); }
  static MANSARD_DEVICE constexpr int end(int band) { return FALLING ? (band + 1) * LANES_M - EMPTY : N; }
  static MANSARD_DEVICE constexpr int pitch(int band) { return PITCH + band * STEP; }
  // Offset of element e of a line of this band.
  static MANSARD_DEVICE constexpr int at(int band, int line, int e) {
    const int first = FALLING ? 0 : band * LANES_M - EMPTY;
    return offset(band) + (line + EMPTY - band * LANES_M) * pitch(band) + e - first;
  }

  // Calls visit(band, line, element) for the pieces that lane 0 moves: eight lanes move a run of a line, LANES / 8
  // lines at once. ALL includes elements outside the triangle. The arguments are compile-time constants; every other
  // lane adds its own constant offset (own, ahead).
  template <bool ALL, int LANES, class Visit>
  static MANSARD_DEVICE void for_pieces(int lane, Visit visit) {
    constexpr int RUN = 8 * PIECE, LINES = LANES / 8;
    const int own = lane / 8, ahead = lane % 8 * PIECE;
    MANSARD_UNROLL
    for (int band = 0; band < BANDS; ++band)
      MANSARD_UNROLL
      for (int below = 0; below < LANES_M; below += LINES) {
        const int line = band * LANES_M - EMPTY + below, last = ALL ? N : end(band);
        const bool mine = (line >= 0 || line + own >= 0) && (LANES_M % LINES == 0 || below + own < LANES_M);
        if (line + LINES > 0) MANSARD_UNROLL
          for (int e = ALL ? 0 : begin(band); e < last; e += RUN)
            if (mine && (e + RUN <= last || e + ahead < last)) visit(band, line, e);
      }
  }
  // Copy a triangle from global memory, asynchronously.
  template <int LANES>
  static MANSARD_DEVICE void fill(T* memory, const T* from, int lane) {
    const int own = lane / 8, ahead = lane % 8 * PIECE;
    const T* pieces = from + own * N + ahead;
    for_pieces<false, LANES>(lane, [&](int band, int line, int e) {
      T* here = memory + (own * pitch(band) + ahead);
      cp_async_word<PIECE * int(sizeof(T))>(here + at(band, line, e), pieces + (line * N + e));
    });
  }
  // Store a matrix to global memory, with zeros outside the triangle.
  template <int LANES>
  static MANSARD_DEVICE void store(const T* memory, T* to, int lane) {
    const int own = lane / 8, ahead = lane % 8 * PIECE;
    T* pieces = to + own * N + ahead;
    for_pieces<true, LANES>(lane, [&](int band, int line, int e) {
      const T* here = memory + (own * pitch(band) + ahead);
      constexpr int RUN = 8 * PIECE;
      Pack<T, PIECE> pack = {};
      const bool whole = e >= begin(band) && e + RUN <= end(band), some = e + RUN > begin(band) && e < end(band);
      if (whole || (some && e + ahead >= begin(band) && e + ahead < end(band)))
        pack = *reinterpret_cast<const Pack<T, PIECE>*>(here + at(band, line, e));
      store_pack(pieces + (line * N + e), pack);
    });
  }
};

// Factor with triangles in shared memory: per group of matrices GROUP triangles of PLACE elements, then the places for
// columns.
template <class P, class Worker, class Arguments>
MANSARD_DEVICE void factor_wedges(const Arguments& arguments) {
  using T = typename P::T;
  using W = Wedge<T, P::N, P::LANES_M, P::LAYOUT_A != Layout::col, P::PIECE>;
  static_assert(P::LAYOUT_A == P::LAYOUT_F && P::NRHS == 0 && Worker::WIDTH <= P::COLUMN, "factors lie like matrices");
  constexpr i64 SIZE = P::N * P::N;
  constexpr int TEAM = Worker::TEAM, LANES = TEAM > 32 ? TEAM : 32;  // lanes that copy a group together
  constexpr int GROUP = LANES / TEAM, PLACE = W::BYTES / int(sizeof(T)), GROUPS = P::WARPS * 32 / LANES;
  constexpr int OF_GROUP = GROUP * (PLACE + Worker::PLACES * P::COLUMN);
  static_assert(GROUPS * OF_GROUP * int(sizeof(T)) <= P::SHARED_BYTES, "shared memory");
  static_assert(TEAM <= 32 || GROUPS == 1, "more than a warp is a block");
  MANSARD_SHARED_ARENA(T, arena);
  const Operands<P, Arguments> operands(arguments);
  const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES, team = lane / TEAM;
  T* memory = arena + group * OF_GROUP;
  T* columns = memory + GROUP * PLACE + team * P::COLUMN;
  const i64 batch = arguments.BATCH, first = (static_cast<i64>(blockIdx.x) * GROUPS + group) * GROUP;
  if (first >= batch) return;
  const int count = batch - first < GROUP ? static_cast<int>(batch - first) : GROUP;

  MANSARD_UNROLL
  for (int g = 0; g < GROUP; ++g)
    if (g < count) W::template fill<LANES>(memory + g * PLACE, operands.A.base + (first + g) * SIZE, lane);
  cp_async_commit();
  cp_async_wait<0>();
  Worker::meet();  // triangles: the copies of all lanes have arrived
  Worker worker(lane % TEAM);
  worker.template load_from<P::LAYOUT_A, W, P::PIECE>(memory + team * PLACE);
  worker.template factor<GROUP * P::COLUMN>(columns);
  if (lane % TEAM == 0 && team < count) arguments.INFO[first + team] = worker.info;
  // the barriers of `factor` separate the loads of A from these stores of L to the same triangle
  worker.template store_to<P::LAYOUT_F, W, P::PIECE>(memory + team * PLACE);
  Worker::meet();  // triangles hold L, written by all lanes
  MANSARD_UNROLL
  for (int g = 0; g < GROUP; ++g)
    if (g < count) W::template store<LANES>(memory + g * PLACE, operands.F.base + (first + g) * SIZE, renewed(lane));
}

}  // namespace mansard
