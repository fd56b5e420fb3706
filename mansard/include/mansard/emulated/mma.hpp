// The words of mma.cuh on the emulator: all lanes deposit their operands, then each computes its own results.
#pragma once

#include "words.hpp"

namespace mansard {
namespace emulated {

// ROWS is 8 or 16, K a multiple of 4; the fragments are laid out as mma.cuh says.
template <int ROWS, int K>
inline void multiply_fragments(double* c, const double* a, const double* b, Site site) {
  constexpr u32 A_COUNT = ROWS / 8 * K / 4, B_COUNT = K / 4;
  double operands[A_COUNT + B_COUNT];
  for (u32 i = 0; i < A_COUNT; ++i) operands[i] = a[i];
  for (u32 i = 0; i < B_COUNT; ++i) operands[A_COUNT + i] = b[i];
  const Slots slots = exchange(Collective::mma, ~0u, operands, sizeof(operands), site);

  const u32 group = current->lane / 4, member = current->lane % 4;
  for (u32 i = 0; i < ROWS / 4; ++i) {
    const u32 column = 2 * member + i % 2;
    for (u32 k = 0; k < K; ++k) {
      const double row_value = slots.get<double>(4 * group + k % 4, i / 2 + ROWS / 8 * (k / 4));
      const double column_value = slots.get<double>(4 * column + k % 4, A_COUNT + k / 4);
      c[i] = fma(row_value, column_value, c[i]);
    }
  }
}

}  // namespace emulated

inline void mma_m8n8k4(double& c0, double& c1, double a, double b, MANSARD_HERE) {
  double c[2] = {c0, c1};
  emulated::multiply_fragments<8, 4>(c, &a, &b, site);
  c0 = c[0];
  c1 = c[1];
}
inline void mma_m8n8k4(double (&c)[2], double a, double b, MANSARD_HERE) {
  emulated::multiply_fragments<8, 4>(c, &a, &b, site);
}
inline void mma_m16n8k4(double (&c)[4], double a0, double a1, double b0, MANSARD_HERE) {
  const double a[2] = {a0, a1};
  emulated::multiply_fragments<16, 4>(c, a, &b0, site);
}
inline void mma_m16n8k8(double (&c)[4], const double (&a)[4], const double (&b)[2], MANSARD_HERE) {
  emulated::multiply_fragments<16, 8>(c, a, b, site);
}
inline void mma_m16n8k16(double (&c)[4], const double (&a)[8], const double (&b)[4], MANSARD_HERE) {
  emulated::multiply_fragments<16, 16>(c, a, b, site);
}


// The low 13 bits of an operand do not reach the tensor core.
inline void mma_tf32_m16n8k8(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2], MANSARD_HERE) {
  double wide_a[4], wide_b[2], wide_c[4];
  for (int i = 0; i < 4; ++i) wide_a[i] = __uint_as_float(a[i] & 0xffffe000u), wide_c[i] = c[i];
  for (int i = 0; i < 2; ++i) wide_b[i] = __uint_as_float(b[i] & 0xffffe000u);
  emulated::multiply_fragments<16, 8>(wide_c, wide_a, wide_b, site);
  for (int i = 0; i < 4; ++i) c[i] = static_cast<float>(wide_c[i]);
}

}  // namespace mansard
