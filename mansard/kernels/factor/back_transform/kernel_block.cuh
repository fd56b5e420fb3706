// Q = H_0 H_1 ... D of a batch of matrices, its columns rotated as recorded, sorted and stored, as in kernel_lanes.cuh:
// one or more thread blocks per matrix, rows of Q in registers.
//
// Team. Rows of Q are independent: a block takes ROWS of them, and a matrix PARTS blocks. A component row (reflect.cuh)
// is split over SPLIT lanes, COLUMNS each: thread = (row * WORDS + component) * SPLIT + part of the row.
//
// Sweeps are applied two at a time, the second one column behind the first. Where rows are split, the lanes of a row
// form a systolic array: the lane of the last columns is a pair of sweeps ahead of the one before it, and so on. At the
// end of a slot neighbours exchange their border columns, twice: rotation SEAM of the first sweep, then, after one more
// rotation on either side, that of the second.
//
// Shared memory, in real numbers (BlockMemory):
//   reflectors   2 buffers of AT_ONCE reflectors, SPLIT * COLUMNS entries each, and of 1 / h; used in turn
//   ring         GROUPS groups of GROUP sweeps. The lanes of a row read different columns of the same sweep: a record
//                of padding per lane keeps them in different banks
//   image        (over both) AT_ONCE_Z rows of Z
//   values, places, ranges   unsorted values; places of the columns; ranges of the sweeps
//
// Phases, with barriers (__syncthreads) as barrier -> buffer -> writer:
//   1  ranges -> ranges -> other threads;  copies of the first reflectors and sweeps
//   2  per AT_ONCE reflectors -> this buffer -> copies of other threads; the other buffer has been read
//   3  per group of sweeps -> ring -> copies of other threads;  after its first pair -> the oldest group has been read
//   4  values -> values -> other threads;  places -> places -> other threads
//   5  per AT_ONCE_Z rows -> image -> the threads of these rows;  and again before they are overwritten
//
// Limits: latency of the chains with 8 to 16 warps per multiprocessor, 36 to 38 % of the FP64 pipe (H200).
//
//   SPLIT  lanes per component row; WARPS  per block
#pragma once
#include "kernels/factor/back_transform/stored_rows.cuh"

namespace mansard {

template <class P>
struct BlockMemory {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N, WORDS = Scalar<T>::WORDS, SPLIT = P::SPLIT, THREADS = 32 * P::WARPS;
  static constexpr int COLUMNS = SPLIT == 1 ? N : ceil_div(N, 2 * SPLIT) * 2;
  static constexpr int ROWS = THREADS / (SPLIT * WORDS), PARTS = ceil_div(N, ROWS);
  static constexpr int AT_ONCE = 4, PITCH_U = ceil_div(SPLIT * COLUMNS, 2) * 2;  // in elements
  static constexpr int GROUP = 4, GROUPS = SPLIT > 2 ? 3 : 2, SWEEPS = GROUP * GROUPS;
  static constexpr int SKEW = SPLIT > 1 ? 1 : 0, PITCH_S = (COLUMNS + SKEW) * SPLIT;  // in rotations
  static constexpr int AT_ONCE_Z = 16 / WORDS, PITCH_Z = (N | 1) * WORDS;
  static constexpr int BUFFER = AT_ONCE * (PITCH_U * WORDS + 1);
  static constexpr int STAGED = 2 * BUFFER + (P::CAPACITY > 0 ? 2 * SWEEPS * PITCH_S : 0);
  static constexpr int IMAGE = Reflectors<P>::TRANSPOSED ? 0 : AT_ONCE_Z * PITCH_Z, PADDED = ceil_div(N, 4) * 4;
  static constexpr int HEAD = ceil_div(STAGED > IMAGE ? STAGED : IMAGE, 4) * 4;
  static constexpr int BYTES = (HEAD + PADDED) * int(sizeof(R)) + (PADDED + P::CAPACITY) * 4;
  static_assert(BUFFER % 4 == 0, "buffers and ring begin on 16-byte boundaries");
};

template <class P, class Arguments>
struct RowBlock : StoredRows<RowBlock<P, Arguments>, P, BlockMemory<P>> {
  using Memory = BlockMemory<P>;
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N, WORDS = Memory::WORDS, SPLIT = P::SPLIT, COLUMNS = Memory::COLUMNS, CHUNK = 8;
  static constexpr int THREADS = Memory::THREADS, LAST = SPLIT - 1;

