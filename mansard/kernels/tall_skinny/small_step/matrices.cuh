// Elimination with or without pivoting, and products, for small matrices of one thread block.
//
// M and E are in shared memory, column-major. An elimination keeps its matrix in registers, since a round through
// shared memory costs more than the arithmetic; the pivot row reaches all warps through `line`, with one barrier per
// row.
//
// Shared memory, in this order: M and E (N * PITCH numbers each), two lines of ROOM numbers (used in turn), scale (N
// doubles), sums (one double per warp).
#pragma once
#include "kernels/tall_skinny/small_step/scalars.cuh"

namespace mansard {

template <class P>
struct Matrices {
  using T = typename P::T;
  using Wide = typename Scalar<T>::template With<double>;
  static constexpr int N = P::N, PITCH = N | 1, WARPS = P::BLOCK / 32;
  static constexpr int ROWS = ceil_div(N, 32), COLUMNS = ceil_div(N, WARPS);  // per lane in an elimination
  static constexpr int TILE = 4, PASSES = ceil_div(ROWS * ceil_div(N, TILE), WARPS);  // rows of a tile; tiles per warp
  static constexpr int AHEAD = PASSES > 1 ? 1 : 4;
  static constexpr int TEAM = 8, ROOM = ceil_div(N, TEAM) * TEAM;
  static_assert((2 * N * PITCH + 2 * ROOM) * int(sizeof(Wide)) + N * 8 + 256 <= P::SHARED_BYTES, "room");
  static_assert(N <= 128 && P::BLOCK >= N, "numbers of rows are put into seven bits");
  Wide *M, *E, *line;  // line: two of them, used in turn
  double *scale, *sums;

  MANSARD_DEVICE explicit Matrices(unsigned char* arena)
      : M(reinterpret_cast<Wide*>(arena)), E(M + N * PITCH), line(E + N * PITCH),
        scale(reinterpret_cast<double*>(line + 2 * ROOM)), sums(scale + N) {}

  static MANSARD_DEVICE int at(int i, int j) { return j * PITCH + i; }

  // Calls use(i, j) for this thread's share of the entries.
  template <class Use>
  static MANSARD_DEVICE void for_each_entry(Use use) {
MANSARD_UNROLL_BY(4)
    for (int first = 0; first < N * N; first += P::BLOCK) {
      const int entry = first + threadIdx.x;
      if (N * N % P::BLOCK == 0 || entry < N * N) use(entry / N, entry % N);
    }
  }
  // Calls use(c, sum over k < N of term(c, k)) for all columns c, in one thread per column.
  template <class Term, class Use>
  static MANSARD_DEVICE void for_each_sum(Term term, Use use) {
    const int lane = threadIdx.x % TEAM;
    for (int first = 0; first < N; first += P::BLOCK / TEAM) {
      const int c = first + threadIdx.x / TEAM;
      const bool inside = N % (P::BLOCK / TEAM) == 0 || c < N;
      double sum = 0.0;
      for (int k = 0; k < N; k += TEAM) sum += inside && (N % TEAM == 0 || k + lane < N) ? term(c, k + lane) : 0.0;
      sum = lane_sum<TEAM>(sum);
      if (lane == 0 && inside) use(c, sum);
    }
  }
  // Sum over all threads, in every thread.
  MANSARD_DEVICE double block_sum(double x) const {
    x = lane_sum<32>(x);
    __syncthreads();  // sums are about to be overwritten; all threads have read the earlier ones
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
    __syncthreads();  // sums are complete, written by lane 0 of every warp
    x = 0.0;
    for (int warp = 0; warp < WARPS; ++warp) x += sums[warp];
    return x;
  }

  // Products with a matrix in shared memory, op(A) B: tiles of TILE rows and 32 columns, in registers.
  struct Tiles {
    Wide sum[PASSES][TILE];

