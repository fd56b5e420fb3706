// y_i = sum_j a_ij x_j for rows `first` to `last` on a CPU: CRS, or chunks of C rows side by side (SELL-C-1), of which a
// vector holds C sums. The CPU's counterpart of rows.cuh; a level group and power is a call, with its fork and join.
#pragma once
#include <cstdint>

namespace panzlaff {

using i64 = std::int64_t;

template <int C>  // 1: CRS
void multiply_rows(const double* A, const int* columns, const i64* starts, const double* x, double* y, i64 first,
                   i64 last, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
  for (i64 chunk = first / C; chunk < (last + C - 1) / C; ++chunk) {
    double sums[C] = {};
    for (i64 k = starts[chunk]; k < starts[chunk + 1]; k += C)
      for (int row = 0; row < C; ++row) sums[row] += A[k + row] * x[columns[k + row]];
    for (int row = 0; row < C; ++row)
      if (chunk * C + row < last) y[chunk * C + row] = sums[row];
  }
}

}  // namespace panzlaff