  const Arguments& a;
  R* const arena;
  const int count;  // sweeps
  R q[1][COLUMNS];

  MANSARD_DEVICE RowBlock(const Arguments& given, R* shared)
      : a(given), arena(shared), count(P::CAPACITY > 0 ? given.COUNT[matrix()] : 0) {}

  // Computed where they are needed: no registers are left to keep them.
  MANSARD_DEVICE i64 matrix() const { return blockIdx.x / Memory::PARTS; }
  MANSARD_DEVICE int first_row() const { return blockIdx.x % Memory::PARTS * Memory::ROWS; }  // of the block
  MANSARD_DEVICE int row() const { return first_row() + threadIdx.x / (SPLIT * WORDS); }      // of Q
  MANSARD_DEVICE int part() const { return threadIdx.x % SPLIT; }  // of the row: columns part * COLUMNS on
  MANSARD_DEVICE int column(int j) const { return part() * COLUMNS + j; }
  MANSARD_DEVICE R entry(int j) const { return q[0][j]; }
  MANSARD_DEVICE int component() const { return threadIdx.x / SPLIT % WORDS; }
  MANSARD_DEVICE T* reflectors(int buffer) const { return reinterpret_cast<T*>(arena + buffer * Memory::BUFFER); }
  MANSARD_DEVICE R* inverses(int buffer) const {
    return arena + buffer * Memory::BUFFER + Memory::AT_ONCE * Memory::PITCH_U * WORDS;
  }
  // Rotations of sweep s, in its place of the ring; s may be before the first one.
  MANSARD_DEVICE Rotation<R>* sweep(int s) const {
    return reinterpret_cast<Rotation<R>*>(arena + 2 * Memory::BUFFER) +
           (s + Memory::SWEEPS) % Memory::SWEEPS * Memory::PITCH_S;
  }
  MANSARD_DEVICE R* values() const { return arena + Memory::HEAD; }
  MANSARD_DEVICE int* places() const { return reinterpret_cast<int*>(values() + Memory::PADDED); }
  MANSARD_DEVICE int* ranges() const { return places() + Memory::PADDED; }

