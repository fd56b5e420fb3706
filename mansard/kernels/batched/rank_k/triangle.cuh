// How C leaves: one triangle, or both, one the mirror of the other; by way of an image in shared memory, or directly.
#pragma once
#include "kernels/batched/rank_k/factors.cuh"

namespace mansard {

template <int VALUE_>
struct Depth {
  static constexpr int VALUE = VALUE_;
};

// Operands as kernels see them. C is row-major or has arbitrary strides; a column-major C is the other triangle of its
// transpose, whose factors are conjugated the other way round. `factor` is the alpha of A with two factors.
template <class P, class Arguments>
struct Updated {
  decltype(place_of(Arguments::A, Layout::row, 0, 0, 0)) A;
  decltype(place_of(Arguments::B, Layout::row, 0, 0, 0)) B;  // A again where there is one factor
  decltype(place_of(Arguments::C, Layout::row, 0, 0, 0)) C;
  Scales scales, factor;

  MANSARD_DEVICE explicit Updated(const Arguments& x)
      : A(place_of(x.A, P::LAYOUT_A, x.a_matrix, x.a_row, x.a_col)),
        B(place_of(x.B, P::LAYOUT_B, x.b_matrix, x.b_row, x.b_col)),
        C(place_of(x.C, Layout::row, x.c_matrix, x.c_row, x.c_col)),
        scales{x.alpha_re, x.alpha_im, x.beta_re, x.beta_im},
        factor{x.alpha_re, P::CONJ_ALPHA ? -x.alpha_im : x.alpha_im, 0.0, 0.0} {}
};

// Calls multiply(Depth<values of k>, panel of A, panel of B) for all panels of matrices first .. first + count - 1, of
// which STAGES - 1 are under way. Barriers: tiles and warps are described in kernel_tiles.cuh and kernel_tensor.cuh.
template <class P, class S, class Operands, class Multiply>
MANSARD_DEVICE void multiply_panels(const Operands& x, unsigned char* arena, i64 first, int count, i64 batch, int rank,
                                    Multiply multiply) {
  using T = typename P::T;
  const auto place_a = [&](int at) { return reinterpret_cast<T*>(arena + at * S::STAGE); };
  const auto place_b = [&](int at) { return reinterpret_cast<T*>(arena + at * S::STAGE + S::A::BYTES); };
  const auto fill = [&](int panel, int at) {
    if (panel < S::PANELS) {
      S::A::template fill<S::THREADS>(place_a(at), x.A, first, count, batch, panel, rank);
      if constexpr (P::TWO) S::B::template fill<S::THREADS>(place_b(at), x.B, first, count, batch, panel, rank);
    }
    cp_async_commit();
  };
  constexpr int AHEAD = P::STAGES > 1 ? P::STAGES - 1 : 1;  // panels under way
  MANSARD_UNROLL
  for (int panel = 0; panel < AHEAD; ++panel) fill(panel, panel);
  int at = 0;
MANSARD_UNROLL_BY(1)
  for (int panel = 0; panel < S::PANELS; ++panel) {
    cp_async_wait<AHEAD - 1>();
    __syncthreads();  // this panel: the copies of all threads have arrived; the panel before: all threads have read it
    if constexpr (S::PANELS > 1) fill(panel + AHEAD, at == 0 ? P::STAGES - 1 : at - 1);
    const T* a = S::A::origin(place_a(at), x.A, first, panel);
    const T* b = a;
    if constexpr (P::TWO) b = S::B::origin(place_b(at), x.B, first, panel);
    if (S::LAST == S::A::DEPTH || panel + 1 < S::PANELS) multiply(Depth<S::A::DEPTH>(), a, b);
    else multiply(Depth<S::LAST>(), a, b);
    if (++at == P::STAGES) at = 0;
  }
}

template <class R>
MANSARD_DEVICE R real_part(R x) {
  return x;
}
template <class R>
MANSARD_DEVICE Complex<R> real_part(Complex<R> x) {
  return {x.re, R(0)};
}

template <class P, class S>
struct Triangle {
  using T = typename P::T;
  using C = typename S::C;
  static constexpr int N = P::N;
  static constexpr bool FULL = P::UPLO == Uplo::full, UPPER = P::UPLO == Uplo::upper;
  // Entries of a triangle by pairs of rows p and N - 1 - p, which have N + 1 entries together.
  static constexpr int WIDTH = N + 1, ENTRIES = (N + 1) / 2 * WIDTH;
  static constexpr int AT_ONCE = 4;  // entries of a thread that are under way together

