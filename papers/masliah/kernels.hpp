// C += A B for a batch of small N x N matrices, row-major: the loops that Masliah et al. compare (figures 3 and 5).
//
//   ijk        a dot product per entry, not vectorised, as in the paper (today's gcc would interchange the loops)
//   ikj        a row of C per entry of A: rows of B and C, vectorised by the compiler as far as it goes
//   registers  their algorithm 1: a row of C stays in registers while all rows of B are multiplied, C is written once
//   stream     no product: C += A * B entry by entry, the same bytes; its speed is the bound n B / 16
//
// A batch is divided among threads in contiguous parts.
#pragma once
#include <cstdint>

namespace masliah {

using i64 = std::int64_t;
typedef double vec4 __attribute__((vector_size(32), aligned(8)));  // four numbers, anywhere

template <int N>
__attribute__((noinline, optimize("no-tree-vectorize", "no-tree-slp-vectorize"))) void ijk(
    const double* __restrict A, const double* __restrict B, double* __restrict C) {
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) {
      double sum = C[i * N + j];
      for (int k = 0; k < N; ++k) sum += A[i * N + k] * B[k * N + j];
      C[i * N + j] = sum;
    }
}

template <int N>
__attribute__((noinline)) void ikj(const double* __restrict A, const double* __restrict B, double* __restrict C) {
  for (int i = 0; i < N; ++i)
    for (int k = 0; k < N; ++k)
      for (int j = 0; j < N; ++j) C[i * N + j] += A[i * N + k] * B[k * N + j];
}

template <int N>
__attribute__((noinline)) void registers(const double* __restrict A, const double* __restrict B, double* __restrict C) {
  constexpr int FOURS = N / 4, REST = N % 4;
  for (int i = 0; i < N; ++i) {
    vec4 row[FOURS + 1];
    double rest[REST + 1];
#pragma GCC unroll 8
    for (int j = 0; j < FOURS; ++j) row[j] = *reinterpret_cast<const vec4*>(C + i * N + 4 * j);
#pragma GCC unroll 4
    for (int j = 0; j < REST; ++j) rest[j] = C[i * N + 4 * FOURS + j];
#pragma GCC unroll 1
    for (int k = 0; k < N; ++k) {
      const double a = A[i * N + k];
      const vec4 all = {a, a, a, a};
#pragma GCC unroll 8
      for (int j = 0; j < FOURS; ++j) row[j] += all * *reinterpret_cast<const vec4*>(B + k * N + 4 * j);
#pragma GCC unroll 4
      for (int j = 0; j < REST; ++j) rest[j] += a * B[k * N + 4 * FOURS + j];
    }
#pragma GCC unroll 8
    for (int j = 0; j < FOURS; ++j) *reinterpret_cast<vec4*>(C + i * N + 4 * j) = row[j];
#pragma GCC unroll 4
    for (int j = 0; j < REST; ++j) C[i * N + 4 * FOURS + j] = rest[j];
  }
}

template <int N>
void stream(const double* __restrict A, const double* __restrict B, double* __restrict C) {
  for (int i = 0; i < N * N; ++i) C[i] += A[i] * B[i];
}

}  // namespace masliah
