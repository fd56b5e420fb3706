// Shared by the tsm2r kernels: layouts of operands, and the last step, C = alpha * sum + beta * C.
#pragma once
#include "mansard/gpu/reduce.cuh"

namespace mansard {

// row: columns are adjacent in memory; col: rows are; any: neither, both strides are read from the arguments
enum class Layout { row, col, any };
using LayoutA = Layout;
using LayoutB = Layout;

// Write entry (m, n) of C; entries of a panel beyond the edges of C are not stored.
template <class P, class Arguments, class Acc>
MANSARD_DEVICE void store_entry(const Arguments& arguments, i64 m, int n, Acc sum) {
  if (m >= arguments.M || n >= P::N) return;
  auto* c = arguments.C + m * arguments.c_row + n * arguments.c_col;
  *c = scaled<typename P::T>(sum, arguments.alpha_re, arguments.alpha_im, arguments.beta_re, arguments.beta_im, c);
}

}  // namespace mansard
