// Initial state of a persistent launch: the reserved word in every element that is waited for, progress at zero, and a
// copy of x as the first power where all powers are the output.
#pragma once
#include "kernels/sparse/powers/rows.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void powers_fill(const Arguments& arguments) {
  using R = typename Scalar<typename P::T>::Real;
  const i64 stride = static_cast<i64>(gridDim.x) * P::BLOCK;
  const i64 first = static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x;
  R* words = reinterpret_cast<R*>(arguments.VECTORS);
  for (i64 i = first; i < arguments.words; i += stride) words[i] = reserved<R>();
  for (i64 i = first; i < arguments.flags; i += stride) arguments.FLAGS[i] = 0;
  const R* x = reinterpret_cast<const R*>(arguments.X);
  R* copy = reinterpret_cast<R*>(arguments.COPY);
  for (i64 i = first; i < arguments.copied; i += stride) copy[i] = x[i];
}

}  // namespace mansard
