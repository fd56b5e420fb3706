// Warp-wide products of fragments: C += A B on the tensor cores, double precision and TF32.
//
// With g = lane / 4 and t = lane % 4, a lane holds
//   a[i] = A[g + 8 * (i % 2)][t + 4 * (i / 2)]     (m8n8k4: a = A[g][t])
//   b[i] = B[t + 4 * i][g]
//   c[i] = C[g + 8 * (i / 2)][2 * t + i % 2]
// so k8 and k16 are two and four k4 steps, and rows, columns and k may be permuted freely as long as the
// three operands agree. All 32 lanes take part, converged.
//
// m8n8k4 is what sm_80 has; on sm_90 it runs at a fraction of the m16n8 rate. The m16n8 shapes are single
// instructions on sm_90 and are composed of m8n8k4 on sm_80.
#pragma once

#include "platform.cuh"

#if defined(MANSARD_EMULATED)
#include "mansard/emulated/mma.hpp"
#else

namespace mansard {

MANSARD_DEVICE void mma_m8n8k4(double& c0, double& c1, double a, double b) {
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(c0), "+d"(c1)
               : "d"(a), "d"(b));
}

MANSARD_DEVICE void mma_m8n8k4(double (&c)[2], double a, double b) { mma_m8n8k4(c[0], c[1], a, b); }

MANSARD_DEVICE void mma_m16n8k4(double (&c)[4], double a0, double a1, double b0) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a0), "d"(a1), "d"(b0));
#else
  mma_m8n8k4(c[0], c[1], a0, b0);
  mma_m8n8k4(c[2], c[3], a1, b0);
#endif
}

MANSARD_DEVICE void mma_m16n8k8(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
  mma_m16n8k4(c, a[0], a[1], b[0]);
  mma_m16n8k4(c, a[2], a[3], b[1]);
#endif
}

MANSARD_DEVICE void mma_m16n8k16(double (&c)[4], const double (&a)[8], const double (&b)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]),
        "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
  MANSARD_UNROLL
  for (int k = 0; k < 4; ++k) mma_m16n8k4(c, a[2 * k], a[2 * k + 1], b[k]);
#endif
}

// TF32 operands are the upper 19 bits of floats; products are exact, sums are kept in float and truncated.
MANSARD_DEVICE void mma_tf32_m16n8k8(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace mansard

#endif

namespace mansard {

// x = high + low up to 2^-22 |x|: two TF32 numbers hold nearly what one float holds. An infinity gives a NaN.
MANSARD_DEVICE void split_tf32(float x, u32& high, u32& low) {
  high = __float_as_uint(x) & 0xffffe000u;
  low = __float_as_uint(x - __uint_as_float(high));
}

}  // namespace mansard
