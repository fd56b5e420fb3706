// Q = H_0 H_1 ... D of a batch of small matrices, its columns rotated as recorded, sorted and stored: a team of LANES
// lanes of one warp per matrix, rows of Q in registers.
//
//   eigenvectors, left   Z = Q G_1 G_2 ... with columns in the order of the values
//   right                Z = its conjugate transpose, V^H; a negative value makes its row negative
//
// Team. Lane l holds component rows l + r * LANES (reflect.cuh). Every lane applies all rotations to its own rows;
// lanes exchange nothing but, of complex matrices, sums of the two components.
//
// Sweeps are applied two at a time, the second one column behind the first: two independent chains. Rotations are
// unrolled in chunks of four; chunks outside the ranges of both sweeps are skipped.
//
// Shared memory of a team, in real numbers (TeamMemory):
//   image    reflectors, N rows of PITCH_U; then Z, N rows of PITCH_Z
//   ring     STAGES pairs of sweeps, 2 * PADDED rotations each
//   values   1 / h of the reflectors; then the unsorted values
//   places   of the columns (int)
//   ranges   of the sweeps (int)
//
// Phases, with barriers (__syncwarp) as barrier -> buffer -> writer:
//   1  ranges -> ranges -> other lanes
//   2  copies of reflectors and of the first pairs of sweeps -> image, values -> asynchronous copies of other lanes
//   3  reflectors in registers
//   4  per pair of sweeps -> ring -> copies of other lanes; the pair before has been read, its stage is refilled
//   5  values -> values -> other lanes (1 / h have been read);  places -> places -> other lanes
//   6  Z -> image -> other lanes, after all have read the reflectors (4)
//
// Limits: shared memory (a rotation is 16 bytes for 4 operations) and the latency of the chains, 46 % of the FP64 pipe
// at N = 32 (H200).
//
//   LANES  lanes of a team; WARPS  warps per block, which do not communicate
#pragma once
#include "kernels/factor/back_transform/order.cuh"

namespace mansard {

template <class P>
struct TeamMemory {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N, WORDS = Scalar<T>::WORDS, STAGES = 3;
  static constexpr int PADDED = ceil_div(N, 2) * 2, PITCH_U = PADDED * WORDS, PITCH_Z = (N | 1) * WORDS;
  static constexpr int IMAGE = N * (PITCH_U > PITCH_Z ? PITCH_U : PITCH_Z);  // even
  static constexpr int RING = P::CAPACITY > 0 ? STAGES * 4 * PADDED : 0, RANGES = ceil_div(P::CAPACITY, 2) * 2;
  static constexpr int BYTES = ceil_div((IMAGE + RING + PADDED) * int(sizeof(R)) + (PADDED + RANGES) * 4, 16) * 16;

  T* image;
  Rotation<R>* ring;
  R* values;
  int *places, *ranges;

  MANSARD_DEVICE explicit TeamMemory(unsigned char* arena)
      : image(reinterpret_cast<T*>(arena)),
        ring(reinterpret_cast<Rotation<R>*>(arena + IMAGE * sizeof(R))),
        values(reinterpret_cast<R*>(ring) + RING),
        places(reinterpret_cast<int*>(values + PADDED)),
        ranges(places + PADDED) {}
};

template <class P, class Arguments>
struct Team {
  using T = typename P::T;
  using Memory = TeamMemory<P>;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N, LANES = P::LANES, WORDS = Scalar<T>::WORDS, ROWS = ceil_div(N * WORDS, LANES);
  static constexpr int STAGES = Memory::STAGES, PADDED = Memory::PADDED, CHUNK = 4;

  const Arguments& a;
  const Memory memory;
  const int lane;    // of the team
  const i64 matrix;  // the last one where the batch has no more: its team stores nothing
  const int count;   // sweeps
  R q[ROWS][N];

  MANSARD_DEVICE Team(const Arguments& given, unsigned char* arena, int rank, i64 number)
      : a(given), memory(arena), lane(rank), matrix(min(number, given.BATCH - 1)),
        count(P::CAPACITY > 0 ? given.COUNT[matrix] : 0) {}

  MANSARD_DEVICE int row(int r) const { return (lane + r * LANES) / WORDS; }
  MANSARD_DEVICE int component() const { return lane % WORDS; }
  MANSARD_DEVICE R sign() const { return component() == 0 ? R(-1) : R(1); }

