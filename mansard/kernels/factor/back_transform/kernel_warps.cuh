// Q = H_0 H_1 ... D of a batch of matrices, its columns rotated as recorded, sorted and stored, as in kernel_block.cuh;
// here the warps of a block share rows of Q: long rows, of which a warp has COLUMNS columns.
//
// Team. A block takes 32 component rows (reflect.cuh), one per lane, and warp w their columns from w * COLUMNS on. All
// lanes of a warp read the same record at once, and a warp whose columns a sweep does not reach has nothing to do: of
// lanes that share a row most would wait, as sweeps become shorter.
//
// The warps form a systolic array: the one with the last columns takes sweeps s and s + 1, each one before it the pair
// before that. At the end of a slot neighbours exchange their border columns, twice: the rotation across the seam of
// the first sweep, then, after one more rotation on either side, that of the second.
//
// Shared memory, in real numbers (WarpsMemory):
//   reflectors   2 buffers of AT_ONCE reflectors and of 1 / h; used in turn
//   ring         2 groups of GROUP sweeps
//   image        (over both) AT_ONCE_Z rows of Z
//   borders      2 x WARPS x 2 x 32: first and last columns, of the first and of the second exchange. While Q is formed:
//                parts of the products of rows with a reflector, of even and of odd ones
//   values, places, ranges   unsorted values; places of the columns; ranges of the sweeps
//
// Phases, with barriers (__syncthreads) as barrier -> buffer -> writer:
//   1  ranges -> ranges -> other threads;  copies of the first reflectors and sweeps
//   2  per AT_ONCE reflectors -> this buffer -> copies of other threads; the other buffer has been read
//      per reflector -> borders -> other warps; those of the reflector before have been read
//   3  per slot, twice -> borders -> other warps;  the second one of a group's first slot: the oldest group has been
//      read;  the second one of its last slot -> ring -> copies of other threads
//   4  values -> values -> other threads;  places -> places -> other threads
//   5  per AT_ONCE_Z rows -> image -> the threads of these rows;  and again before they are overwritten
//
// Limits: barriers, and the number of warps whose columns sweeps still reach.
//
//   WARPS  per block, which share rows
#pragma once
#include "kernels/factor/back_transform/stored_rows.cuh"

namespace mansard {

template <class P>
struct WarpsMemory {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N, WORDS = Scalar<T>::WORDS, WARPS = P::WARPS, THREADS = 32 * WARPS;
  static constexpr int COLUMNS = ceil_div(N, 2 * WARPS) * 2, WIDTH = WARPS * COLUMNS;
  static constexpr int ROWS = 32 / WORDS, PARTS = ceil_div(N, ROWS);  // rows of a block; blocks of a matrix
  static constexpr int AT_ONCE = 4, GROUP = 4, SWEEPS = 2 * GROUP;
  static constexpr int BEFORE = ceil_div(2 * WARPS, SWEEPS) * SWEEPS;  // sweeps before the first, that a slot may name
  static constexpr int AT_ONCE_Z = 16 / WORDS, PITCH_Z = (N | 1) * WORDS;
  static constexpr int BUFFER = AT_ONCE * (WIDTH * WORDS + 1);
  static constexpr int STAGED = 2 * BUFFER + (P::CAPACITY > 0 ? 2 * SWEEPS * WIDTH : 0);
  static constexpr int IMAGE = P::SIDE == Side::right ? 0 : AT_ONCE_Z * PITCH_Z, PADDED = ceil_div(N, 4) * 4;
  static constexpr int HEAD = ceil_div(STAGED > IMAGE ? STAGED : IMAGE, 4) * 4, BORDERS = 4 * THREADS;
  static constexpr int BYTES = (HEAD + BORDERS + PADDED) * int(sizeof(R)) + (PADDED + P::CAPACITY) * 4;
  static_assert(BUFFER % 4 == 0, "buffers and ring begin on 16-byte boundaries");
};

template <class P, class Arguments>
struct SharedRows : StoredRows<SharedRows<P, Arguments>, P, WarpsMemory<P>> {
  using Memory = WarpsMemory<P>;
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N, WORDS = Memory::WORDS, COLUMNS = Memory::COLUMNS, CHUNK = 8;
  static constexpr int THREADS = Memory::THREADS, WARPS = P::WARPS, LAST = WARPS - 1, TOP = COLUMNS - 1;
  static constexpr int STEP = 3 - WORDS;  // columns per pair of numbers of a reflector

