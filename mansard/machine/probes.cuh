// The kernels behind a GPU's measured ceilings. Each does one thing as fast as the hardware allows, and leaves a
// result that is right only if all of the work was done.
//
//   read, read_ring     sums x: 16-byte loads into registers, or bulk copies into rings of shared memory
//   copy, copy_ring     y = x, or y = a x with SCALE: the same two ways
//   triad               y = x + a x', the two halves of x
//   cache               every block sums its own part of x again and again, past the L1 cache
//   fma, tensor         chains of multiply-adds in registers
//   barrier, chase      grid barriers, one after the other; loads whose address is the previous load's value
//   empty, step         nothing, and next to nothing: the cost of launching
//   fill, link          operands: random numbers, and a random cycle of places
//
// All of them share one `Arguments`: x, y, result, partials, counters, count, repeats, a, b. `count` is in doubles.
#pragma once
#include "mansard/gpu/async.cuh"
#include "mansard/gpu/mma.cuh"
#include "mansard/gpu/reduce.cuh"
#include "mansard/gpu/warpgroup.cuh"

namespace mansard {

// --- Operands ------------------------------------------------------------------------------------------------

// Random bits from a place: multiply, fold, multiply, fold.
MANSARD_DEVICE u64 scatter(u64 place) {
  u64 bits = (place + 1) * 0x9E3779B97F4A7C15ull;
  bits = (bits ^ (bits >> 29)) * 0xD6E8FEB86659FD93ull;
  return bits ^ (bits >> 32);
}

// A double in [0.5, 1.5) with all 52 bits of its fraction random: what memory carries should look like data.
MANSARD_DEVICE double random_number(u64 place) {
  return 0.5 + static_cast<double>(scatter(place) >> 12) * (1.0 / 4503599627370496.0);
}

// The sum of all threads' values, in thread 0. Needs one double of shared memory per warp.
template <int BLOCK>
MANSARD_DEVICE double block_sum(double value, double* shared) {
  MANSARD_UNROLL
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(~0u, value, distance);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  double sum = 0;
  if (threadIdx.x == 0)
    for (int warp = 0; warp < BLOCK / 32; ++warp) sum += shared[warp];
  return sum;
}

// y becomes random numbers; every block leaves the sum of its own in `result`.
template <class P, class Arguments>
MANSARD_DEVICE void probe_fill(const Arguments& arguments) {
  MANSARD_SHARED_ARENA(double, shared);
  const i64 stride = static_cast<i64>(gridDim.x) * P::BLOCK;
  double sum = 0;
  for (i64 i = static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x; i < arguments.count; i += stride) {
    const double value = random_number(i);
    arguments.y[i] = value;
    sum += value;
  }
  sum = block_sum<P::BLOCK>(sum, shared);
  if (threadIdx.x == 0) arguments.result[blockIdx.x] = sum;
}

// --- Memory, through registers -------------------------------------------------------------------------------

template <bool STREAM>
MANSARD_DEVICE double2 load_pair(const double2* from) {
  if constexpr (STREAM) return load_streaming(from);
  else return *from;
}

// A block takes tiles of BLOCK * UNROLL pairs; all loads of a tile are under way before the first is used. One sum
// and pointers instead of indices: 2048 threads on a multiprocessor have 32 registers each.
template <class P, class Arguments>
MANSARD_DEVICE void probe_read(const Arguments& arguments) {
  MANSARD_SHARED_ARENA(double, shared);
  const i64 stride = static_cast<i64>(gridDim.x) * P::BLOCK * P::UNROLL;
  const auto* at = reinterpret_cast<const double2*>(arguments.x) + static_cast<i64>(blockIdx.x) * P::BLOCK * P::UNROLL +
                   threadIdx.x;
  const auto* end = reinterpret_cast<const double2*>(arguments.x) + arguments.count / 2;
  const auto* last = end - (P::UNROLL - 1) * P::BLOCK;
  double2 sum = {};
MANSARD_UNROLL_BY(1)
  for (; at < last; at += stride) {
    double2 loaded[P::UNROLL];
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u) loaded[u] = load_pair<P::STREAM>(at + u * P::BLOCK);
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u) sum.x += loaded[u].x, sum.y += loaded[u].y;
  }
