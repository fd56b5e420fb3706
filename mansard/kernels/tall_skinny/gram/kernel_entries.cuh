// C = A^H B on tensor cores for column-major A and B whose columns start anywhere, fed by asynchronous copies of entries.
//
// Bulk copies need columns on 16-byte boundaries. Here the lanes of a team fetch its chunks themselves, an entry (or, in
// an operand that allows it, 16 bytes) at a time, and every column lands on a line: fragments, tiles and sums are those
// of kernel_columns.cuh, without displacements. Chunks are assigned to blocks and teams cyclically.
//
// Shared memory as in kernel_columns.cuh: GROUPS x STAGES stages, later the teams' sums.
//
// Per chunk, with barriers as barrier -> buffer -> writer:
//   cp_async_wait    stage -> the lane's own copies
//   meet             stage -> all lanes' copies;  stage before it, read by all warps -> the next copies
//   multiply
//
// Limits: read bandwidth; see docs/families/gram.md.
//
//   WARPS_M x WARPS_N, WARPS_K, GROUPS, STAGES, ROWS, SPREAD, FOLD, KSTEP, UNIT, TRIANGLE  see kernel_columns.cuh
#pragma once
#include "kernels/tall_skinny/gram/kernel_columns.cuh"
#include "mansard/gpu/async_words.cuh"

namespace mansard {

// Where columns land, as `Columns` asks for them: all on a line.
template <class T>
struct OnLines {
  const T *A = nullptr, *B = nullptr;
  i64 pitch_a = 0, pitch_b = 0;
};

// One team's chunks: what is under way, and where it is.
template <class P, class Arguments>
struct EntriesStream {
  using S = ColumnsRing<P>;
  using T = typename P::T;
  using Word = typename S::Word;
  static constexpr int THREADS = S::Chunks::TEAM * 32, SIZE = int(sizeof(T));
  const Arguments& arguments;
  unsigned char* arena;
  i64 chunks, ahead, stride;  // whole chunks; the next one to be fetched; from one to the team's next
  int group, thread, slot = 0;
  int bytes_a, bytes_b;  // per copy

  MANSARD_DEVICE EntriesStream(const Arguments& given, unsigned char* memory)
      : arguments(given), arena(memory), chunks(given.K / P::ROWS), stride(static_cast<i64>(gridDim.x) * P::GROUPS),
        group(threadIdx.x / THREADS), thread(threadIdx.x % THREADS), bytes_a(piece(given.A, given.a_col, P::M)),
        bytes_b(P::SAME ? 0 : piece(given.B, given.b_col, P::N)) {
    ahead = static_cast<i64>(group) * gridDim.x + blockIdx.x;
  }
  // Bytes of a copy that every column allows.
  static MANSARD_DEVICE int piece(const T* first, i64 pitch, int columns) {
    const u64 places = reinterpret_cast<u64>(first) | (columns > 1 ? static_cast<u64>(pitch * SIZE) : 0);
    return places % 16 == 0 ? 16 : places % SIZE == 0 ? SIZE : int(sizeof(Word));
  }

  MANSARD_DEVICE unsigned char* stage(int of) const { return typename S::Chunks{arena, chunks}.stage_of(group, of); }

  // Start the copies of the team's next chunk.
  MANSARD_DEVICE void fetch() {
    if (ahead < chunks) {
      fetch_operand<P::M, S::PITCH_A>(stage(slot), arguments.A, arguments.a_col, bytes_a);
      if constexpr (!P::SAME) fetch_operand<P::N, S::PITCH_B>(stage(slot) + S::STAGE_A, arguments.B, arguments.b_col, bytes_b);
    }
    cp_async_commit();
    ahead += stride;
    if (++slot == P::STAGES) slot = 0;
  }
  template <int WIDTH, int PITCH>
  MANSARD_DEVICE void fetch_operand(unsigned char* to, const T* matrix, i64 pitch, int bytes) const {
    const unsigned char* from = reinterpret_cast<const unsigned char*>(matrix + ahead * P::ROWS);
    if (bytes == 16) copy<WIDTH, PITCH, 16>(to, from, pitch * SIZE);
    else if (SIZE < 16 && bytes == SIZE) copy<WIDTH, PITCH, SIZE>(to, from, pitch * SIZE);
    else copy<WIDTH, PITCH, int(sizeof(Word))>(to, from, pitch * SIZE);
  }
  template <int WIDTH, int PITCH, int BYTES>
  MANSARD_DEVICE void copy(unsigned char* to, const unsigned char* from, i64 pitch) const {
    constexpr int PIECES = S::BYTES / BYTES, ALL = WIDTH * PIECES;  // of a column, of a chunk
MANSARD_UNROLL_BY(8)
    for (int i = thread; i < ALL; i += THREADS) {
      const int column = i / PIECES, at = i % PIECES * BYTES;
      cp_async_word<BYTES>(to + column * PITCH + at, from + column * pitch + at);
    }
  }