  // Entry (row, column) of the lower triangle goes to place(row, column), or (column, row), or both.
  template <class At>
  static MANSARD_DEVICE void put(int row, int column, T entry, At at) {
    const T below = S::HERMITIAN && row == column ? real_part(entry) : entry;
    if constexpr (!UPPER) at(row, column, below);
    if constexpr (UPPER || FULL)
      if (UPPER || row != column) at(column, row, S::HERMITIAN ? conjugate(below) : below);
  }
  template <class Tile>
  static MANSARD_DEVICE void gather(const Tile& tile, T* image, const Scales& scales) {
    tile.for_each(scales, [&](int row, int column, T entry) {
      put(row, column, entry, [&](int i, int j, T x) { image[i * C::PITCH + j] = x; });
    });
  }

  static MANSARD_DEVICE T with_old(const Scales& scales, T entry, T old, bool is_diagonal) {
    const T sum = scales.with_old(entry, old);
    return S::HERMITIAN && is_diagonal ? real_part(sum) : sum;
  }

  // Store the images of `count` matrices; `memory` is where they begin, up to their shift.
  template <int THREADS, class Operands>
  static MANSARD_DEVICE void store(const T* memory, const T* image, const Operands& x, i64 first, int count, int rank) {
    if constexpr (FULL) {
      C::template store<THREADS, false>(memory, x.C, first, count, x.scales, rank);
    } else if (P::GROUP > 1 && is_batch_last(x.C)) {
      store_across<THREADS>(image, x, first, count, rank);
    } else if constexpr (ENTRIES <= THREADS) {
      store_entries<THREADS>(image, x, first, count, rank);
    } else if constexpr (C::FEED != Feed::elements) {
      store_pieces<THREADS>(memory, x, first, count, rank);
    } else {
MANSARD_UNROLL_BY(1)
      for (int m = 0; m < count; ++m) store_rows<THREADS / 32>(image + m * C::MATRIX, x, first + m, rank);
    }
  }

 private:
  struct Entry {
    int row, column;
    bool exists;
  };
  // Entry q of the triangle, whose rows come in pairs; of an odd number of rows the middle one is alone.
  static MANSARD_DEVICE Entry entry_of(int q) {
    const int pair = q / WIDTH, i = q % WIDTH;
    const int row = i <= pair ? pair : N - 1 - pair, column = i <= pair ? i : i - pair - 1;
    const bool exists = N % 2 == 0 || pair < N / 2 || i <= pair;
    return {UPPER ? N - 1 - row : row, UPPER ? N - 1 - column : column, exists};
  }
  // Write entries AT_ONCE at a time: visit(j, use) calls use(address, image, on the diagonal) for entry j, if it exists.
  template <class Visit>
  static MANSARD_DEVICE void write(const Scales& scales, Visit visit) {
    if constexpr (P::ACCUMULATE) {
      T old[AT_ONCE] = {};
      MANSARD_UNROLL
      for (int j = 0; j < AT_ONCE; ++j) visit(j, [&](const T* at, const T*, bool) { old[j] = *at; });
      MANSARD_UNROLL
      for (int j = 0; j < AT_ONCE; ++j)
        visit(j, [&](T* at, const T* from, bool diagonal) { *at = with_old(scales, *from, old[j], diagonal); });
    } else {
      MANSARD_UNROLL
      for (int j = 0; j < AT_ONCE; ++j) visit(j, [&](T* at, const T* from, bool) { *at = *from; });
    }
  }

