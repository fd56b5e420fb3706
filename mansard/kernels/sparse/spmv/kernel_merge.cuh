// y = alpha A x + beta y for rows of any lengths: every thread has the same number of entries and ends of rows.
//
// Entries and ends of rows form one sequence, an end after the row's last entry. A block takes ITEMS of it, a thread
// PER_THREAD: SPLITS says at which row each block begins. Products lie in shared memory, side by side with the sums of
// the rows that end in the block. What threads have left of a row that another one ends is added by segmented scans.
// A row that goes through several blocks is written by the one that comes last, which adds the blocks' parts in order:
// results do not depend on who that is.
//
//   BLOCK, PER_THREAD  threads; entries and ends per thread
//   CACHE              how the matrix passes the caches
#pragma once
#include "mansard/gpu/reduce.cuh"
#include "mansard/gpu/sparse.cuh"

namespace mansard {

// What lanes have left of rows `key`, which never decrease: the last lane of each key's run gets the run's sum.
template <class T>
MANSARD_DEVICE T run_sum(int key, T sum, int lane) {
  MANSARD_UNROLL
  for (int step = 1; step < 32; step *= 2) {
    const int other_key = from_lane(key, max(lane - step, 0));
    T other = from_lane(sum, max(lane - step, 0));
    if (lane >= step && other_key == key) {
      add_to(other, sum);
      sum = other;
    }
  }
  return sum;
}

template <class P, class Arguments>
struct Merge {
  using T = typename P::T;
  static constexpr int ITEMS = P::BLOCK * P::PER_THREAD, WARPS = P::BLOCK / 32;
  static constexpr int WORDS = ITEMS + 1 + WARPS;  // of type T: products and sums, what warps have left
  static_assert(WORDS * int(sizeof(T)) + (ITEMS + WARPS) * 4 <= P::SHARED_BYTES, "shared memory");

  const Arguments& a;
  T *products, *sums, *left;
  int *ends, *left_keys;
  i64 first_entry;
  int first_row, rows, entries, lane, warp;

  MANSARD_DEVICE Merge(const Arguments& arguments, T* shared)
      : a(arguments), products(shared), left(shared + ITEMS + 1), lane(threadIdx.x % 32), warp(threadIdx.x / 32) {
    ends = reinterpret_cast<int*>(left + WARPS), left_keys = ends + ITEMS;
    const i64 begin = static_cast<i64>(blockIdx.x) * ITEMS, end = min(begin + ITEMS, a.ROWS + a.NNZ);
    first_row = __ldg(a.WIDTHS + blockIdx.x);
    const int last_row = __ldg(a.WIDTHS + blockIdx.x + 1);
    first_entry = begin - first_row, rows = last_row - first_row;
    entries = static_cast<int>(end - last_row - first_entry);
    sums = products + entries;
  }

  MANSARD_DEVICE void load(const T* x) {
    typename P::V values[P::PER_THREAD];
    T from_x[P::PER_THREAD];
    typename ColumnOf<P::INDEX>::Type columns[P::PER_THREAD];
    // beyond the end, the last entry once more: loads without conditions are issued together
    const i64 last = first_entry + max(entries - 1, 0) - (first_entry == a.NNZ ? 1 : 0);
    MANSARD_UNROLL
    for (int u = 0; u < P::PER_THREAD; ++u)
      columns[u] = load_entry<P::CACHE>(a.COLUMNS + min(first_entry + u * P::BLOCK + threadIdx.x, last));
    MANSARD_UNROLL
    for (int u = 0; u < P::PER_THREAD; ++u)
      values[u] = load_entry<P::CACHE>(a.MATRIX + min(first_entry + u * P::BLOCK + threadIdx.x, last));
    MANSARD_UNROLL
    for (int u = 0; u < P::PER_THREAD; ++u) from_x[u] = load_entry<Cache::normal>(x + columns[u] * a.x_pitch);
    for (int i = threadIdx.x; i < rows; i += P::BLOCK)
      ends[i] = static_cast<int>(a.STARTS[first_row + i + 1] - first_entry);
    MANSARD_UNROLL
    for (int u = 0; u < P::PER_THREAD; ++u) {
      const int i = u * P::BLOCK + threadIdx.x;
      T product = zero<T>();
      if (i < entries) {
        add_entry<P::CONJ>(product, values[u], from_x[u]);
        products[i] = product;
      }
    }
    if (threadIdx.x == 0) sums[rows] = zero<T>();  // of the row that goes on
    __syncthreads();
  }