MANSARD_UNROLL_BY(1)
  for (; at < end; at += P::BLOCK) sum.x += at->x, sum.y += at->y;  // the rest of the last tile
  const double total = block_sum<P::BLOCK>(sum.x + sum.y, shared);
  if (threadIdx.x == 0) arguments.result[blockIdx.x] = total;
}

template <class P, class Arguments>
MANSARD_DEVICE double2 copied(const Arguments& arguments, double2 value) {
  if constexpr (P::SCALE) return make_double2(arguments.a * value.x, arguments.a * value.y);
  else return value;
}

// With as many blocks as there are tiles each block copies one and ends; with few they go round.
template <class P, class Arguments>
MANSARD_DEVICE void probe_copy(const Arguments& arguments) {
  const i64 pairs = arguments.count / 2, stride = static_cast<i64>(gridDim.x) * P::BLOCK * P::UNROLL;
  const auto* x = reinterpret_cast<const double2*>(arguments.x);
  auto* y = reinterpret_cast<double2*>(arguments.y);
  i64 at = static_cast<i64>(blockIdx.x) * P::BLOCK * P::UNROLL + threadIdx.x;
MANSARD_UNROLL_BY(1)
  for (; at + (P::UNROLL - 1) * P::BLOCK < pairs; at += stride) {
    double2 loaded[P::UNROLL];
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u) loaded[u] = load_pair<P::STREAM>(x + at + u * P::BLOCK);
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u) {
      if constexpr (P::STREAM) __stcs(y + at + u * P::BLOCK, copied<P>(arguments, loaded[u]));
      else y[at + u * P::BLOCK] = copied<P>(arguments, loaded[u]);
    }
  }
MANSARD_UNROLL_BY(1)
  for (; at < pairs; at += P::BLOCK) y[at] = copied<P>(arguments, x[at]);
}

// Half as many numbers as there are in x: those of its first half, and a times those of its second.
template <class P, class Arguments>
MANSARD_DEVICE void probe_triad(const Arguments& arguments) {
  const i64 pairs = arguments.count / 4, stride = static_cast<i64>(gridDim.x) * P::BLOCK * P::UNROLL;
  const auto* x = reinterpret_cast<const double2*>(arguments.x);
  auto* y = reinterpret_cast<double2*>(arguments.y);
MANSARD_UNROLL_BY(1)
  for (i64 at = static_cast<i64>(blockIdx.x) * P::BLOCK * P::UNROLL + threadIdx.x; at < pairs; at += stride) {
    double2 first[P::UNROLL], second[P::UNROLL];
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u)
      if (at + u * P::BLOCK < pairs) {
        first[u] = load_pair<P::STREAM>(x + at + u * P::BLOCK);
        second[u] = load_pair<P::STREAM>(x + pairs + at + u * P::BLOCK);
      }
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u)
      if (at + u * P::BLOCK < pairs)
        y[at + u * P::BLOCK] =
            make_double2(first[u].x + arguments.a * second[u].x, first[u].y + arguments.a * second[u].y);
  }
}

// Each block reads its own part, `repeats` rounds of BLOCK pairs that wrap around at the part's end.
template <class P, class Arguments>
MANSARD_DEVICE void probe_cache(const Arguments& arguments) {
  MANSARD_SHARED_ARENA(double, shared);
  const int part = static_cast<int>(arguments.count / 2 / gridDim.x), step = P::BLOCK % part;
  const auto* x = reinterpret_cast<const double2*>(arguments.x) + static_cast<i64>(blockIdx.x) * part;
  double2 sum[2] = {};
  int at = static_cast<int>(threadIdx.x) % part;
MANSARD_UNROLL_BY(1)
  for (i64 round = 0; round < arguments.repeats; round += P::UNROLL) {
    double2 loaded[P::UNROLL];
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u) {
      loaded[u] = load_l2(x + at);
      at += step;
      if (at >= part) at -= part;
    }
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u) sum[u % 2].x += loaded[u].x, sum[u % 2].y += loaded[u].y;
  }
  const double total = block_sum<P::BLOCK>((sum[0].x + sum[1].x) + (sum[0].y + sum[1].y), shared);
  if (threadIdx.x == 0) arguments.result[blockIdx.x] = total;
}

