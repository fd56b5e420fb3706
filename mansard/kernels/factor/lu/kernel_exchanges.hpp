// Row exchanges of a batch on CPUs: for i = 0 .. NRHS - 1 exchange rows i and PIVOTS[i], in place or from A to F.
//
// Team. A thread does one matrix after the other. In place it exchanges rows; elsewhere it first finds which row ends up
// where, then copies each row once.
//
// Returns 1 if a pivot is no row: such a matrix is left as it is, or not copied.
//
// Limits: memory bandwidth; for matrices of a few entries, the loop over the exchanges.
//
// Params: T, M, N, NRHS, LAYOUT_A|F, STACK_A|F.
#pragma once
#include <atomic>

#include "mansard/cpu/groups.hpp"

namespace mansard {

enum class Want { swap };

template <class P, class Arguments>
int lu_exchanges(const Arguments& a) {
  using T = typename P::T;
  constexpr int M = P::M, N = P::N, COUNT = P::NRHS;
  const Matrices<const T, P::STACK_A> A{a.A, a.a_matrix, a.a_row, a.a_col};
  const Matrices<T, P::STACK_F> F{a.F, a.f_matrix, a.f_row, a.f_col};
  std::atomic<int> status{0};
  in_parts(a.BATCH, a.threads, a.BATCH * M * N, [&](i64 begin, i64 end, i64) {
    for (i64 b = begin; b < end; ++b) {
      const T* const from = A[b];
      T* const to = F[b];
      const int* const pivots = a.PIVOTS + b * COUNT;
      int beyond = 0;
      for (int i = 0; i < COUNT; ++i) beyond |= pivots[i] < 0 || pivots[i] >= M;
      if (beyond) {
        status.store(1, std::memory_order_relaxed);
        continue;
      }
      if (from == to) {
        for (int i = 0; i < COUNT; ++i)
          if (pivots[i] != i)
            for (int j = 0; j < N; ++j) std::swap(to[i * F.row + j * F.column], to[pivots[i] * F.row + j * F.column]);
        continue;
      }
      int order[M];
      for (int i = 0; i < M; ++i) order[i] = i;
      for (int i = 0; i < COUNT; ++i) std::swap(order[i], order[pivots[i]]);
      for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) to[i * F.row + j * F.column] = from[order[i] * A.row + j * A.column];
    }
  });
  return status.load(std::memory_order_relaxed);
}

}  // namespace mansard
