// What racecheck makes of a correct hand-over: lanes write, __syncwarp orders them before one lane, which arrives on an
// mbarrier; another warp waits there and reads. It reports races, and none if all lanes arrive (any argument).
//   nvcc -arch=sm_90a -lineinfo racecheck_transitive.cu -o t && compute-sanitizer --tool racecheck ./t
#include <cstdio>
#include <cstdint>
__device__ uint32_t shared(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ void init(uint64_t* b, int n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared(b)), "r"(n) : "memory"); }
__device__ void arrive(uint64_t* b) { asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(shared(b)) : "memory"); }
__device__ void wait(uint64_t* b, int par) { uint32_t d; do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0,1,0,p; }" : "=r"(d) : "r"(shared(b)), "r"(par) : "memory"); while (!d); }
template <bool ALL>
__global__ void hand_over(float* out, int rounds) {
  __shared__ float data[32];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) { init(&full, ALL ? 32 : 1); init(&empty, ALL ? 32 : 1); }
  __syncthreads();
  int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    for (int r = 0; r < rounds; ++r) {
      wait(&empty, (r & 1) ^ 1); __syncwarp();
      data[lane] = r + lane;
      __threadfence_block(); __syncwarp();
      if (ALL || lane == 0) arrive(&full);
      __syncwarp();
    }
  } else {
    float s = 0;
    for (int r = 0; r < rounds; ++r) {
      wait(&full, r & 1); __syncwarp();
      s += data[31 - lane];
      __threadfence_block(); __syncwarp();
      if (ALL || lane == 0) arrive(&empty);
      __syncwarp();
    }
    out[lane] = s;
  }
}
int main(int argc, char**) {
  float* o; cudaMalloc(&o, 128);
  if (argc > 1) hand_over<true><<<1, 64>>>(o, 8); else hand_over<false><<<1, 64>>>(o, 8);
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
