// Reduction over blocks: from one sum per block to one result.
//
//   atomic  every block adds its entries to global sums; the last block stores them (order varies from run to run)
//   block   like atomic, but the block's own sum was formed by shared-memory atomics
//   ticket  blocks publish their sums; the last one to arrive adds them in block order
//   sliced  blocks publish, wait for each other, then each adds a slice of the entries in block order
//
// ticket and sliced give the same bits every time. All of them need one launch and no memset: counters and global
// sums are zero before a launch and left zero behind.
#pragma once
#include "mansard/gpu/complex.cuh"
#include "mansard/gpu/sync.cuh"

namespace mansard {

enum class Reduce { atomic, block, ticket, sliced };

constexpr int COUNTERS = 256;  // 32-bit words in front of the global sums, four per column tile of C

template <class R>
MANSARD_DEVICE void store_words(R* at, Complex<R> x) {
  store_l2(at, x.re);
  store_l2(at + 1, x.im);
}
template <class R>
MANSARD_DEVICE void store_words(R* at, R x) {
  store_l2(at, x);
}
template <class R>
MANSARD_DEVICE void load_words(const R* at, R& x) {
  x = load_l2(at);
}
template <class R>
MANSARD_DEVICE void load_words(const R* at, Complex<R>& x) {
  x = {load_l2(at), load_l2(at + 1)};
}
template <class R>
MANSARD_DEVICE void atomic_add(R* at, R x) {
  atomicAdd(at, x);
}
template <class R>
MANSARD_DEVICE void atomic_add(R* at, Complex<R> x) {
  atomicAdd(at, x.re);
  atomicAdd(at + 1, x.im);
}

// True in every thread of the block that arrives last; the counter is then back at zero. The fences of thread 0 order
// the whole block's stores and loads, since __syncthreads puts these before or after them.
MANSARD_DEVICE bool last_block_to_arrive(u32* counter, u32 blocks, u32* flag) {
  __syncthreads();  // partial sums of all threads are stored before the counter is raised
  if (threadIdx.x == 0) {
    __threadfence();
    *flag = atomicInc(counter, blocks - 1) == blocks - 1;
    __threadfence();
  }
  __syncthreads();  // flag is set by thread 0
  const bool last = *flag != 0;
  __syncthreads();  // flag may be overwritten; all threads have read it
  return last;
}

// Barrier of all `blocks` blocks of a cooperative grid. Arrivals add up to 2^31: the last one flips the upper bit of
// the word, for which the others wait, and leaves the lower bits zero.
MANSARD_DEVICE void grid_barrier(u32* word, u32 blocks) {
  __syncthreads();  // stores of all threads of the block come before the arrival of thread 0
  if (threadIdx.x == 0) {
    __threadfence();
    const u32 old = atomicAdd(word, blockIdx.x == 0 ? 0x80000000u - (blocks - 1) : 1u);
    wait_until_flips(word, old);
    __threadfence();
  }
  __syncthreads();  // loads of all threads come after the wait of thread 0
}

// Add the blocks' partial sums of entries [begin, end) in block order. Consecutive threads take consecutive entries; if
// there are more threads than entries, several share an entry, each with a run of blocks, and the runs are added in
// order.
template <class Acc, int ENTRIES, int THREADS, class Store>
MANSARD_DEVICE void sum_partials(const typename Scalar<Acc>::Real* partials, int blocks, int begin, int end,
                                 Acc* scratch, Store store) {
  constexpr int WORDS = Scalar<Acc>::WORDS, BATCH = 16;  // loads in flight: each takes most of a microsecond
  int width = 1;
  while (width < end - begin && 2 * width <= THREADS) width *= 2;
  const int runs = THREADS / width, run = threadIdx.x / width, lane = threadIdx.x % width;
  for (int first = begin; first < end; first += width) {
    const int entry = first + lane;
    Acc sum = zero<Acc>();
    if (run < runs && entry < end) {
      const int stop = blocks * (run + 1) / runs;
      int block = blocks * run / runs;
      const auto* at = partials + (static_cast<i64>(block) * ENTRIES + entry) * WORDS;
MANSARD_UNROLL_BY(1)
      for (; block < stop; block += BATCH, at += BATCH * ENTRIES * WORDS) {
        Acc part[BATCH];
        MANSARD_UNROLL
        for (int i = 0; i < BATCH; ++i) {
          part[i] = zero<Acc>();
          if (block + i < stop) load_words(at + i * ENTRIES * WORDS, part[i]);
        }
        MANSARD_UNROLL
        for (int i = 0; i < BATCH; ++i) add_to(sum, part[i]);
      }
    }
    if (runs > 1) {
      if (run < runs) scratch[run * width + lane] = sum;
      __syncthreads();  // scratch holds the sums of all runs
      if (run == 0)
        for (int other = 1; other < runs; ++other) add_to(sum, scratch[other * width + lane]);
      __syncthreads();  // scratch is about to be overwritten by the next entries; all threads have read it
    }
    if (run == 0 && entry < end) store(entry, sum);
  }
}

// Sums that all blocks of a tile add to atomically; they are stored behind the counters.
template <class Acc, int ENTRIES>
MANSARD_DEVICE typename Scalar<Acc>::Real* global_sums(u32* counters, int tile) {
  using Real = typename Scalar<Acc>::Real;
  return reinterpret_cast<Real*>(counters + COUNTERS) + static_cast<i64>(tile) * ENTRIES * Scalar<Acc>::WORDS;
}

// The last block to arrive stores the global sums as results and clears them for the next launch.
template <class Acc, int ENTRIES, int THREADS, class Store>
MANSARD_DEVICE void store_global_sums(u32* counters, int tile, int blocks, u32* flag, Store store) {
  constexpr int WORDS = Scalar<Acc>::WORDS;
  auto* sums = global_sums<Acc, ENTRIES>(counters, tile);
  if (!last_block_to_arrive(counters + 4 * tile, blocks, flag)) return;
  for (int entry = threadIdx.x; entry < ENTRIES; entry += THREADS) {
    Acc sum;
    load_words(sums + entry * WORDS, sum);
    store_words(sums + entry * WORDS, zero<Acc>());
    store(entry, sum);
  }
}

// Reduce over the blocks of a tile. value(entry) is this block's sum, store(entry, total) writes the result; scratch
// has room for THREADS sums in shared memory. Blocks with the same `tile`, a part of C, are added.
template <Reduce REDUCE, class Acc, int ENTRIES, int THREADS, class Value, class Store>
MANSARD_DEVICE void reduce_over_blocks(void* partials, u32* counters, int tile, int blocks, Acc* scratch, Value value,
                                       Store store) {
  using Real = typename Scalar<Acc>::Real;
  constexpr int WORDS = Scalar<Acc>::WORDS;
  if (blocks == 1) {
    for (int entry = threadIdx.x; entry < ENTRIES; entry += THREADS) store(entry, value(entry));
    return;
  }
  u32* counter = counters + 4 * tile;
  u32* flag = reinterpret_cast<u32*>(scratch);
  if constexpr (REDUCE == Reduce::atomic || REDUCE == Reduce::block) {
    Real* sums = global_sums<Acc, ENTRIES>(counters, tile);
    for (int entry = threadIdx.x; entry < ENTRIES; entry += THREADS) atomic_add(sums + entry * WORDS, value(entry));
    store_global_sums<Acc, ENTRIES, THREADS>(counters, tile, blocks, flag, store);
  } else {
    Real* all = static_cast<Real*>(partials) + static_cast<i64>(tile) * blocks * ENTRIES * WORDS;
    Real* mine = all + static_cast<i64>(blockIdx.x) * ENTRIES * WORDS;
    for (int entry = threadIdx.x; entry < ENTRIES; entry += THREADS) store_words(mine + entry * WORDS, value(entry));
    if constexpr (REDUCE == Reduce::ticket) {
      if (!last_block_to_arrive(counter, blocks, flag)) return;
      sum_partials<Acc, ENTRIES, THREADS>(all, blocks, 0, ENTRIES, scratch, store);
    } else {
      grid_barrier(counter + 1, blocks);
      const int slice = ceil_div(ENTRIES, blocks), begin = blockIdx.x * slice;
      const int end = begin + slice < ENTRIES ? begin + slice : ENTRIES;
      sum_partials<Acc, ENTRIES, THREADS>(all, blocks, begin, end, scratch, store);
    }
  }
}

}  // namespace mansard
