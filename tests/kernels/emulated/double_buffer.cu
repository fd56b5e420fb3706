// Two buffers filled by cp.async: thread t adds what thread 63 - t loaded, chunk by chunk.
#include "mansard/gpu/async.cuh"

using namespace mansard;

struct Arguments {
  const double* x;  // chunks of 128 doubles
  double* sums;     // 128
  int chunks;
};

extern "C" __global__ void double_buffer(const __grid_constant__ Arguments arguments) {
  MANSARD_SHARED_ARENA(double2, buffers);
  const int thread = threadIdx.x, partner = 63 - thread;
  auto fetch = [&](int chunk) {
    if (chunk < arguments.chunks) {
      cp_async16(buffers + chunk % 2 * 64 + thread, arguments.x + chunk * 128 + 2 * thread);
    }
    cp_async_commit();
  };
  double2 sum = make_double2(0, 0);
  fetch(0);
  for (int chunk = 0; chunk < arguments.chunks; ++chunk) {
    fetch(chunk + 1);
    cp_async_wait<1>();
    __syncthreads();  // all parts of the chunk are there
    const double2 value = buffers[chunk % 2 * 64 + partner];
    sum.x += value.x;
    sum.y += value.y;
    __syncthreads();  // all have read it
  }
  arguments.sums[2 * thread] = sum.x;
  arguments.sums[2 * thread + 1] = sum.y;
}

MANSARD_EMULATED_ENTRY(double_buffer, Arguments)
