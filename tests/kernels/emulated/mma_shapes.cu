// One warp, all shapes: c[s] += a b for a of 16 x 16 and b of 16 x 8, with the first k columns and rows of
// each.
#include "mansard/gpu/mma.cuh"

using namespace mansard;

struct Arguments {
  const double *a, *b;
  double* c;  // 4 results of 16 x 8, for m8n8k4 (upper half), m16n8k4, m16n8k8, m16n8k16
};

template <int K>
MANSARD_DEVICE void one_shape(const Arguments& arguments, double* c) {
  const int group = threadIdx.x / 4, member = threadIdx.x % 4;
  double a[K / 2], b[K / 4], sum[4];
  for (int i = 0; i < K / 2; ++i) a[i] = arguments.a[(group + 8 * (i % 2)) * 16 + member + 4 * (i / 2)];
  for (int i = 0; i < K / 4; ++i) b[i] = arguments.b[(member + 4 * i) * 8 + group];
  for (int i = 0; i < 4; ++i) sum[i] = c[(group + 8 * (i / 2)) * 8 + 2 * member + i % 2];
  if constexpr (K == 4) mma_m16n8k4(sum, a[0], a[1], b[0]);
  if constexpr (K == 8) mma_m16n8k8(sum, a, b);
  if constexpr (K == 16) mma_m16n8k16(sum, a, b);
  for (int i = 0; i < 4; ++i) c[(group + 8 * (i / 2)) * 8 + 2 * member + i % 2] = sum[i];
}

extern "C" __global__ void mma_shapes(const __grid_constant__ Arguments arguments) {
  const int group = threadIdx.x / 4, member = threadIdx.x % 4;
  double* c = arguments.c + group * 8 + 2 * member;
  double sum[2] = {c[0], c[1]};
  mma_m8n8k4(sum, arguments.a[group * 16 + member], arguments.b[member * 8 + group]);
  c[0] = sum[0];
  c[1] = sum[1];
  one_shape<4>(arguments, arguments.c + 128);
  one_shape<8>(arguments, arguments.c + 256);
  one_shape<16>(arguments, arguments.c + 384);
}

MANSARD_EMULATED_ENTRY(mma_shapes, Arguments)