    template <bool CONJ, class Get>
    MANSARD_DEVICE void multiply(const Wide* A, Get get) {
      MANSARD_UNROLL
      for (int pass = 0; pass < PASSES; ++pass) {
        MANSARD_UNROLL
        for (int r = 0; r < TILE; ++r) sum[pass][r] = zero<Wide>();
        const int first = row(pass, 0), j = column(pass);
        if (first >= N || j >= N) continue;
MANSARD_UNROLL_BY(AHEAD)
        for (int k = 0; k < N; ++k) {
          const Wide b = get(k, j);
          MANSARD_UNROLL
          for (int r = 0; r < TILE; ++r) multiply_add<CONJ>(sum[pass][r], A[at(first + r, k)], b);  // unused if >= N
        }
      }
    }
    // Calls use(i, j, sum) for this thread's entries.
    template <class Use>
    MANSARD_DEVICE void for_each(Use use) const {
      MANSARD_UNROLL
      for (int pass = 0; pass < PASSES; ++pass)
        MANSARD_UNROLL
        for (int r = 0; r < TILE; ++r)
          if (row(pass, r) < N && column(pass) < N) use(row(pass, r), column(pass), sum[pass][r]);
    }
    static MANSARD_DEVICE int tile(int pass) { return pass * WARPS + threadIdx.x / 32; }
    static MANSARD_DEVICE int row(int pass, int r) { return tile(pass) / ROWS * TILE + r; }
    static MANSARD_DEVICE int column(int pass) { return tile(pass) % ROWS * 32 + threadIdx.x % 32; }
  };

  // Elimination of H = F^H F: gives F and S^H with S = F^-1, so that S^H H S = I. Rows are eliminated in
  // their order (F is then upper triangular), or each time one whose pivot is almost the largest (TURNED).
  //
  // F and S^H share one matrix: entry (i, j) belongs to F if row j was eliminated after row i, to S^H if before. Rows
  // are distributed over lanes, columns over warps. Every warp keeps the whole diagonal, so that all choose the same
  // row without communication. Barrier: one __syncthreads per row -> line k % 2 (pivots) -> the warps that own its
  // columns.
  struct Elimination {
    Wide A[ROWS][COLUMNS];
    double diagonal[ROWS];
    int turn[ROWS];  // step in which the row was eliminated; N before

    static MANSARD_DEVICE u32 row(int s) { return s * 32 + threadIdx.x % 32; }
    static MANSARD_DEVICE u32 column(int t) { return threadIdx.x / 32 * COLUMNS + t; }
    static MANSARD_DEVICE bool has_row(int s) { return N % 32 == 0 || row(s) < N; }
    static MANSARD_DEVICE bool has_column(int t) { return WARPS * COLUMNS == N || column(t) < N; }

