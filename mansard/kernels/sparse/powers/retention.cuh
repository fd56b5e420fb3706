// Shared memory of a persistent block: slots for tiles of the matrix, each for a group of powers, their barriers, and
// words for waiting. Also the time limit of waits.
#pragma once
#include "kernels/sparse/powers/rows.cuh"
#include "mansard/gpu/async.cuh"

namespace mansard {

// Groups of powers that share a copy of a tile: a tile stays in its slot for (length - 1) LAG + 1 steps.
template <class P>
struct Retention {
  static constexpr bool begins(int k) { return (P::FIRSTS >> (k - 1) & 1) != 0; }
  static constexpr int count() {
    int groups = 0;
    for (int k = 1; k <= P::P; ++k) groups += begins(k);
    return groups;
  }
  static constexpr int GROUPS = count();
  static constexpr int first(int group) {  // power; P + 1 behind the last group
    for (int k = 1; k <= P::P; ++k)
      if (begins(k) && group-- == 0) return k;
    return P::P + 1;
  }
  static constexpr int length(int group) { return first(group + 1) - first(group); }
  static constexpr int needed(int group) { return (length(group) - 1) * P::LAG + 1; }
  static constexpr int all_needed() {
    int sum = 0;
    for (int group = 0; group < GROUPS; ++group) sum += needed(group);
    return sum;
  }
  static constexpr int SPARE = P::SLOTS - all_needed();  // slots for copies ahead, shared evenly by the groups
  static_assert(begins(1) && SPARE >= GROUPS, "slots");
  static constexpr int depth(int group) { return needed(group) + SPARE / GROUPS + (group < SPARE % GROUPS); }
};

// Slots of the tiles of a power: `slots` slots from `first` on, used cyclically by step.
struct alignas(16) Place {
  int first, slots, group;
  u32 inverse;  // 2^32 / slots (two or more), rounded up: exact for steps below 2^32 / slots
  MANSARD_DEVICE int round(int step) const { return static_cast<int>(__umulhi(static_cast<u32>(step), inverse)); }
  MANSARD_DEVICE int slot(int step, int round) const { return first + step - round * slots; }
};

// Map of shared memory:
//   0                 barriers full[SLOTS], empty[SLOTS]   bulk copies arrive; computing warps have finished
//   16 * SLOTS        Place[P]                             written once
//   TO_COEFFICIENTS   alpha, beta, gamma of every power    written once
//   TO_WORDS          issued[GROUPS]                       warp 0: tiles requested
//                     front[P][32]                         warp 1: steps that may read a power
//                     given_up                             any thread
//   HEAD_BYTES        SLOTS * SLOT_BYTES                   tiles, by bulk copies of warp 0
template <class P>
struct Arena {
  using T = typename P::T;
  static constexpr int GROUPS = Retention<P>::GROUPS;
  static constexpr int WORDS = GROUPS + 32 * P::P + 1, TO_COEFFICIENTS = 16 * (P::SLOTS + P::P);
  static constexpr int TO_WORDS = TO_COEFFICIENTS + 3 * P::P * static_cast<int>(sizeof(T));
  static constexpr int HEAD_BYTES = ceil_div(TO_WORDS + 4 * WORDS, 128) * 128;
  static constexpr int BYTES = HEAD_BYTES + P::SLOTS * P::SLOT_BYTES;
  static_assert(BYTES <= P::SHARED_BYTES && P::SLOT_BYTES % 128 == 0, "shared memory");
  unsigned char* memory;

  MANSARD_DEVICE mbarrier* full(int slot) const { return reinterpret_cast<mbarrier*>(memory) + slot; }
  MANSARD_DEVICE mbarrier* empty(int slot) const { return full(P::SLOTS + slot); }
  MANSARD_DEVICE Place& place(int k) const { return reinterpret_cast<Place*>(memory + 16 * P::SLOTS)[k - 1]; }
  MANSARD_DEVICE T* coefficients(int k) const { return reinterpret_cast<T*>(memory + TO_COEFFICIENTS) + 3 * (k - 1); }
  MANSARD_DEVICE int* words() const { return reinterpret_cast<int*>(memory + TO_WORDS); }
  MANSARD_DEVICE int* issued(int group) const { return words() + group; }
  MANSARD_DEVICE int* front(int k, int lane) const {  // steps that may read power k, as far as tile `lane` is concerned
    return words() + GROUPS + 32 * (k - 1) + lane;
  }
  MANSARD_DEVICE int* given_up() const { return words() + WORDS - 1; }
  MANSARD_DEVICE unsigned char* slot(int number) const { return memory + HEAD_BYTES + number * P::SLOT_BYTES; }

  MANSARD_DEVICE void initialise(const T* given) const {  // the coefficients
    if (threadIdx.x == 0) {
      int begin = 0;
      for (int group = 0; group < GROUPS; ++group) {
        const int depth = Retention<P>::depth(group);
        for (int i = 0; i < depth; ++i) {
          mbarrier_init(full(begin + i), 1);
          mbarrier_init(empty(begin + i), Retention<P>::length(group));
        }
        for (int k = Retention<P>::first(group); k < Retention<P>::first(group + 1); ++k)
          place(k) = {begin, depth, group, 0xffffffffu / static_cast<u32>(depth) + 1};
        begin += depth;
      }
      mbarrier_init_fence();
    }
    for (int i = threadIdx.x; i < 3 * P::P; i += blockDim.x) coefficients(1)[i] = given[i];
    for (int i = threadIdx.x; i < WORDS; i += blockDim.x) words()[i] = 0;
    __syncthreads();  // barriers, places, coefficients and words are initialised
  }
};

// Time limit of a thread's waits: after `limit` nanoseconds it gives up for its block and, through a flag, for all
// blocks.
template <class P, class Arguments>
struct Patience {
  const Arguments& arguments;
  int* given_up;
  i64 begin = 0;
  int turns = 0;

  MANSARD_DEVICE u32* word() const { return arguments.FLAGS + P::P * P::BLOCKS; }
  MANSARD_DEVICE bool more() {
    if (peek(given_up)) return false;
    pause();
    if (++turns % 256) return true;
    const i64 now = nanoseconds();
    if (begin == 0) begin = now;
    if (now - begin <= arguments.limit && load_relaxed(word()) == 0) return true;
    post(given_up, 1);
    store_relaxed(word(), 1u);
    store_system(arguments.FAILED, 1u);
    return false;
  }
};

}  // namespace mansard
