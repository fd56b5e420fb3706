// Factorizations and triangular solves of a ragged batch on CPUs: every matrix has sizes of its own, known at run time.
//
// Team. A thread takes one matrix after the other, the largest first; vectors run along its rows, which lie in the
// thread's workspace, padded to whole vectors. One kernel of a method and a dtype does all sizes and all that is wanted
// of them: `want` and `flags` are arguments, too. Results do not depend on the other matrices of the batch.
//
// Limits: loads and stores of the rows that a step updates (one of each per multiply-add); for small matrices the
// latency of a step (pivot search, reciprocal).
//
// Params beside T:
//   METHOD  lu, cholesky, qr or triangle: the header of that name
//   ROWS    rows that share the loads of the row they are updated by
#pragma once
#include "kernels/factor/ragged_factor/cholesky.hpp"
#include "kernels/factor/ragged_factor/lu.hpp"
#include "kernels/factor/ragged_factor/qr.hpp"
#include "kernels/factor/ragged_factor/triangle.hpp"

namespace mansard {

enum class Method { lu, cholesky, qr, triangle };

template <class P, class Arguments>
int ragged_factor_rows(const Arguments& a) {
  using R = typename RowsOf<typename P::T>::R;
  constexpr i64 LEAST = 1 << 19;  // multiply-adds per thread: less is done before another thread has woken up
  const auto* const items = reinterpret_cast<const RaggedItem*>(a.ITEMS);
  const auto one = [&](i64 b) {
    R* const workspace = static_cast<R*>(a.partials) + thread_index() * a.reals;
    if constexpr (P::METHOD == Method::lu) ragged_lu<P>(a, items[b], workspace);
    else if constexpr (P::METHOD == Method::cholesky) ragged_cholesky<P>(a, items[b], workspace);
    else if constexpr (P::METHOD == Method::qr) ragged_qr<P>(a, items[b], workspace);
    else ragged_triangle<P>(a, items[b], workspace);
  };
  const i64 threads = smaller(smaller(a.threads, a.BATCH), ceil_div(a.products, LEAST));
  if (threads <= 1) {
    for (i64 b = 0; b < a.BATCH; ++b) one(b);
    return 0;
  }
  const int chunk = static_cast<int>(larger<i64>(1, smaller<i64>(64, a.BATCH / (threads * 16))));
#pragma omp parallel for schedule(dynamic, chunk) num_threads(static_cast<int>(threads))
  for (i64 b = 0; b < a.BATCH; ++b) one(b);
  return 0;
}

}  // namespace mansard