    // Load H(i, j) = get(i, j); all diagonal entries equal `constant`.
    template <class Get>
    MANSARD_DEVICE void load(double constant, Get get) {
      MANSARD_UNROLL
      for (int s = 0; s < ROWS; ++s) diagonal[s] = constant, turn[s] = has_row(s) ? N : -1;
      MANSARD_UNROLL
      for (int t = 0; t < COLUMNS; ++t)
        MANSARD_UNROLL
        for (int s = 0; s < ROWS; ++s) {
          A[s][t] = zero<Wide>();
          if (has_row(s) && has_column(t)) A[s][t] = get(row(s), column(t));
        }
    }
    // Eliminate all rows. False if a pivot was not positive. That is checked only at the end: without a branch between
    // rows, the compiler can interleave their instructions.
    template <bool TURNED>
    MANSARD_DEVICE bool run(Wide* pivots, Wide* next) {
MANSARD_UNROLL_BY(1)
      for (int k = 0; k < N; ++k) {
        const u32 chosen = TURNED ? largest() : k;
        MANSARD_UNROLL
        for (int s = 0; s < ROWS; ++s) turn[s] = row(s) == chosen ? k : turn[s];
        publish(pivots, chosen);
        double inverted = inverse(diagonal[0]);
        MANSARD_UNROLL
        for (int s = 1; s < ROWS; ++s) {
          const double other = inverse(diagonal[s]);
          inverted = turn[s] == k ? other : inverted;
        }
        __syncthreads();  // pivots (line k % 2) are complete, written by all warps
        subtract(pivots, chosen, lane_of<32>(inverted, chosen % 32));
        Wide* const other = pivots;
        pivots = next, next = other;
      }
      bool good = true;
      MANSARD_UNROLL
      for (int s = 0; s < ROWS; ++s) good = good && (!has_row(s) || diagonal[s] > 0.0);
      return __all_sync(~0u, good);
    }
    // Row with the largest pivot by its upper bits; among equal ones the smallest index.
    MANSARD_DEVICE u32 largest() const {
      int most = -2147483647 - 1;
      MANSARD_UNROLL
      for (int s = 0; s < ROWS; ++s)
        if (turn[s] == N) most = max(most, (upper_half(diagonal[s]) & ~127) | (127 - int(row(s))));
      return 127 - (warp_max(most) & 127);
    }
    // Write the chosen row to shared memory; each warp writes its columns.
    MANSARD_DEVICE void publish(Wide* pivots, u32 chosen) const {
      MANSARD_UNROLL
      for (int t = 0; t < COLUMNS; ++t) {
        Wide entry = A[0][t];
        MANSARD_UNROLL
        for (int s = 1; s < ROWS; ++s) entry = row(s) == chosen ? A[s][t] : entry;
        store_if(threadIdx.x % 32 == chosen % 32 && has_column(t), pivots + column(t), entry);
      }
    }
    // Subtract multiples of the chosen row from the rows that are left; its column becomes entries of S^H.
    MANSARD_DEVICE void subtract(const Wide* pivots, u32 chosen, double inverted) {
      Wide factor[ROWS];
      MANSARD_UNROLL
      for (int s = 0; s < ROWS; ++s) {
        const Wide entry = pivots[has_row(s) ? row(s) : 0];
        factor[s] = times_real(times_real(conjugate(entry), turn[s] == N ? inverted : 0.0), -1.0);
        Wide sum;
        set_real(sum, diagonal[s]);
        multiply_add<false>(sum, factor[s], entry);
        diagonal[s] = real_part(sum);
      }
      MANSARD_UNROLL
      for (int t = 0; t < COLUMNS; ++t) {
        const Wide entry = pivots[has_column(t) ? column(t) : 0];
        MANSARD_UNROLL
        for (int s = 0; s < ROWS; ++s) {
          multiply_add<false>(A[s][t], factor[s], entry);
          if (column(t) == chosen && turn[s] == N) A[s][t] = factor[s];  // an entry of S^H now
        }
      }
    }
  };

  // Write M = F and E = S^H after the elimination; returns this thread's part of |E|^2. A barrier must follow before M
  // and E are read.
  MANSARD_DEVICE double unfold(const Elimination& rows) {
    int* turns = reinterpret_cast<int*>(line + N % 2 * ROOM);  // the line of step N - 2, which is not read any more
    MANSARD_UNROLL
    for (int s = 0; s < ROWS; ++s)
      if (threadIdx.x < 32 && rows.has_row(s)) turns[rows.row(s)] = rows.turn[s];
    __syncthreads();  // turns are complete, written by warp 0
    double sum = 0.0;
    MANSARD_UNROLL
    for (int s = 0; s < ROWS; ++s) {
      const double root = sqrt(rows.diagonal[s]), by = inverse(root);
      MANSARD_UNROLL
      for (int t = 0; t < COLUMNS; ++t) {
        const int i = rows.row(s), j = rows.column(t);
        if (!rows.has_row(s) || !rows.has_column(t)) continue;
        const bool later = rows.turn[s] < turns[j];
        const Wide entry = times_real(rows.A[s][t], by);
        Wide f = later ? entry : zero<Wide>(), e = later ? zero<Wide>() : entry;
        if (i == j) set_real(f, root), set_real(e, by);
        M[at(i, j)] = f, E[at(i, j)] = e;
        sum += square(e);
      }
    }
    return sum;
  }
};

}  // namespace mansard
