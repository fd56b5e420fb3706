// Rows of vectors in another order, on CPUs: TO[c][i] = FROM[c][MAP[i]], NVECS adjacent entries at a time.
#pragma once
#include "mansard/cpu/simd.hpp"

namespace mansard {

enum class Index { int32, int64, delta16 };
enum class Output { all, last, combination };

template <class P, class Arguments>
int powers_permute(const Arguments& a) {
  for (i64 c = 0; c < a.count; ++c) {
    typename P::T* to = a.TO + c * a.to_step;
    const typename P::T* from = a.FROM + c * a.from_step;
#pragma omp parallel for num_threads(static_cast<int>(a.threads)) schedule(static)
    for (i64 i = 0; i < a.ROWS; ++i)
      for (int v = 0; v < P::NVECS; ++v) to[i * P::NVECS + v] = from[static_cast<i64>(a.MAP[i]) * P::NVECS + v];
  }
  return 0;
}

}  // namespace mansard