  // First and last rotation of sweep s; those of a sweep that does not exist are empty.
  MANSARD_DEVICE void range(int s, int& first, int& end) const {
    const int packed = s >= 0 && s < count ? ranges()[s] : packed_range(N, 0);
    first = range_first(packed);
    end = range_end(packed);
  }
  MANSARD_DEVICE void stage_group(int group) const {
    const int thread = renewed(threadIdx.x);  // so that addresses are computed here, not kept through a slot
    renew(group);
    MANSARD_UNROLL
    for (int k = 0; k < Memory::GROUP; ++k) {
      const int s = group * Memory::GROUP + k;
      int first, end;
      range(s, first, end);
      Rotation<R>* to = sweep(s);
      const auto* from = reinterpret_cast<const Rotation<R>*>(
          sweep_records<N, P::CAPACITY>(a.ROTATIONS, matrix(), s < count ? s : 0));
      MANSARD_UNROLL
      for (int turn = 0; turn < ceil_div(SPLIT * COLUMNS, THREADS); ++turn) {
        const int i = thread + turn * THREADS;
        const bool present = i >= first && i < end;
        if (i < SPLIT * COLUMNS)
          copy_or_zero(to + i + i / COLUMNS * Memory::SKEW, from + (present ? i : 0) * RECORD_STEP, present);
      }
    }
    cp_async_commit();
  }
  // Prepare the ring: ranges, zeros in the place of sweeps before the first, copies of the first group.
  MANSARD_DEVICE void open_ring() const {
    for (int s = threadIdx.x; s < count; s += THREADS) ranges()[s] = a.RANGES[matrix() * P::CAPACITY + s];
    if constexpr (SPLIT > 1) {
      Rotation<R>* ring = sweep(0);
      for (int i = threadIdx.x; i < Memory::SWEEPS * Memory::PITCH_S; i += THREADS) ring[i] = {R(0), R(0)};
    }
    __syncthreads();  // ranges and zeros are complete, written by all threads
    stage_group(0);
  }
  MANSARD_DEVICE Reflectors<P> stored() const { return Reflectors<P>(a, matrix()); }
  MANSARD_DEVICE void stage_reflectors(int buffer, int k) const {
    const Reflectors<P> all = stored();
    constexpr int PITCH = Memory::PITCH_U;
    const int thread = renewed(threadIdx.x);
    MANSARD_UNROLL
    for (int turn = 0; turn < ceil_div(Memory::AT_ONCE * PITCH, THREADS); ++turn) {
      const int i = thread + turn * THREADS;
      if (i < Memory::AT_ONCE * PITCH) all.stage(reflectors(buffer) + i, k + i / PITCH, i % PITCH);
    }
    if (threadIdx.x < Memory::AT_ONCE) all.stage_inverse(inverses(buffer) + threadIdx.x, k + threadIdx.x);
    cp_async_commit();
  }
  // Rows of D, or of a product those of X^T.
  MANSARD_DEVICE void begin() {
    const R own = !Reflectors<P>::PRODUCT && row() < N ? stored().begin(row(), component()) : R(0);
    MANSARD_UNROLL
    for (int j = 0; j < COLUMNS; ++j) {
      const int column = part() * COLUMNS + j;
      q[0][j] = column == row() ? own : R(0);
      if constexpr (Reflectors<P>::PRODUCT)
        q[0][j] = Reflectors<P>::factor(a.ROTATIONS + matrix() * (N * N), row(), column, component());
    }
  }
  MANSARD_DEVICE void form() {
    constexpr int PITCH = Memory::PITCH_U, COUNT = Reflectors<P>::COUNT;
    stage_reflectors(0, 0);
    const R sign = component() == 0 ? R(-1) : R(1);
    begin();
    MANSARD_UNROLL_BY(1)
    for (int k = 0; k < COUNT; k += Memory::AT_ONCE) {
      const int buffer = k / Memory::AT_ONCE % 2;
      cp_async_wait<0>();
      if constexpr (WORDS == 2) {
        MANSARD_UNROLL_BY(1)
        for (int i = renewed(threadIdx.x); i < Memory::AT_ONCE * PITCH; i += THREADS)
          stored().absorb_phase(reflectors(buffer) + i, i % PITCH);
      }
      __syncthreads();  // this buffer is complete, copied by all threads; the other one has been read by them
      stage_reflectors(buffer ^ 1, k + Memory::AT_ONCE);
      MANSARD_UNROLL_BY(1)
      for (int t = 0; t < Memory::AT_ONCE && k + t < COUNT; ++t) {
        const R* u = reinterpret_cast<const R*>(reflectors(buffer) + t * PITCH + part() * COLUMNS);
        const int first = Reflectors<P>::in_turn(k + t) + Reflectors<P>::OFFSET - LAST * COLUMNS;
        reflect<WORDS, SPLIT>(q, u, inverses(buffer)[t], sign, first);
      }
    }
    cp_async_wait<0>();
    if constexpr (Reflectors<P>::PRODUCT && WORDS == 2) {
      MANSARD_UNROLL
      for (int j = 0; j < COLUMNS; ++j)
        q[0][j] = stored().without_phase(q[0][j], part() * COLUMNS + j, component(), SPLIT);
    }
  }

