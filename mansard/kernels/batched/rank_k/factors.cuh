// The operands of C = alpha A op(A) + beta C, how they lie in shared memory, and which rows a tile has.
//
// Rows are dealt to NT = ceil(N / TILE) sets, and a tile of C is the product of two sets. Every pair of rows {i, j}
// meets in exactly one tile of sets (I, J) with J <= I, whichever rows a set has: entry (j, i) is entry (i, j), or its
// conjugate. Set J has the runs J, J + NT, J + 2 NT, ... of RUN adjacent rows, so that lanes with neighbouring sets read
// neighbouring rows: adjacent runs of a line where rows are adjacent in memory, adjacent lines elsewhere.
#pragma once
#include "kernels/batched/gemm/stream_window.cuh"

namespace mansard {

enum class Uplo { lower, upper, full };  // the triangle of C that is written; full: both, one the mirror of the other

// Whether neighbouring matrices are nearer to each other than neighbouring entries of one.
template <class T>
MANSARD_DEVICE bool is_batch_last(const Place<T*>& place) {
  return place.matrix < place.step && place.matrix < place.line;
}
template <class T>
MANSARD_DEVICE bool is_batch_last(const Place<T* const*>&) {
  return false;
}

template <bool FIRST, class A, class B>
struct Either {
  using Type = A;
};
template <class A, class B>
struct Either<false, A, B> {
  using Type = B;
};

// One factor, N x K: whole matrices of a group, or panels of BLK_K columns of one matrix.
template <class P, Layout LAYOUT, Feed FEED, int PITCH, int MATRIX>
struct Factor {
  using T = typename P::T;
  static constexpr bool ROW_MAJOR = LAYOUT != Layout::col, WHOLE = P::BLK_K >= P::K;
  static constexpr int DEPTH = WHOLE ? P::K : P::BLK_K;
  using Whole = Image<T, ROW_MAJOR ? P::N : P::K, ROW_MAJOR ? P::K : P::N, P::GROUP, FEED, P::ALIGNED, PITCH, MATRIX>;
  using Panel = StreamWindow<T, ROW_MAJOR ? P::N : P::K, ROW_MAJOR ? P::K : P::N, ROW_MAJOR ? P::N : DEPTH,
                             ROW_MAJOR ? DEPTH : P::N, FEED, P::ALIGNED, PITCH, 0>;
  using Memory = typename Either<WHOLE, Whole, Panel>::Type;
  static constexpr int BYTES = Memory::BYTES;
  static constexpr int READ = ROW_MAJOR ? Memory::READ : 1;     // values of k that are loaded at once
  static constexpr int ROW_RUN = ROW_MAJOR ? 0 : Memory::READ;  // adjacent rows that are; 0: any number is fine

  // Start the copies of a panel of matrices first .. first + count - 1.
  template <int THREADS, class Pointer>
  static MANSARD_DEVICE void fill(T* memory, const Place<Pointer>& place, i64 first, int count, i64 batch, int panel,
                                  int rank) {
    const int k = panel * DEPTH;
    if constexpr (WHOLE && FEED == Feed::elements && P::GROUP > 1) {
      if (is_batch_last(place)) return fill_across<THREADS>(memory, place, first, count, rank);
    }
    if constexpr (WHOLE) Whole::template fill<THREADS>(memory, place, first, count, batch, rank);
    else
      Panel::template fill<THREADS>(memory, place, first, batch, ROW_MAJOR ? 0 : k, ROW_MAJOR ? k : 0, rank);
  }
  template <class Pointer>
  static MANSARD_DEVICE const T* origin(T* memory, const Place<Pointer>& place, i64 first, int panel) {
    const int k = panel * DEPTH;
    if constexpr (WHOLE) return Whole::origin(memory, place, first);
    else return Panel::origin(memory, place, first, ROW_MAJOR ? 0 : k, ROW_MAJOR ? k : 0);
  }

 private:
  // Copy a group entry by entry; neighbouring threads have the same entry of neighbouring matrices.
  template <int THREADS, class Pointer>
  static MANSARD_DEVICE void fill_across(T* memory, const Place<Pointer>& place, i64 first, int count, int rank) {
    constexpr int AT_ONCE = 4;
MANSARD_UNROLL_BY(1)
    for (int begin = rank; begin < P::GROUP * Whole::SIZE; begin += AT_ONCE * THREADS) {
      const auto each = [&](auto use) {
        MANSARD_UNROLL
        for (int j = 0; j < AT_ONCE; ++j) {
          const int e = begin + j * THREADS, m = e % P::GROUP, inside = e / P::GROUP;
          if (inside < Whole::SIZE && m < count) use(j, m * Whole::SIZE + inside);
        }
      };
      T some[AT_ONCE];
      each([&](int j, int e) { some[j] = *Whole::element(place, first, e); });
      each([&](int j, int e) { memory[Whole::position(e)] = some[j]; });
    }
  }
};

// Common divisor of runs, of which 0 stands for any.
MANSARD_HOST_DEVICE int common_run(int a, int b) { return a == 0 ? b : b == 0 ? a : gcd(a, b); }

// The rows of the sets.
template <int N, int TILE, int RUN>
struct Sets {
  static constexpr int NT = ceil_div(N, TILE), TILES = NT * (NT + 1) / 2;
  static_assert(TILE % RUN == 0 && N % RUN == 0, "whole runs");

  static MANSARD_DEVICE int row(int set, int slot) { return slot / RUN * NT * RUN + set * RUN + slot % RUN; }
  // The first row of the run with `slot`, or of another run where that lies beyond the matrix.
  static MANSARD_DEVICE int inside(int set, int slot) {
    const int begin = row(set, slot - slot % RUN);
    return (slot / RUN + 1) * NT * RUN <= N ? begin : min(begin, N - RUN);
  }
  static MANSARD_DEVICE bool exists(int set, int slot) {
    return (slot / RUN + 1) * NT * RUN <= N || row(set, slot) < N;
  }
};

// Load TILE rows of STEP values of k each of a set.
template <class F, class S, int TILE, int RUN, int STEP>
MANSARD_DEVICE void load_set(typename F::T (&x)[TILE][STEP], const typename F::T* from, int set, int k) {
  using T = typename F::T;
  constexpr int PITCH = F::Memory::PITCH;
  if constexpr (F::ROW_MAJOR) {
    MANSARD_UNROLL
    for (int slot = 0; slot < TILE; ++slot)
      MANSARD_UNROLL
      for (int i = 0; i < STEP; i += F::READ) {
        const T* at = from + (S::inside(set, slot) + slot % RUN) * PITCH + k + i;
        const auto pack = *reinterpret_cast<const Pack<T, F::READ>*>(at);
        MANSARD_UNROLL
        for (int j = 0; j < F::READ; ++j) x[slot][i + j] = pack.e[j];
      }
  } else {
    MANSARD_UNROLL
    for (int i = 0; i < STEP; ++i)
      MANSARD_UNROLL
      for (int slot = 0; slot < TILE; slot += RUN) {
        const T* at = from + (k + i) * PITCH + S::inside(set, slot);
        const auto pack = *reinterpret_cast<const Pack<T, RUN>*>(at);
        MANSARD_UNROLL
        for (int j = 0; j < RUN; ++j) x[slot + j][i] = pack.e[j];
      }
  }
}

}  // namespace mansard