  // A thread has one entry of every matrix of a part of the group.
  template <int THREADS, class Operands>
  static MANSARD_DEVICE void store_entries(const T* image, const Operands& x, i64 first, int count, int rank) {
    constexpr int TEAMS = THREADS / ENTRIES;
    const int team = rank / ENTRIES;
    const Entry entry = entry_of(rank % ENTRIES);
    if (team >= TEAMS || !entry.exists) return;
    const i64 inside = entry.row * x.C.line + entry.column * x.C.step;
    const T* from = image + entry.row * C::PITCH + entry.column;
MANSARD_UNROLL_BY(1)
    for (int begin = team; begin < count; begin += AT_ONCE * TEAMS)
      write(x.scales, [&](int j, auto use) {
        if (const int m = begin + j * TEAMS; m < count)
          use(matrix_at(x.C.base, x.C.matrix, first + m) + inside, from + m * C::MATRIX, entry.row == entry.column);
      });
  }
  // Neighbouring threads have the same entry of neighbouring matrices.
  template <int THREADS, class Operands>
  static MANSARD_DEVICE void store_across(const T* image, const Operands& x, i64 first, int count, int rank) {
MANSARD_UNROLL_BY(1)
    for (int begin = rank; begin < P::GROUP * ENTRIES; begin += AT_ONCE * THREADS)
      write(x.scales, [&](int j, auto use) {
        const int e = begin + j * THREADS, m = e % P::GROUP;
        const Entry entry = entry_of(e / P::GROUP);
        if (e >= P::GROUP * ENTRIES || m >= count || !entry.exists) return;
        use(matrix_at(x.C.base, x.C.matrix, first + m) + entry.row * x.C.line + entry.column * x.C.step,
            image + m * C::MATRIX + entry.row * C::PITCH + entry.column, entry.row == entry.column);
      });
  }
  // A thread has every THREADS-th run of 16 bytes of the group, of both triangles. What lies in the triangle leaves with
  // one instruction; of pieces that straddle the diagonal, or the end of a line, entries leave one by one.
  template <int THREADS, class Operands>
  static MANSARD_DEVICE void store_pieces(const T* memory, const Operands& x, i64 first, int count, int rank) {
    if constexpr (C::FEED == Feed::flat) {
      T* const to = x.C.base + first * C::SIZE;
      const int skip = C::shift(to);
MANSARD_UNROLL_BY(4)
      for (int i = rank; i < C::PIECES; i += THREADS) {
        const int e = i * C::VECTOR - skip;  // of the group, the first of the piece
        const int begin = max(0, -e), end = min(C::VECTOR, count * C::SIZE - e);
        store_piece(to + e, memory + C::position(i * C::VECTOR), (e + C::SIZE) % C::SIZE, begin, end, x.scales);
      }
    } else {
      constexpr int RUN = C::FEED == Feed::lines ? N : C::SIZE, RUNS = C::SIZE / RUN, EACH = ceil_div(RUN, C::VECTOR);
MANSARD_UNROLL_BY(4)
      for (int i = rank; i < count * RUNS * EACH; i += THREADS) {
        const int run = i / EACH, e = i % EACH * C::VECTOR, line = run % RUNS;
        T* const to = matrix_at(x.C.base, x.C.matrix, first + run / RUNS) + line * x.C.line + e;
        store_piece(to, memory + C::position(run * RUN + e), line * RUN + e, 0, min(C::VECTOR, RUN - e), x.scales);
      }
    }
  }
  // Store entries begin .. end - 1 of a piece that begins with entry `at` of a matrix, in the order of memory.
  static MANSARD_DEVICE void store_piece(T* to, const T* from, int at, int begin, int end, const Scales& scales) {
    const auto inside = [&](int j) {
      const int row = (at + j) / N % N, column = (at + j) % N;
      return UPPER ? column >= row : column <= row;
    };
    const auto on_diagonal = [&](int j) { return (at + j) % C::SIZE % (N + 1) == 0; };
    bool whole = begin == 0 && end == C::VECTOR;
    MANSARD_UNROLL
    for (int j = 0; j < C::VECTOR; ++j) whole = whole && inside(j);
    if (whole) {
      auto pack = *reinterpret_cast<const Pack<T, C::VECTOR>*>(from);
      if constexpr (P::ACCUMULATE) {
        const auto old = *reinterpret_cast<const Pack<T, C::VECTOR>*>(to);
        MANSARD_UNROLL
        for (int j = 0; j < C::VECTOR; ++j) pack.e[j] = with_old(scales, pack.e[j], old.e[j], on_diagonal(j));
      }
      store_pack(to, pack);
      return;
    }
    MANSARD_UNROLL
    for (int j = 0; j < C::VECTOR; ++j)
      if (j >= begin && j < end && inside(j))
        to[j] = P::ACCUMULATE ? with_old(scales, from[j], to[j], on_diagonal(j)) : from[j];
  }
  // A warp has every WARPS-th row.
  template <int WARPS, class Operands>
  static MANSARD_DEVICE void store_rows(const T* image, const Operands& x, i64 index, int rank) {
    T* const to = matrix_at(x.C.base, x.C.matrix, index);
    const int lane = rank % 32;
MANSARD_UNROLL_BY(1)
    for (int row = rank / 32; row < N; row += WARPS) {
      const int begin = UPPER ? row : 0, end = UPPER ? N : row + 1;
      T* const line = to + row * x.C.line;
      const T* const from = image + row * C::PITCH;
MANSARD_UNROLL_BY(1)
      for (int column = begin + lane; column < end; column += AT_ONCE * 32)
        write(x.scales, [&](int j, auto use) {
          if (const int c = column + j * 32; c < end) use(line + c * x.C.step, from + c, c == row);
        });
    }
  }

 public:
  // Store a tile from registers.
  template <class Tile, class Operands>
  static MANSARD_DEVICE void direct(const Tile& tile, const Operands& x, i64 index) {
    T* to = matrix_at(x.C.base, x.C.matrix, index);
    tile.for_each(x.scales, [&](int row, int column, T entry) { direct_entry(to, row, column, entry, x); });
  }
  // Store entry (row, column) of the lower triangle to the matrix at `to`.
  template <class Operands>
  static MANSARD_DEVICE void direct_entry(T* to, int row, int column, T entry, const Operands& x) {
    put(row, column, entry, [&](int i, int j, T value) {
      T* at = to + i * x.C.line + j * x.C.step;
      *at = P::ACCUMULATE ? with_old(x.scales, value, *at, i == j) : value;
    });
  }
};

}  // namespace mansard