  const Arguments& a;
  R* const arena;
  const int count;  // sweeps
  const int lane = threadIdx.x % 32, part = threadIdx.x / 32;
  R q[COLUMNS];

  MANSARD_DEVICE SharedRows(const Arguments& given, R* shared)
      : a(given), arena(shared), count(P::CAPACITY > 0 ? given.COUNT[matrix()] : 0) {}

  MANSARD_DEVICE i64 matrix() const { return blockIdx.x / Memory::PARTS; }
  MANSARD_DEVICE int first_row() const { return blockIdx.x % Memory::PARTS * Memory::ROWS; }  // of the block
  MANSARD_DEVICE int row() const { return first_row() + lane / WORDS; }                       // of Q
  MANSARD_DEVICE int column(int j) const { return part * COLUMNS + j; }
  MANSARD_DEVICE R entry(int j) const { return q[j]; }
  MANSARD_DEVICE int component() const { return lane % WORDS; }
  MANSARD_DEVICE T* reflectors(int buffer) const { return reinterpret_cast<T*>(arena + buffer * Memory::BUFFER); }
  MANSARD_DEVICE R* inverses(int buffer) const {
    return arena + buffer * Memory::BUFFER + Memory::AT_ONCE * Memory::WIDTH * WORDS;
  }
  // Rotations of sweep s, in its place of the ring; s may be before the first one.
  MANSARD_DEVICE Rotation<R>* sweep(int s) const {
    return reinterpret_cast<Rotation<R>*>(arena + 2 * Memory::BUFFER) +
           (s + Memory::BEFORE) % Memory::SWEEPS * Memory::WIDTH;
  }
  // Numbers of the lanes of warp `of`: its first (UPPER: last) columns, in the exchange `which`.
  template <bool UPPER>
  MANSARD_DEVICE R* border(int which, int of) const {
    return arena + Memory::HEAD + (which * WARPS + of) * 64 + (UPPER ? 32 : 0) + lane;
  }
  MANSARD_DEVICE R* values() const { return arena + Memory::HEAD + Memory::BORDERS; }
  MANSARD_DEVICE int* places() const { return reinterpret_cast<int*>(values() + Memory::PADDED); }
  MANSARD_DEVICE int* ranges() const { return places() + Memory::PADDED; }

  // ---- Q from its reflectors ----

