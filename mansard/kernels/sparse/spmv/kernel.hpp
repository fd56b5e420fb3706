// Y = alpha A X + beta Y, or alpha A X + beta X + gamma Z, on CPUs for SELL-C-sigma, ELLPACK and CSR.
//
// One real vector and a chunked format: lanes are rows (across.hpp). Everything else: lanes are columns of X
// (along.hpp). Either way a row's entries are added from first to last, in every thread. Threads take consecutive rows
// with about the same number of bytes of the matrix each.
//
// Params beside T, V, FORMAT, INDEX, C, RAGGED, PERMUTED, ACCUMULATE, RECURRENCE, CONJ, NVECS:
//   LANES     reals per vector
//   PREFETCH  cache (1, 2) to which later parts of the matrix are brought; 0 leaves it to the hardware
//   AHEAD     distance of the prefetch in bytes
//   VGATHER   whether entries of X come by gather instructions (AVX2, AVX-512), or by a load for each lane
#pragma once
#include "kernels/sparse/spmv/across.hpp"
#include "kernels/sparse/spmv/along.hpp"

namespace mansard {

template <class P, class Arguments>
int spmv_simd(const Arguments& a) {
  using T = typename P::T;
  constexpr bool ACROSS = P::FORMAT != Format::csr && P::NVECS == 1 && Scalar<T>::WORDS == 1 && P::LANES > 1;
  constexpr int ROWS_EACH = P::FORMAT == Format::csr ? 1 : P::C;
  const i64 count = ceil_div(a.ROWS, i64{ROWS_EACH});
  // work before chunk or row i: entries, plus one per item, since vectors cost something and empty chunks have a result
  const auto before = [&](i64 i) -> i64 {
    if constexpr (P::FORMAT == Format::ell) return i;
    else return static_cast<i64>(a.STARTS[i]) + i;
  };
  const i64 threads = smaller<i64>(a.threads, larger<i64>(1, a.NNZ / 4096));  // a fork costs some thousand entries
#pragma omp parallel num_threads(static_cast<int>(threads)) if (threads > 1)
  {
    const i64 t = thread_index(), team = thread_count();
    const i64 end = begin_of(t + 1, team, count, before);
    i64 i = begin_of(t, team, count, before);
    if constexpr (P::FORMAT == Format::csr) {
      constexpr int ABREAST = Along<P, Arguments>::ABREAST;
      if constexpr (ABREAST > 1)
        if (a.NNZ < Along<P, Arguments>::SHORT * a.ROWS)
          for (; i + ABREAST <= end; i += ABREAST) Along<P, Arguments>::template csr_rows<ABREAST>(a, i);
    }
    for (; i < end; ++i) {
      if constexpr (ACROSS) Across<P, Arguments>::chunk(a, i);
      else if constexpr (P::FORMAT == Format::csr) Along<P, Arguments>::csr_row(a, i);
      else Along<P, Arguments>::chunk(a, i);
    }
  }
  return 0;
}

}  // namespace mansard
