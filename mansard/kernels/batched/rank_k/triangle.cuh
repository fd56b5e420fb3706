// How C leaves: one triangle, or both, one the mirror of the other; by way of an image in shared memory, or directly.
#pragma once
#include "kernels/batched/rank_k/factors.cuh"

namespace mansard {

template <int VALUE_>
struct Depth {
  static constexpr int VALUE = VALUE_;
};

// What leaves at once. An entry of complex128 may begin at any multiple of eight bytes, a pack of one may not.
template <class T, int COUNT, bool ANYWHERE>
struct Leaving : Pack<T, COUNT> {};
template <class T>
struct Leaving<T, 1, true> {
  T e[1];
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
  static constexpr int AT_ONCE = 4;  // pieces of a thread that are under way together

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
    if constexpr (FULL) C::template store<THREADS, false>(memory, x.C, first, count, x.scales, rank);
    else if (P::GROUP > 1 && is_batch_last(x.C)) store_across<THREADS>(image, x, first, count, rank);
    else
      store_pieces<THREADS>(image, x, first, count, rank);
  }

 private:
  // PIECE adjacent entries of a row leave together, where they lie on boundaries of their common size. A triangle has
  // COUNT pieces: rows come in blocks of PIECE, of which row r of block b has b + 1, the last one with r + 1 entries. Row
  // r of block b and row r of block BLOCKS - 1 - b have WIDTH pieces together; of an odd number of blocks the middle one
  // is alone. Those of an upper triangle are mirrored in both directions.
  static constexpr int PIECE = C::FEED == Feed::elements ? 1 : C::READ;
  static constexpr int BLOCKS = N / PIECE, WIDTH = BLOCKS + 1, COUNT = (BLOCKS + 1) / 2 * PIECE * WIDTH;
  using Taken = Leaving<T, PIECE, C::FEED == Feed::elements>;
  struct Piece {
    int row, column, entries;  // of an upper triangle, the last ones of the piece
    bool exists;
  };
  static MANSARD_DEVICE Piece piece_of(int q) {
    const int pair = q / WIDTH, i = q % WIDTH, block = pair / PIECE, r = pair % PIECE;
    const bool first = i <= block;
    const int row = (first ? block : BLOCKS - 1 - block) * PIECE + r, at = first ? i : i - block - 1;
    const int entries = (at + 1) * PIECE > row ? r + 1 : PIECE;
    const bool exists = BLOCKS % 2 == 0 || block < BLOCKS / 2 || first;
    return {UPPER ? N - 1 - row : row, UPPER ? N - PIECE - at * PIECE : at * PIECE, entries, exists};
  }
  // Call use(address, image, index) for the entries of a piece that are in the triangle, one by one.
  template <class Use>
  static MANSARD_DEVICE void each_entry(int entries, Use use) {
    MANSARD_UNROLL
    for (int i = 0; i < PIECE; ++i)
      if (i == 0 || i < entries) use(UPPER ? PIECE - 1 - i : i);
  }
  // Write pieces AT_ONCE at a time: visit(j, use) calls use(address, image, entries, entry on the diagonal or -1) for
  // piece j, if it exists.
  template <class Visit>
  static MANSARD_DEVICE void write(const Scales& scales, Visit visit) {
    T old[AT_ONCE][PIECE] = {};
    if constexpr (P::ACCUMULATE)
      MANSARD_UNROLL
      for (int j = 0; j < AT_ONCE; ++j)
        visit(j, [&](const T* at, const T*, int entries, int) {
          each_entry(entries, [&](int i) { old[j][i] = at[i]; });
        });
    MANSARD_UNROLL
    for (int j = 0; j < AT_ONCE; ++j)
      visit(j, [&](T* at, const T* from, int entries, int diagonal) {
        Taken pack = *reinterpret_cast<const Taken*>(from);
        if constexpr (P::ACCUMULATE)
          MANSARD_UNROLL
          for (int i = 0; i < PIECE; ++i) pack.e[i] = with_old(scales, pack.e[i], old[j][i], i == diagonal);
        if (PIECE == 1 || entries == PIECE) *reinterpret_cast<Taken*>(at) = pack;
        else
          each_entry(entries, [&](int i) { at[i] = pack.e[i]; });
      });
  }

  // A thread has the same pieces of every matrix of its team's share of the group.
  template <int THREADS, class Operands>
  static MANSARD_DEVICE void store_pieces(const T* image, const Operands& x, i64 first, int count, int rank) {
    constexpr int TEAMS = COUNT < THREADS ? THREADS / COUNT : 1;
    constexpr int DEEP = TEAMS > 1 || P::GROUP >= AT_ONCE ? AT_ONCE : 1, WIDE = AT_ONCE / DEEP;  // matrices, pieces
    const int team = TEAMS > 1 ? rank / COUNT : 0, start = TEAMS > 1 ? rank % COUNT : rank;
    if (TEAMS > 1 && team >= TEAMS) return;
MANSARD_UNROLL_BY(1)
    for (int q = start; q < COUNT; q += WIDE * THREADS) {
      Piece pieces[WIDE];
      MANSARD_UNROLL
      for (int j = 0; j < WIDE; ++j) pieces[j] = piece_of(q + j * THREADS);
MANSARD_UNROLL_BY(1)
      for (int begin = team; begin < count; begin += DEEP * TEAMS)
        write(x.scales, [&](int j, auto use) {
          const Piece& piece = pieces[j % WIDE];
          const int m = begin + j / WIDE * TEAMS;
          if (!piece.exists || j % WIDE > 0 && q + j % WIDE * THREADS >= COUNT || j / WIDE > 0 && m >= count) return;
          store_piece(x, image, first, m, piece, use);
        });
    }
  }
  // Neighbouring threads have the same piece of neighbouring matrices.
  template <int THREADS, class Operands>
  static MANSARD_DEVICE void store_across(const T* image, const Operands& x, i64 first, int count, int rank) {
MANSARD_UNROLL_BY(1)
    for (int begin = rank; begin < P::GROUP * COUNT; begin += AT_ONCE * THREADS)
      write(x.scales, [&](int j, auto use) {
        const int e = begin + j * THREADS, m = e % P::GROUP;
        const Piece piece = piece_of(e / P::GROUP);
        if (e < P::GROUP * COUNT && m < count && piece.exists) store_piece(x, image, first, m, piece, use);
      });
  }
  template <class Operands, class Use>
  static MANSARD_DEVICE void store_piece(const Operands& x, const T* image, i64 first, int m, const Piece& piece,
                                         Use use) {
    T* const to = matrix_at(x.C.base, x.C.matrix, first + m);
    const int diagonal = piece.row - piece.column;
    use(to + piece.row * x.C.line + piece.column * x.C.step,
        image + m * C::MATRIX + piece.row * C::PITCH + piece.column, piece.entries, diagonal);
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