// --- Memory, through rings of bulk copies --------------------------------------------------------------------

// A ring of STAGES chunks for every warp of the block; chunk c belongs to warp c mod (all warps of the grid).
template <class P>
struct ProbeRing {
  static constexpr int WARPS = P::BLOCK / 32, PAIRS = P::CHUNK / 16;
  static constexpr int BARRIER_BYTES = ceil_div(WARPS * P::STAGES * 8, 128) * 128;
  static constexpr int BYTES = BARRIER_BYTES + WARPS * P::STAGES * P::CHUNK;
  static_assert(BYTES <= P::SHARED_BYTES, "shared memory");
  unsigned char* arena;

  MANSARD_DEVICE mbarrier* full(int stage) const {
    return reinterpret_cast<mbarrier*>(arena) + threadIdx.x / 32 * P::STAGES + stage;
  }
  MANSARD_DEVICE double2* chunk(int stage) const {
    return reinterpret_cast<double2*>(arena + BARRIER_BYTES + (threadIdx.x / 32 * P::STAGES + stage) * P::CHUNK);
  }
  MANSARD_DEVICE void initialise() const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < WARPS * P::STAGES; ++i) mbarrier_init(reinterpret_cast<mbarrier*>(arena) + i, 1);
      mbarrier_init_fence();
    }
    __syncthreads();
  }
  // All threads of the block: when they return, the arena is ordinary memory, barriers included.
  MANSARD_DEVICE void retire() const {
    __syncthreads();
    for (int i = threadIdx.x; i < WARPS * P::STAGES; i += P::BLOCK) mbarrier_inval(reinterpret_cast<mbarrier*>(arena) + i);
    __syncthreads();
  }
  MANSARD_DEVICE void fetch(int stage, const double2* from) const {
    mbarrier_arrive_expect(full(stage), P::CHUNK);
    bulk_load(chunk(stage), from, P::CHUNK, full(stage));
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void probe_read_ring(const Arguments& arguments) {
  using Ring = ProbeRing<P>;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const Ring ring{arena};
  ring.initialise();
  const int lane = threadIdx.x % 32;
  const i64 chunks = arguments.count / 2 / Ring::PAIRS, stride = static_cast<i64>(gridDim.x) * Ring::WARPS;
  const auto* x = reinterpret_cast<const double2*>(arguments.x);
  i64 mine = static_cast<i64>(threadIdx.x / 32) * gridDim.x + blockIdx.x, ahead = mine;
  for (int stage = 0; stage < P::STAGES; ++stage, ahead += stride)
    if (lane == 0 && ahead < chunks) ring.fetch(stage, x + ahead * Ring::PAIRS);
  double2 sum[2] = {};
  int stage = 0;
  u32 parity = 0;
MANSARD_UNROLL_BY(1)
  for (; mine < chunks; mine += stride, ahead += stride) {
    mbarrier_wait(ring.full(stage), parity);
    const double2* from = ring.chunk(stage) + lane;
    MANSARD_UNROLL
    for (int i = 0; i < Ring::PAIRS / 32; ++i) sum[i % 2].x += from[i * 32].x, sum[i % 2].y += from[i * 32].y;
    __syncwarp();
    if (lane == 0 && ahead < chunks) ring.fetch(stage, x + ahead * Ring::PAIRS);
    if (++stage == P::STAGES) stage = 0, parity ^= 1;
  }
  ring.retire();
  const double total = block_sum<P::BLOCK>((sum[0].x + sum[1].x) + (sum[0].y + sum[1].y), reinterpret_cast<double*>(arena));
  if (threadIdx.x == 0) arguments.result[blockIdx.x] = total;
}

// A chunk is stored from where it was loaded to; its place is loaded again once the store has read it, one chunk
// late, so that nobody waits for the youngest store.
template <class P, class Arguments>
MANSARD_DEVICE void probe_copy_ring(const Arguments& arguments) {
  using Ring = ProbeRing<P>;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const Ring ring{arena};
  ring.initialise();
  const int lane = threadIdx.x % 32;
  const i64 chunks = arguments.count / 2 / Ring::PAIRS, stride = static_cast<i64>(gridDim.x) * Ring::WARPS;
  const auto* x = reinterpret_cast<const double2*>(arguments.x);
  auto* y = reinterpret_cast<double2*>(arguments.y);
  i64 mine = static_cast<i64>(threadIdx.x / 32) * gridDim.x + blockIdx.x, ahead = mine;
  for (int stage = 0; stage < P::STAGES; ++stage, ahead += stride)
    if (lane == 0 && ahead < chunks) ring.fetch(stage, x + ahead * Ring::PAIRS);
  int stage = 0, previous = -1;
  u32 parity = 0;
MANSARD_UNROLL_BY(1)
  for (; mine < chunks; mine += stride) {
    if (P::SCALE || lane == 0) mbarrier_wait(ring.full(stage), parity);
    if constexpr (P::SCALE) {
      double2* here = ring.chunk(stage) + lane;
      MANSARD_UNROLL
      for (int i = 0; i < Ring::PAIRS / 32; ++i) here[i * 32] = copied<P>(arguments, here[i * 32]);
      fence_async_shared();
      __syncwarp();
    }
    if (lane == 0) {
      bulk_store(y + mine * Ring::PAIRS, ring.chunk(stage), P::CHUNK);
      bulk_commit();
      if (previous >= 0) {
        bulk_wait_read<1>();
        if (ahead < chunks) ring.fetch(previous, x + ahead * Ring::PAIRS);
        ahead += stride;
      }
    }
    previous = stage;
    if (++stage == P::STAGES) stage = 0, parity ^= 1;
  }
  if (lane == 0) bulk_wait<0>();
}

// --- Arithmetic ----------------------------------------------------------------------------------------------

// CHAINS values per thread, v = a v + b over and over: with a = 1 the result is start + repeats * UNROLL * b.
template <class P, class Arguments>
MANSARD_DEVICE void probe_fma(const Arguments& arguments) {
  using T = typename P::T;
  const T a = static_cast<T>(arguments.a), b = static_cast<T>(arguments.b);
  T value[P::CHAINS];
  MANSARD_UNROLL
  for (int i = 0; i < P::CHAINS; ++i) value[i] = static_cast<T>(threadIdx.x % 32 + i);
MANSARD_UNROLL_BY(1)
  for (i64 round = 0; round < arguments.repeats; ++round) {
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u)
      MANSARD_UNROLL
      for (int i = 0; i < P::CHAINS; ++i) value[i] = fma(value[i], a, b);
  }
  T sum = 0;
  MANSARD_UNROLL
  for (int i = 0; i < P::CHAINS; ++i) sum += value[i];
  arguments.result[static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x] = static_cast<double>(sum);
}