  // Copy the rows behind the last whole chunk, padded with zeros.
  MANSARD_DEVICE void fill_tail(unsigned char* to) const {
    tail_of<P::M, S::PITCH_A>(to, arguments.A, arguments.a_col);
    if constexpr (!P::SAME) tail_of<P::N, S::PITCH_B>(to + S::STAGE_A, arguments.B, arguments.b_col);
  }
  template <int WIDTH, int PITCH>
  MANSARD_DEVICE void tail_of(unsigned char* to, const T* from, i64 pitch) const {
    const i64 first = chunks * P::ROWS, left = arguments.K - first;
    for (int i = thread; i < P::ROWS * WIDTH; i += THREADS) {
      const int column = i / P::ROWS, row = i % P::ROWS;
      reinterpret_cast<T*>(to + column * PITCH)[row] = row < left ? from[column * pitch + first + row] : T{};
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void gram_entries(const Arguments& arguments) {
  using S = ColumnsRing<P>;
  using Chunks = typename S::Chunks;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  EntriesStream<P, Arguments> stream(arguments, arena);
  ColumnsWarp<P> warp(OnLines<typename P::T>{});
  i64 chunk = stream.ahead;
  for (int i = 0; i < P::STAGES - 1; ++i) stream.fetch();
  int slot = 0;
MANSARD_UNROLL_BY(1)
  for (; chunk < stream.chunks; chunk += stream.stride) {
    cp_async_wait<P::STAGES - 2>();  // this lane's copies to stage `slot` are complete
    Chunks::meet(warp.group);        // stage `slot` holds the team's copies; the one before it was read by all warps
    stream.fetch();
    warp.multiply(stream.stage(slot));
    if (++slot == P::STAGES) slot = 0;
  }
  cp_async_wait<0>();
  if (chunk == stream.chunks && chunk * P::ROWS < arguments.K) {  // one team meets the remaining rows
    Chunks::meet(warp.group);  // stage 0 is about to be overwritten by the tail; all warps of the team have read it
    stream.fill_tail(stream.stage(0));
    Chunks::meet(warp.group);  // stage 0 holds the tail, written by all threads of the team
    warp.multiply(stream.stage(0));
  }

  __syncthreads();  // stages are about to be overwritten by sums; all warps have read theirs
  double* tiles = reinterpret_cast<double*>(arena);
  const int team = warp.group * P::WARPS_K + warp.warp_k;
MANSARD_UNROLL_BY(1)
  for (int first = 0; first < S::TEAMS; first += S::MEETING) {
    if (team >= first && team < first + S::MEETING) warp.add_to(tiles + (team - first) * S::TILE, first > 0);
    __syncthreads();  // tiles of these teams are complete, before the next teams add to them or they are read
  }
  const auto value = [&](int entry) {
    const int m = entry / P::N, n = entry % P::N;
    return mirrored<P>(S::computed(m, n), m, n, [&](int i, int j) {
      return entry_of_tiles<P, S::MEETING, S::BLOCK_M, S::PITCH>(tiles, i, j);
    });
  };
  const auto store = [&](int entry, typename S::Sum sum) {
    store_entry<P>(arguments, entry / P::N, entry % P::N, sum);
  };
  auto* scratch = reinterpret_cast<typename S::Sum*>(arena);  // the tiles are read out before it is used
  reduce_over_blocks<P::REDUCE, typename S::Sum, P::M * P::N, Chunks::THREADS>(
      arguments.partials, arguments.counters, 0, gridDim.x, scratch, value, store);
}

}  // namespace mansard