  MANSARD_DEVICE void rotate_columns(Rotation<R> by, int i) {
    rotate(q[0][i], q[0][i + 1 < COLUMNS ? i + 1 : i], by);
  }
  // The rotations of a pair of sweeps inside this lane's columns, in chunks that hold one of low .. high - 1. The last
  // rotation of the first sweep was applied with the seam above, and the first one of the second sweep belongs to the
  // seam below, where there are such.
  MANSARD_DEVICE void rotate_pair(const Rotation<R>* one, const Rotation<R>* other, int low, int high) {
    MANSARD_UNROLL
    for (int c = (COLUMNS - 1) / CHUNK; c >= 0; --c) {
      if (c * CHUNK + CHUNK > low && c * CHUNK < high) {
        MANSARD_UNROLL
        for (int k = CHUNK - 1; k >= 0; --k) {
          const int i = c * CHUNK + k;
          if (i < COLUMNS - 1) {
            Rotation<R> by = one[i];
            if (SPLIT > 1 && i == COLUMNS - 2 && part() < LAST) by = {R(0), R(0)};
            rotate_columns(by, i);
          }
          if (i + 1 < COLUMNS - 1) rotate_columns(other[i + 1], i + 1);
        }
      }
    }
    if (SPLIT > 1 || low < 0) {
      Rotation<R> by = other[0];
      if (SPLIT > 1 && part() > 0) by = {R(0), R(0)};
      rotate_columns(by, 0);
    }
  }
  // The two rotations across each seam between lanes of a row, and those that lie between them. The lane above a seam
  // has the pair `one`, `other`; the lane below takes the pair `next_one`, `next_other` in its next slot.
  MANSARD_DEVICE void rotate_seams(const Rotation<R>* one, const Rotation<R>* other, const Rotation<R>* next_one,
                                   const Rotation<R>* next_other) {
    constexpr Rotation<R> IDENTITY{R(0), R(0)};
    constexpr int TOP = COLUMNS - 1, BELOW = -1 - Memory::SKEW;  // the record before this lane's first
    MANSARD_UNROLL
    for (int which = 0; which < 2; ++which) {
      const R above = __shfl_down_sync(0xffffffffu, q[0][0], 1), below = __shfl_up_sync(0xffffffffu, q[0][TOP], 1);
      const Rotation<R> low_seam = part() > 0 ? (which ? other : one)[BELOW] : IDENTITY;
      const Rotation<R> high_seam = part() < LAST ? (which ? next_other : next_one)[TOP] : IDENTITY;
      R x = below, y = q[0][0];
      rotate(x, y, low_seam);
      R v = q[0][TOP], w = above;
      rotate(v, w, high_seam);
      q[0][0] = y;
      q[0][TOP] = v;
      if (which == 0) {
        rotate_columns(part() > 0 ? other[0] : IDENTITY, 0);
        rotate_columns(part() < LAST ? next_one[TOP - 1] : IDENTITY, TOP - 1);
      }
    }
  }
  // Slot of a pair of sweeps: the last lane of a row takes sweeps s and s + 1, each lane before it two earlier ones.
  MANSARD_DEVICE void slot(int s) {
    int low = N, high = -N;
    MANSARD_UNROLL
    for (int lane = 0; lane < SPLIT; ++lane) {  // the same bounds for all lanes: of all pairs in the slot
      int first, end, other_first, other_end;
      range(s - 2 * (LAST - lane), first, end);
      range(s - 2 * (LAST - lane) + 1, other_first, other_end);
      low = min(low, min(first, other_first - 1) - lane * COLUMNS);
      high = max(high, max(end, other_end - 1) - lane * COLUMNS);
    }
    const int own = s - 2 * (LAST - part()), offset = part() * (COLUMNS + Memory::SKEW);
    const Rotation<R>*one = sweep(own) + offset, *other = sweep(own + 1) + offset;
    rotate_pair(one, other, low, high);
    if constexpr (SPLIT > 1) rotate_seams(one, other, sweep(own + 2) + offset, sweep(own + 3) + offset);
  }
  MANSARD_DEVICE void apply() {
    cp_async_wait<0>();
    __syncthreads();  // ring has the first group, copied by all threads
    MANSARD_UNROLL_BY(1)
    for (int group = 0; group * Memory::GROUP < 2 * (ceil_div(count, 2) + LAST); ++group) {
      MANSARD_UNROLL_BY(1)
      for (int k = 0; k < Memory::GROUP; k += 2) {
        slot(group * Memory::GROUP + k);
        if (k == 0) {
          __syncthreads();  // the oldest group of the ring has been read by all threads
          stage_group(group + 1);
        }
      }
      cp_async_wait<0>();
      __syncthreads();  // ring has the next group, copied by all threads
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void back_transform_block(const Arguments& a) {
  using R = typename Scalar<typename P::T>::Real;
  static_assert(P::SHARED_BYTES >= BlockMemory<P>::BYTES);
  static_assert(BlockMemory<P>::COLUMNS >= 4, "a lane's first and last two columns are different ones");
  MANSARD_SHARED_ARENA(R, arena);
  if (a.BATCH == 0) return;
  RowBlock<P, Arguments> rows(a, arena);
  if constexpr (P::CAPACITY > 0) rows.open_ring();
  rows.form();
  if constexpr (P::CAPACITY > 0) rows.apply();
  rows.store();
}

}  // namespace mansard
