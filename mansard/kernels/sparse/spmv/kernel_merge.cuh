// y = alpha A x + beta y for CSR rows of any lengths: every thread has the same number of entries and row ends.
//
// Entries and row ends form one sequence, an end after the row's last entry. A block takes ITEMS of it, a thread
// PER_THREAD; WIDTHS[b] is the row at which block b begins. A row that spans several blocks is written by the last of
// them to finish, which adds the blocks' parts in order: results do not depend on which block that is.
//
// Shared memory:
//   products   entries numbers   matrix entry times x
//   sums       rows + 1          behind the products: sums of rows that end in the block, and of the one that goes on
//   left       WARPS             what the last thread of a warp has left of a row that another thread ends
//   ends       ITEMS ints        position of each row end among the block's entries
//   left_keys  WARPS ints        row of `left`
//
// Phases, with barriers (__syncthreads -> buffer -> writer):
//   load      products, ends -> all threads
//   add_up    each thread adds its items; sums -> all threads;  segmented scan in each warp; left, sums -> all warps;
//             scan over warps by warp 0; sums -> warp 0
//   finish    write rows; join rows that span blocks through global memory
//
// Limits: memory bandwidth.
//
//   BLOCK, PER_THREAD  threads; entries and row ends per thread
//   CACHE              cache hint of the matrix loads
#pragma once
#include "mansard/gpu/reduce.cuh"
#include "mansard/gpu/sparse.cuh"

namespace mansard {

// Segmented sum over a warp: keys never decrease from lane to lane; the last lane of each run of equal keys gets the
// run's sum.
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
  static constexpr int WORDS = ITEMS + 1 + WARPS;  // numbers of type T: products and sums, left
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
    // beyond the end, the last entry is loaded again: unconditional loads are issued together
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
    if (threadIdx.x == 0) sums[rows] = zero<T>();  // sum of the row that goes on
    __syncthreads();  // products and ends are complete, written by all threads
  }

  MANSARD_DEVICE void add_up() {
    const int begin = threadIdx.x * P::PER_THREAD, items = rows + entries;
    int row = 0, above = min(rows, begin);  // binary search for the number of row ends before `begin`
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
    __syncthreads();  // sums of rows that end in a thread are stored, before other threads add to them
    sum = run_sum(row, sum, lane);
    const int next = from_lane(row, min(lane + 1, 31));
    if (lane == 31) left[warp] = sum, left_keys[warp] = row;
    else if (next != row) add_to(sums[row], sum);
    __syncthreads();  // left and left_keys are complete; sums have the parts of all warps
    if (warp == 0) {
      const int key = lane < WARPS ? left_keys[lane] : rows + 1;
      sum = run_sum(key, lane < WARPS ? left[lane] : zero<T>(), lane);
      const int beyond = from_lane(key, min(lane + 1, 31));
      if (lane < WARPS && (lane == 31 || beyond != key)) add_to(sums[key], sum);
    }
    __syncthreads();  // sums are complete, finished by warp 0
  }

  MANSARD_DEVICE void write(i64 row, T sum, i64 column) const {
    const i64 at = row * a.y_pitch + column;
    const T* x = a.X + row * a.x_pitch + column;
    a.Y[at] = row_result<P::ACCUMULATE, P::RECURRENCE>(a, sum, x, a.Y + at, a.Z + row * a.z_pitch + column);
  }

  // Publish the block's part of a row that spans several blocks; the last one to arrive adds all parts and writes the
  // row. `from`: the row begins in this block.
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
    const bool came = first_row < a.ROWS && a.STARTS[first_row] < first_entry;  // the first row began in another block
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
