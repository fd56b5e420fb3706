// Words that blocks of persistent launches tell each other by, back at zero.
#pragma once
#include "families/powers/rows.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void powers_clear(const Arguments& arguments) {
  const i64 stride = static_cast<i64>(gridDim.x) * P::BLOCK;
  const i64 first = static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x;
  for (i64 i = first; i < arguments.flags; i += stride) arguments.FLAGS[i] = 0;
}

}  // namespace mansard