  MANSARD_DEVICE void add_up() {
    const int begin = threadIdx.x * P::PER_THREAD, items = rows + entries;
    int row = 0, above = min(rows, begin);  // ends before `begin`
    while (row < above) {
      const int middle = (row + above) / 2;
      if (ends[middle] + middle < begin) row = middle + 1;
      else above = middle;
    }
    int entry = begin - row;
    T sum = zero<T>();
    MANSARD_UNROLL
    for (int i = 0; i < P::PER_THREAD; ++i) {
      if (begin + i >= items) break;
      if (row < rows && ends[row] <= entry) {
        sums[row++] = sum;
        sum = zero<T>();
      } else {
        add_to(sum, products[entry++]);
      }
    }
    __syncthreads();
    sum = run_sum(row, sum, lane);
    const int next = from_lane(row, min(lane + 1, 31));
    if (lane == 31) left[warp] = sum, left_keys[warp] = row;
    else if (next != row) add_to(sums[row], sum);
    __syncthreads();
    if (warp == 0) {
      const int key = lane < WARPS ? left_keys[lane] : rows + 1;
      sum = run_sum(key, lane < WARPS ? left[lane] : zero<T>(), lane);
      const int beyond = from_lane(key, min(lane + 1, 31));
      if (lane < WARPS && (lane == 31 || beyond != key)) add_to(sums[key], sum);
    }
    __syncthreads();
  }

  MANSARD_DEVICE void write(i64 row, T sum, i64 column) const {
    const i64 at = row * a.y_pitch + column;
    const T* x = a.X + row * a.x_pitch + column;
    a.Y[at] = row_result<P::ACCUMULATE, P::RECURRENCE>(a, sum, x, a.Y + at, a.Z + row * a.z_pitch + column);
  }

  // The block's part of a row that goes through several: `from` says whether the row began here.
  MANSARD_DEVICE void join(i64 row, T part, bool from, i64 column) const {
    using R = typename Scalar<T>::Real;
    constexpr int N = Scalar<T>::WORDS;
    R* parts = static_cast<R*>(a.partials) + 2 * N * column * gridDim.x;
    u32* counters = a.counters + COUNTERS + column * gridDim.x;
    const i64 owner = (a.STARTS[row] + row) / ITEMS, last = (a.STARTS[row + 1] + row) / ITEMS;
    u32 arrived = 0;
    if (lane == 0) {
      store_words(parts + N * (2 * blockIdx.x + (from ? 1 : 0)), part);
      __threadfence();
      arrived = atomic_add_acq_rel(counters + owner, 1u);
    }
    arrived = __shfl_sync(~0u, arrived, 0);
    if (arrived != last - owner) return;
    __threadfence();
    T sum = zero<T>();
    for (i64 block = owner + lane; block <= last; block += 32) {
      T other;
      load_words(parts + N * (2 * block + (block == owner ? 1 : 0)), other);
      add_to(sum, other);
    }
    sum = sum_across<1, 32>(sum);
    if (lane == 0) {
      write(row, sum, column);
      counters[owner] = 0;
    }
  }

  MANSARD_DEVICE void finish(i64 column) const {
    const bool came = first_row < a.ROWS && a.STARTS[first_row] < first_entry;  // from another block
    const i64 last_row = static_cast<i64>(first_row) + rows;
    const bool goes = last_row < a.ROWS && a.STARTS[last_row] < first_entry + entries && !(came && rows == 0);
    for (int i = threadIdx.x + (came ? 1 : 0); i < rows; i += P::BLOCK)
      write(first_row + i, sums[i], column);
    if (warp == 0 && came) join(first_row, sums[0], false, column);
    if (warp == 0 && goes) join(last_row, sums[rows], true, column);
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void spmv_merge(const Arguments& a) {
  MANSARD_SHARED_ARENA(typename P::T, shared);
  Merge<P, Arguments> merge(a, shared);
  merge.load(a.X + blockIdx.y);
  merge.add_up();
  merge.finish(blockIdx.y);
}

}  // namespace mansard