  MANSARD_DEVICE Reflectors<P> stored() const { return Reflectors<P>(a, matrix()); }
  MANSARD_DEVICE void stage_reflectors(int buffer, int k) const {
    const Reflectors<P> all = stored();
    constexpr int WIDTH = Memory::WIDTH;
    MANSARD_UNROLL_BY(1)
    for (int i = threadIdx.x; i < Memory::AT_ONCE * WIDTH; i += THREADS)
      all.stage(reflectors(buffer) + i, k + i / WIDTH, i % WIDTH);
    if (threadIdx.x < Memory::AT_ONCE) all.stage_inverse(inverses(buffer) + threadIdx.x, k + threadIdx.x);
    cp_async_commit();
  }
  // Calls visit(j, pair) for the columns of this warp in chunks that reach to column `first` of it or beyond, with the
  // numbers of a reflector.
  template <class Visit>
  MANSARD_DEVICE void live_columns(const R* u, int first, Visit visit) {
    MANSARD_UNROLL
    for (int c = 0; c < ceil_div(COLUMNS, CHUNK); ++c)
      if (c * CHUNK + CHUNK > first)
        MANSARD_UNROLL
        for (int j = c * CHUNK; j < (c + 1) * CHUNK && j < COLUMNS; j += STEP)
          visit(j, *reinterpret_cast<const Pair<R>*>(u + j * WORDS));
  }
  // q <- q H, with reflector k that begins at column `begin`.
  MANSARD_DEVICE void reflect_rows(int k, const R* u, R inverse, int begin) {
    const int first = begin - part * COLUMNS;
    R x = R(0), y = R(0);
    live_columns(u, first, [&](int j, const Pair<R>& p) {
      x = fma(q[j], p.x, x);
      y = fma(q[WORDS == 2 ? j : j + 1], p.y, y);
    });
    *border<false>(k % 2, part) = WORDS == 2 ? x : x + y;
    if constexpr (WORDS == 2) *border<true>(k % 2, part) = y;
    __syncthreads();  // borders have the products of all warps; those of reflector k - 1 have been read
    x = y = R(0);
    MANSARD_UNROLL
    for (int of = 0; of < WARPS; ++of) {
      x += *border<false>(k % 2, of);
      if constexpr (WORDS == 2) y += *border<true>(k % 2, of);
    }
    if constexpr (WORDS == 2) {
      const R other_x = __shfl_xor_sync(0xffffffffu, x, 1), other_y = __shfl_xor_sync(0xffffffffu, y, 1);
      const R sign = component() == 0 ? R(-1) : R(1);
      x = fma(sign, other_y, x);
      y = -fma(-sign, other_x, y) * inverse;
    }
    x *= -inverse;
    live_columns(u, first, [&](int j, const Pair<R>& p) {
      q[j] = fma(x, p.x, q[j]);
      R& next = q[WORDS == 2 ? j : j + 1];
      next = fma(WORDS == 2 ? y : x, p.y, next);
    });
  }
  MANSARD_DEVICE void form() {
    constexpr int WIDTH = Memory::WIDTH, COUNT = Reflectors<P>::COUNT;
    stage_reflectors(0, 0);
    const R begin = row() < N ? stored().begin(row(), component()) : R(0);
    MANSARD_UNROLL
    for (int j = 0; j < COLUMNS; ++j) q[j] = part * COLUMNS + j == row() ? begin : R(0);
    MANSARD_UNROLL_BY(1)
    for (int k = 0; k < COUNT; k += Memory::AT_ONCE) {
      const int buffer = k / Memory::AT_ONCE % 2;
      cp_async_wait<0>();
      if constexpr (WORDS == 2) {
        MANSARD_UNROLL_BY(1)
        for (int i = threadIdx.x; i < Memory::AT_ONCE * WIDTH; i += THREADS)
          stored().absorb_phase(reflectors(buffer) + i, i % WIDTH);
      }
      __syncthreads();  // this buffer is complete, copied by all threads; the other one has been read by them
      stage_reflectors(buffer ^ 1, k + Memory::AT_ONCE);
      MANSARD_UNROLL_BY(1)
      for (int t = 0; t < Memory::AT_ONCE && k + t < COUNT; ++t) {
        const R* u = reinterpret_cast<const R*>(reflectors(buffer) + t * WIDTH + part * COLUMNS);
        reflect_rows(k + t, u, inverses(buffer)[t], k + t + Reflectors<P>::OFFSET);
      }
    }
    cp_async_wait<0>();
  }

  // ---- rotations ----