  MANSARD_DEVICE void read_ranges() const {
    for (int s = lane; s < count; s += LANES) memory.ranges[s] = a.RANGES[matrix * P::CAPACITY + s];
    __syncwarp();  // ranges are complete, written by the lanes of the team
  }
  // First and last rotation of sweep s; those of a sweep that does not exist are empty.
  MANSARD_DEVICE void range(int s, int& first, int& end) const {
    const int packed = s < count ? memory.ranges[s] : packed_range(N, 0);
    first = range_first(packed);
    end = range_end(packed);
  }
  // Start copies of sweeps 2 pair and 2 pair + 1; rotations outside their ranges become the identity.
  MANSARD_DEVICE void stage_pair(int pair) const {
    const int own = renewed(lane);  // so that addresses are computed here, not kept while columns are rotated
    MANSARD_UNROLL
    for (int which = 0; which < 2; ++which) {
      const int s = 2 * pair + which;
      int first, end;
      range(s, first, end);
      Rotation<R>* to = memory.ring + (pair % STAGES * 2 + which) * PADDED;
      const auto* from = reinterpret_cast<const Rotation<R>*>(
          sweep_records<N, P::CAPACITY>(a.ROTATIONS, matrix, s < count ? s : 0));
      MANSARD_UNROLL
      for (int k = 0; k < ceil_div(PADDED, LANES); ++k) {
        const int i = own + k * LANES;
        const bool present = i >= first && i < end;
        if (i < PADDED) copy_or_zero(to + i, from + (present ? i : 0) * RECORD_STEP, present);
      }
    }
    cp_async_commit();
  }
  MANSARD_DEVICE void form() {
    const Reflectors<P> reflectors(a, matrix);
    constexpr int COUNT = Reflectors<P>::COUNT, PITCH = Memory::PITCH_U / WORDS;
    MANSARD_UNROLL_BY(4)
    for (int k = lane; k < COUNT * PITCH; k += LANES) reflectors.stage(memory.image + k, k / PITCH, k % PITCH);
    MANSARD_UNROLL_BY(1)
    for (int k = lane; k < COUNT; k += LANES) reflectors.stage_inverse(memory.values + k, k);
    cp_async_commit();
    if constexpr (P::CAPACITY > 0) {
      MANSARD_UNROLL_BY(1)
      for (int pair = 0; pair < STAGES - 1; ++pair) stage_pair(pair);
    }
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r) {
      constexpr bool PRODUCT = Reflectors<P>::PRODUCT;
      const R begin = !PRODUCT && row(r) < N ? reflectors.begin(row(r), component()) : R(0);
      MANSARD_UNROLL
      for (int j = 0; j < N; ++j) {
        q[r][j] = row(r) == j ? begin : R(0);
        if constexpr (PRODUCT) q[r][j] = reflectors.factor(a.ROTATIONS + matrix * (N * N), row(r), j, component());
      }
    }
    cp_async_wait<P::CAPACITY != 0 ? STAGES - 1 : 0>();
    if constexpr (WORDS == 2) {
      MANSARD_UNROLL_BY(1)
      for (int k = lane; k < COUNT * PITCH; k += LANES) reflectors.absorb_phase(memory.image + k, k % PITCH);
    }
    __syncwarp();  // image and values have the reflectors, copied by all lanes of the team
    MANSARD_UNROLL_BY(1)
    for (int k = 0; k < COUNT; ++k) {
      const R* u = reinterpret_cast<const R*>(memory.image + k * PITCH);
      reflect<WORDS, 1>(q, u, memory.values[k], sign(), reflectors.in_turn(k) + Reflectors<P>::OFFSET);
    }
    if constexpr (Reflectors<P>::PRODUCT && WORDS == 2) {
      MANSARD_UNROLL
      for (int r = 0; r < ROWS; ++r)
        MANSARD_UNROLL
        for (int j = 0; j < N; ++j) q[r][j] = reflectors.without_phase(q[r][j], j, component(), 1);
    }
  }
  // The rotations of both sweeps of a pair, in chunks that hold one of low .. high - 1.
  MANSARD_DEVICE void rotate_pair(const Rotation<R>* one, const Rotation<R>* other, int low, int high) {
    MANSARD_UNROLL
    for (int c = (N - 1) / CHUNK; c >= 0; --c) {
      if (c * CHUNK + CHUNK > low && c * CHUNK < high) {
        MANSARD_UNROLL
        for (int k = CHUNK - 1; k >= 0; --k) {
          const int i = c * CHUNK + k;
          if (i < N - 1) rotate_columns(one[i], i);
          if (i + 1 < N - 1) rotate_columns(other[i + 1], i + 1);
        }
      }
    }
    if (low < 0 && N > 1) rotate_columns(other[0], 0);
  }
  MANSARD_DEVICE void rotate_columns(Rotation<R> by, int i) {
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r) rotate(q[r][i], q[r][i + 1 < N ? i + 1 : i], by);
  }
  MANSARD_DEVICE void apply() {
    int most = count;
    MANSARD_UNROLL
    for (int lanes = LANES; lanes < 32; lanes *= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, lanes));
    MANSARD_UNROLL_BY(1)
    for (int pair = 0; 2 * pair < most; ++pair) {
      int low, high, other_low, other_high;
      range(2 * pair, low, high);
      range(2 * pair + 1, other_low, other_high);
      low = min(low, other_low - 1);  // the second sweep is a column behind
      high = max(high, other_high - 1);
      MANSARD_UNROLL
      for (int lanes = LANES; lanes < 32; lanes *= 2) {
        low = min(low, __shfl_xor_sync(0xffffffffu, low, lanes));
        high = max(high, __shfl_xor_sync(0xffffffffu, high, lanes));
      }
      cp_async_wait<STAGES - 2>();
      __syncwarp();  // ring has this pair, copied by all lanes, and the pair before has been read by them
      stage_pair(pair + STAGES - 1);
      const Rotation<R>* one = memory.ring + pair % STAGES * 2 * PADDED;
      rotate_pair(one, one + PADDED, low, high);
    }
    cp_async_wait<0>();
  }
  // Rank the values; the result is 0, or NaN in matrices with a value that is not finite.
  MANSARD_DEVICE R order(bool present) const {
    __syncwarp();  // values (1 / h) and image (reflectors) have been read by all lanes
    for (int j = lane; j < N; j += LANES) memory.values[j] = a.D[matrix * N + j];
    __syncwarp();  // values are complete, written by the lanes of the team
    const R scale = a.SCALE != nullptr ? a.SCALE[matrix] : R(1);
    R* W = present && a.W != nullptr ? a.W + matrix * N : nullptr;
    R poison = R(0);
    for (int j = lane; j < N; j += LANES) poison = Order<P, R>{memory.values, memory.places}.place(j, W, scale);
    if constexpr (LANES > N) poison = __shfl_sync(0xffffffffu, poison, 0, LANES);
    return poison;
  }
  MANSARD_DEVICE void store(bool present) const {
    R poison = R(0);
    if constexpr (P::CAPACITY > 0) poison = order(present);
    __syncwarp();  // places are complete, written by the lanes of the team; image has been read
    R* image = reinterpret_cast<R*>(memory.image);
    MANSARD_UNROLL
    for (int j = 0; j < N; ++j) {
      int place = P::CAPACITY > 0 ? memory.places[j] : j;
      const bool negated = (place & NEGATED) != 0;
      place &= NEGATED - 1;
      MANSARD_UNROLL
      for (int r = 0; r < ROWS; ++r) {
        if (row(r) < N) {
          constexpr bool RIGHT = Reflectors<P>::TRANSPOSED;
          const int at = RIGHT ? place * Memory::PITCH_Z + row(r) * WORDS : row(r) * Memory::PITCH_Z + place * WORDS;
          const bool opposite = RIGHT && negated != (component() == 1);  // V^H has conjugate entries
          image[at + component()] = (opposite ? -q[r][j] : q[r][j]) + poison;
        }
      }
    }
    __syncwarp();  // image has Z, written by all lanes of the team
    constexpr int LINE = N * WORDS;
    R* Z = reinterpret_cast<R*>(a.Z + matrix * (N * N));
    if (present)
      for (int k = lane; k < N * LINE; k += LANES) Z[k] = image[k / LINE * Memory::PITCH_Z + k % LINE];
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void back_transform_lanes(const Arguments& a) {
  constexpr int TEAMS = P::WARPS * 32 / P::LANES;
  static_assert(P::SHARED_BYTES >= TEAMS * TeamMemory<P>::BYTES);
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const int number = threadIdx.x / P::LANES;
  const i64 matrix = static_cast<i64>(blockIdx.x) * TEAMS + number;
  if (a.BATCH == 0) return;
  Team<P, Arguments> team(a, arena + number * TeamMemory<P>::BYTES, threadIdx.x % P::LANES, matrix);
  if constexpr (P::CAPACITY > 0) team.read_ranges();
  team.form();
  if constexpr (P::CAPACITY > 0) team.apply();
  team.store(matrix < a.BATCH);
}

}  // namespace mansard