// Products of TF32 numbers by warpgroups; there is no other kind.
template <class P, class Arguments>
MANSARD_DEVICE void probe_warpgroup(const Arguments& arguments) {
  MANSARD_SHARED_ARENA(u32, right);
  for (int i = threadIdx.x; i < P::TILES * 64; i += P::BLOCK) right[i] = __float_as_uint(static_cast<float>(arguments.b));
  fence_async_shared();
  __syncthreads();
  const u32 left = __float_as_uint(static_cast<float>(arguments.a)), a[4] = {left, left, left, left};
  float sums[P::TILES][4] = {};
MANSARD_UNROLL_BY(1)
  for (i64 round = 0; round < arguments.repeats; ++round) {
    warpgroup_arrive();
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u) wgmma_tf32(sums, a, right, true);
    warpgroup_commit();
    warpgroup_wait<0>();
  }
  double sum = 0;
  MANSARD_UNROLL
  for (int i = 0; i < P::TILES; ++i) sum += (sums[i][0] + sums[i][1]) + (sums[i][2] + sums[i][3]);
  arguments.result[static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x] = sum;
}

// TILES 16 x 8 products per warp, C += A B with A = a and B = b everywhere: an entry ends as repeats * UNROLL * KSTEP * a b.
// Doubles, or floats of which the units see 19 bits (TF32).
template <class P, class Arguments>
MANSARD_DEVICE void probe_tensor(const Arguments& arguments) {
  if constexpr (P::GROUP) return probe_warpgroup<P>(arguments);
  constexpr int STEPS = P::KSTEP / 4;
  using T = typename P::T;
  const auto operand = [](double value) {
    if constexpr (sizeof(T) == 8) return value;
    else return __float_as_uint(static_cast<float>(value));
  };
  decltype(operand(0.0)) a[2 * STEPS], b[STEPS];
  T sums[P::TILES][4] = {};
  MANSARD_UNROLL
  for (int i = 0; i < 2 * STEPS; ++i) a[i] = operand(arguments.a);
  MANSARD_UNROLL
  for (int i = 0; i < STEPS; ++i) b[i] = operand(arguments.b);
MANSARD_UNROLL_BY(1)
  for (i64 round = 0; round < arguments.repeats; ++round) {
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u)
      MANSARD_UNROLL
      for (int i = 0; i < P::TILES; ++i) {
        if constexpr (sizeof(T) == 4) mma_tf32_m16n8k8(sums[i], a, b);
        else if constexpr (P::KSTEP == 4) mma_m16n8k4(sums[i], a[0], a[1], b[0]);
        else if constexpr (P::KSTEP == 8) mma_m16n8k8(sums[i], a, b);
        else mma_m16n8k16(sums[i], a, b);
      }
  }
  double sum = 0;
  MANSARD_UNROLL
  for (int i = 0; i < P::TILES; ++i) sum += (sums[i][0] + sums[i][1]) + (sums[i][2] + sums[i][3]);
  arguments.result[static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x] = sum;
}

