// A ring of STAGES stages: the last warp fills it by bulk loads, two warps reverse the chunks and store them
// in bulk.
#include "mansard/gpu/async.cuh"

using namespace mansard;

constexpr int STAGES = 3, CHUNK = 64, CONSUMERS = 64;  // doubles per chunk, one per consumer thread

struct Arguments {
  const double* x;
  double* reversed;
  int chunks;
};

struct Ring {
  double stage[STAGES][CHUNK];
  double out[CHUNK];
  mbarrier full[STAGES], empty[STAGES];
};

MANSARD_DEVICE void produce(const Arguments& arguments, Ring& ring) {
  int stage = 0;
  u32 parity = 1;
  for (int chunk = 0; chunk < arguments.chunks; ++chunk) {
    mbarrier_wait(&ring.empty[stage], parity);
    mbarrier_arrive_expect(&ring.full[stage], CHUNK * 8);
    bulk_load(ring.stage[stage], arguments.x + chunk * CHUNK, CHUNK * 4, &ring.full[stage]);
    bulk_load(ring.stage[stage] + CHUNK / 2, arguments.x + chunk * CHUNK + CHUNK / 2, CHUNK * 4,
              &ring.full[stage]);
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
}

MANSARD_DEVICE void consume(const Arguments& arguments, Ring& ring) {
  const int thread = threadIdx.x;
  int stage = 0;
  u32 parity = 0;
  for (int chunk = 0; chunk < arguments.chunks; ++chunk) {
    mbarrier_wait(&ring.full[stage], parity);
    const double value = ring.stage[stage][CHUNK - 1 - thread];
    __syncwarp();
    if (thread % 32 == 0) mbarrier_arrive(&ring.empty[stage]);
    if (thread == 0) bulk_wait_read<0>();
    named_barrier_sync(1, CONSUMERS);
    ring.out[thread] = value;
    fence_async_shared();
    named_barrier_sync(1, CONSUMERS);  // the chunk is complete
    if (thread == 0) {
      bulk_store(arguments.reversed + chunk * CHUNK, ring.out, CHUNK * 8);
      bulk_commit();
    }
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
  if (thread == 0) bulk_wait<0>();
}

extern "C" __global__ void bulk_ring(const __grid_constant__ Arguments arguments) {
  MANSARD_SHARED_ARENA(Ring, ring);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&ring->full[stage], 1);
      mbarrier_init(&ring->empty[stage], CONSUMERS / 32);
    }
    mbarrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x == CONSUMERS) produce(arguments, *ring);
  if (threadIdx.x < CONSUMERS) consume(arguments, *ring);
  __syncthreads();
  if (threadIdx.x < STAGES) mbarrier_inval(&ring->empty[threadIdx.x]);
  __syncthreads();
  if (threadIdx.x < STAGES) ring->empty[threadIdx.x] = 7;  // ordinary memory now
}

MANSARD_EMULATED_ENTRY(bulk_ring, Arguments)