  // First and last rotation of sweep s; those of a sweep that does not exist are empty.
  MANSARD_DEVICE void range(int s, int& first, int& end) const {
    const int packed = s >= 0 && s < count ? ranges()[s] : packed_range(N, 0);
    first = range_first(packed);
    end = range_end(packed);
  }
  // Copy the sweeps of a group. Records of a warp's columns come later than those of the last two warps: a warp takes
  // the pair that the next one took a slot before, and looks one pair ahead across the seam.
  MANSARD_DEVICE void stage_group(int group) const {
    MANSARD_UNROLL_BY(1)
    for (int at = threadIdx.x; at < Memory::GROUP * Memory::WIDTH; at += THREADS) {
      const int i = at % Memory::WIDTH;
      const int s = group * Memory::GROUP + at / Memory::WIDTH - 2 * max(0, LAST - 1 - i / COLUMNS);
      int first, end;
      range(s, first, end);
      const bool present = i >= first && i < end;
      const auto* from = reinterpret_cast<const Rotation<R>*>(
          sweep_records<N, P::CAPACITY>(a.ROTATIONS, matrix(), present ? s : 0));
      copy_or_zero(sweep(s) + i, from + (present ? i : 0) * RECORD_STEP, present);
    }
    cp_async_commit();
  }
  // Prepare the ring: ranges, zeros in the place of sweeps before the first, copies of the first group.
  MANSARD_DEVICE void open_ring() const {
    for (int s = threadIdx.x; s < count; s += THREADS) ranges()[s] = a.RANGES[matrix() * P::CAPACITY + s];
    Rotation<R>* ring = sweep(0);
    for (int i = threadIdx.x; i < Memory::SWEEPS * Memory::WIDTH; i += THREADS) ring[i] = {R(0), R(0)};
    __syncthreads();  // ranges and zeros are complete, written by all threads
    stage_group(0);
  }
  // The rotations of a pair of sweeps inside this warp's columns, in chunks that hold one of low .. high - 1. The last
  // rotation of the first sweep was applied with the seam above, and the first one of the second sweep belongs to the
  // seam below, where there are such.
  MANSARD_DEVICE void rotate_pair(const Rotation<R>* one, const Rotation<R>* other, int low, int high) {
    MANSARD_UNROLL
    for (int c = (COLUMNS - 1) / CHUNK; c >= 0; --c) {
      if (c * CHUNK + CHUNK > low && c * CHUNK < high) {
        MANSARD_UNROLL
        for (int k = CHUNK - 1; k >= 0; --k) {
          const int i = c * CHUNK + k;
          if (i < TOP && (i < TOP - 1 || part == LAST)) rotate(q[i], q[i + 1 < COLUMNS ? i + 1 : i], one[i]);
          if (i + 1 < TOP) rotate(q[i + 1], q[i + 2 < COLUMNS ? i + 2 : i], other[i + 1]);
        }
      }
    }
    if (part == 0) rotate(q[0], q[1], other[0]);
  }
  MANSARD_DEVICE void exchange(int which) const {
    *border<false>(which, part) = q[0];
    *border<true>(which, part) = q[TOP];
    __syncthreads();  // borders are complete, written by all threads; those of the exchange before have been read
  }
  // Rotate the border columns of this warp with those of its neighbours, across both seams.
  MANSARD_DEVICE void rotate_borders(int which, Rotation<R> low_seam, Rotation<R> high_seam) {
    if (part > 0) {
      R below = *border<true>(which, part - 1);
      rotate(below, q[0], low_seam);
    }
    if (part < LAST) {
      R above = *border<false>(which, part + 1);
      rotate(q[TOP], above, high_seam);
    }
  }
  // Slot of a pair of sweeps: the last warp takes sweeps s and s + 1, each warp before it two earlier ones. `stages`: a
  // group is copied in this slot; otherwise one has been, in the slot before, and is complete after this one.
  MANSARD_DEVICE void slot(int s, bool stages) {
    constexpr Rotation<R> IDENTITY{R(0), R(0)};
    const int own = s - 2 * (LAST - part), begin = part * COLUMNS;
    int first, end, other_first, other_end;
    range(own, first, end);
    range(own + 1, other_first, other_end);
    const Rotation<R>*one = sweep(own) + begin, *other = sweep(own + 1) + begin;
    const Rotation<R>*next_one = sweep(own + 2) + begin, *next_other = sweep(own + 3) + begin;
    rotate_pair(one, other, min(first, other_first - 1) - begin, max(end, other_end - 1) - begin);
    exchange(0);
    rotate_borders(0, part > 0 ? one[-1] : IDENTITY, part < LAST ? next_one[TOP] : IDENTITY);
    if (part > 0) rotate(q[0], q[1], other[0]);
    if (part < LAST) rotate(q[TOP - 1], q[TOP], next_one[TOP - 1]);
    const Rotation<R> low_seam = part > 0 ? other[-1] : IDENTITY, high_seam = part < LAST ? next_other[TOP] : IDENTITY;
    if (!stages) cp_async_wait<0>();
    exchange(1);  // the oldest group has been read; or the next one is complete, copied by all threads
    if (stages) stage_group(s / Memory::GROUP + 1);
    rotate_borders(1, low_seam, high_seam);
  }
  MANSARD_DEVICE void apply() {
    cp_async_wait<0>();
    __syncthreads();  // ring has the first group, copied by all threads; borders have been read
    MANSARD_UNROLL_BY(1)
    for (int s = 0; s < 2 * (ceil_div(count, 2) + LAST); s += 2) slot(s, s % Memory::GROUP == 0);
    cp_async_wait<0>();
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void back_transform_warps(const Arguments& a) {
  using R = typename Scalar<typename P::T>::Real;
  static_assert(P::SHARED_BYTES >= WarpsMemory<P>::BYTES);
  static_assert(WarpsMemory<P>::COLUMNS >= 4, "a warp's first and last two columns are different ones");
  MANSARD_SHARED_ARENA(R, arena);
  if (a.BATCH == 0) return;
  SharedRows<P, Arguments> rows(a, arena);
  if constexpr (P::CAPACITY > 0) rows.open_ring();
  rows.form();
  if constexpr (P::CAPACITY > 0) rows.apply();
  rows.store();
}

}  // namespace mansard