// --- Waiting -------------------------------------------------------------------------------------------------

// `repeats` barriers, then one that publishes: every block must see what its neighbour wrote before it.
template <class P, class Arguments>
MANSARD_DEVICE void probe_barrier(const Arguments& arguments) {
MANSARD_UNROLL_BY(1)
  for (i64 i = 0; i < arguments.repeats; ++i) grid_barrier(arguments.counters + 1, gridDim.x);
  if (threadIdx.x == 0) store_l2(arguments.y + blockIdx.x, static_cast<double>(blockIdx.x + arguments.repeats));
  grid_barrier(arguments.counters + 1, gridDim.x);
  if (threadIdx.x == 0) arguments.result[blockIdx.x] = load_l2(arguments.y + (blockIdx.x + 1) % gridDim.x);
}

// y holds one place per line of LINE doubles, and each names the next: a cycle through all of them (`count` lines,
// a power of two) in an order that no prefetcher follows.
template <class P, class Arguments>
MANSARD_DEVICE void probe_link(const Arguments& arguments) {
  auto* next = reinterpret_cast<i64*>(arguments.y);
  const i64 stride = static_cast<i64>(gridDim.x) * P::BLOCK;
  for (i64 i = static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x; i < arguments.count; i += stride)
    next[i * P::LINE] = (i * P::FACTOR + P::ADDEND) & (arguments.count - 1);
}

// One thread follows the cycle from where the last launch stopped.
template <class P, class Arguments>
MANSARD_DEVICE void probe_chase(const Arguments& arguments) {
  if (threadIdx.x != 0) return;
  const auto* next = reinterpret_cast<const i64*>(arguments.x);
  auto* position = reinterpret_cast<i64*>(arguments.result);
  i64 at = *position;
MANSARD_UNROLL_BY(1)
  for (i64 i = 0; i < arguments.repeats; ++i) at = load_l2(next + at * P::LINE);
  *position = at;
}

template <class P, class Arguments>
MANSARD_DEVICE void probe_empty(const Arguments&) {}

// The smallest kernel that depends on the one before it.
template <class P, class Arguments>
MANSARD_DEVICE void probe_step(const Arguments& arguments) {
  const int i = blockIdx.x * P::BLOCK + threadIdx.x;
  arguments.result[i] = arguments.result[i] + arguments.a;
}

}  // namespace mansard
