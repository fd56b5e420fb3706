// Products of one size class of a ragged batch on the tensor cores (float64, complex128): whole matrices, one team
// each.
//
// Team. WARPS_M x WARPS_N warps take one product of the sorted list after the other. C is cut into squares of 16,
// distributed cyclically over the warps: only those that exist are computed, and they are shared evenly. Lane (g, t)
// supplies A[row(g)][k + t] and B[k + t][column(g)] (mma.cuh); which of 16 rows or columns belong to g is free, and is
// chosen so that the lanes' words lie in different banks (`Choice`). Rows and columns beyond the end are computed and
// not stored.
//
// Shared memory of a team, ROOM elements: A and B of the product at `place`, in the layout of laid.cuh; C replaces
// them. The next product is copied behind them, or before them, as soon as it fits there (`early`); otherwise after C
// is stored.
//
// Barriers (meet -> buffer -> writer):
//   after the copies   -> A and B -> copies of other threads
//   products formed    -> A and B, read by all -> C
//   C written          -> C -> other threads, before it is stored
//   C stored           -> the place -> copies of later products
//
//   CLASS, WIDTH      part of the list, and the most rows or columns in it
//   WARPS_M, WARPS_N  warps of a team, along the rows and the columns of C
//   PER_BLOCK, ROOM   teams per block; KiB of shared memory that they share
//   EACH              rounds of products of a block (items.cuh)
//   TRANS_A|B, CONJ_A|B, ACCUMULATE
#pragma once
#include "kernels/batched/ragged_gemm/items.cuh"
#include "kernels/batched/ragged_gemm/laid.cuh"
#include "kernels/batched/ragged_gemm/tensor_sums.cuh"

namespace mansard {

template <class P>
struct RaggedWhole {
  using T = typename P::T;
  static constexpr int TEAM = 32 * P::WARPS_M * P::WARPS_N;  // threads
  static constexpr int TILES_M = ceil_div(ceil_div(P::WIDTH, 16), P::WARPS_M);
  static constexpr int TILES_N = ceil_div(ceil_div(P::WIDTH, 16), P::WARPS_N);
  static constexpr int OVERHANG = 16;  // elements that are read beyond the end of an operand
  static constexpr int OF_TEAM = P::SHARED_BYTES / 16 / P::PER_BLOCK * 16 / int(sizeof(T)), ROOM = OF_TEAM - OVERHANG;
  using Matrix = Laid<T, P::WIDTH, sizeof(T) == 16 ? 2 : 4>;
  static_assert(2 * Matrix::MOST <= ROOM, "shared memory");

  // Barrier of a team.
  static MANSARD_DEVICE void meet() {
    if constexpr (TEAM == 32) __syncwarp();
    else if constexpr (P::PER_BLOCK == 1) __syncthreads();
    else named_barrier_sync(1 + threadIdx.x / TEAM, TEAM);
  }
};

// The two of 16 rows (or columns) that belong to g: of(g) and of(g) + second. Each bit of g adds its own distance.
// Pitches are not multiples of eight.
template <bool K_ADJACENT>
struct Choice {
  const int first_bit, second_bit, third_bit, second;
  MANSARD_DEVICE Choice(int pitch) : Choice(pitch % 4 == 0, pitch % 2 == 0) {}
  MANSARD_DEVICE int of(int g) const { return g % 2 * first_bit + g / 2 % 2 * second_bit + g / 4 * third_bit; }

 private:
  MANSARD_DEVICE Choice(bool by_fours, bool even)
      : first_bit(by_fours ? 1 : even ? (K_ADJACENT ? 2 : 1) : 4), second_bit(by_fours ? 2 : even && K_ADJACENT ? 4 : 8),
        third_bit(by_fours ? 4 : even && K_ADJACENT ? 8 : 2), second(by_fours ? 8 : even && !K_ADJACENT ? 4 : 1) {}
};

// Addresses of an operand's fragments: COUNT squares, APART rows (or columns) from each other, advancing along k.
template <class T, bool K_ADJACENT, int COUNT, int APART>
struct Fragments4 {
  static constexpr int LINES = K_ADJACENT ? COUNT : 1, ITEM = int(sizeof(T));
  const unsigned char* const memory;  // the arena; offsets then fit into 32 bits
  int at[LINES][2];                   // bytes
  const int step;

  // The operand begins at element `origin`; `first` is the first row (or column) of the first square, `size` their
  // number.
  MANSARD_DEVICE Fragments4(const T* memory, int origin, int pitch, int first, int size, int g, int t)
      : memory(reinterpret_cast<const unsigned char*>(memory)), step(4 * ITEM * (K_ADJACENT ? 1 : pitch)) {
    const Choice<K_ADJACENT> choice(pitch);
    MANSARD_UNROLL
    for (int i = 0; i < LINES * 2; ++i) {
      const int line = first + i / 2 * APART + choice.of(g) + i % 2 * choice.second;
      // a row beyond the end might lie beyond the end of shared memory
      at[i / 2][i % 2] = ITEM * (origin + (K_ADJACENT ? min(line, size - 1) * pitch + t : t * pitch + line));
    }
  }
  MANSARD_DEVICE T operator()(int square, int which) const {
    const int offset = K_ADJACENT ? at[square % LINES][which] : at[0][which] + square * APART * ITEM;
    return reinterpret_cast<const Pack<T, 1>*>(memory + offset)->e[0];
  }
  MANSARD_DEVICE void advance() {
    MANSARD_UNROLL
    for (int i = 0; i < LINES * 2; ++i) at[i / 2][i % 2] += step;
  }
};

// A warp's squares of C: every WARPS_M-th row and every WARPS_N-th column of squares.
template <class P>
struct Squares {
  using S = RaggedWhole<P>;
  using T = typename P::T;
  static constexpr int APART_M = 16 * P::WARPS_M, APART_N = 16 * P::WARPS_N;
  static constexpr bool K_ADJACENT_A = !P::TRANS_A, K_ADJACENT_B = P::TRANS_B;
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int row = static_cast<int>(threadIdx.x) % S::TEAM / 32 / P::WARPS_N * 16;
  const int column = static_cast<int>(threadIdx.x) / 32 % P::WARPS_N * 16;
  TensorSums<T> sums[S::TILES_M][S::TILES_N][2];

  struct Operand {
    const T* memory;
    int origin, pitch;
  };
  // Form the products, with loops for as many squares as exist.
  template <int M = S::TILES_M>
  MANSARD_DEVICE void multiply(const Item& item, const Operand& A, const Operand& B) {
    if (row + (M - 1) * APART_M < item.m) multiply_rows<M>(item, A, B);
    else if constexpr (M > 1) multiply<M - 1>(item, A, B);
  }
  template <int M, int N = S::TILES_N>
  MANSARD_DEVICE void multiply_rows(const Item& item, const Operand& A, const Operand& B) {
    if (column + (N - 1) * APART_N < item.n) multiply_all<M, N>(item, A, B);
    else if constexpr (N > 1) multiply_rows<M, N - 1>(item, A, B);
  }
  template <int M, int N>
  MANSARD_DEVICE void multiply_all(const Item& item, const Operand& A, const Operand& B) {
    Fragments4<T, K_ADJACENT_A, M, APART_M> left(A.memory, A.origin, A.pitch, row, item.m, g, t);
    Fragments4<T, K_ADJACENT_B, N, APART_N> right(B.memory, B.origin, B.pitch, column, item.n, g, t);
    begin<M, N>();
    if (item.k < 4) {
      if (item.k > 0) step<M, N>(left, right, t < item.k);
      return;
    }
    int k = 4;
    step<M, N>(left, right, true);  // the first step, added to zeros
MANSARD_UNROLL_BY(1)
    for (; k + 4 <= item.k; k += 4) {
      left.advance(), right.advance();
      step<M, N>(left, right, true);
    }
    if (k == item.k) return;
    left.advance(), right.advance();
    step<M, N>(left, right, t < item.k - k);
  }
  template <int M, int N>
  MANSARD_DEVICE void begin() {
    MANSARD_UNROLL
    for (int i = 0; i < M * N * 2; ++i) sums[i / (N * 2)][i / 2 % N][i % 2].begin(zero<T>());
  }
  // Four values of k; lanes beyond the end of k supply zeros.
  template <int M, int N, class Left, class Right>
  MANSARD_DEVICE void step(const Left& left, const Right& right, bool inside) {
    T a[M][2], b[N][2];
    MANSARD_UNROLL
    for (int i = 0; i < M * 2; ++i) a[i / 2][i % 2] = inside ? left(i / 2, i % 2) : zero<T>();
    MANSARD_UNROLL
    for (int i = 0; i < N * 2; ++i) b[i / 2][i % 2] = inside ? right(i / 2, i % 2) : zero<T>();
    MANSARD_UNROLL
    for (int n = 0; n < N * 2; ++n)
      MANSARD_UNROLL
      for (int m = 0; m < M; ++m)
        sums[m][n / 2][n % 2].template add<P::CONJ_A, P::CONJ_B>(a[m][0], a[m][1], b[n / 2][n % 2]);
  }

  // Write alpha times the sums to C in shared memory. `a_pitch` and `b_pitch` determine which rows and columns a lane
  // has.
  MANSARD_DEVICE void lay_down(T* C, int pitch, const Item& item, int a_pitch, int b_pitch,
                               const Scales& scales) const {
    const Choice<K_ADJACENT_A> rows(a_pitch);
    const Choice<K_ADJACENT_B> columns(b_pitch);
    const int first = row + rows.of(g), sides[2] = {column + columns.of(2 * t), column + columns.of(2 * t + 1)};
    MANSARD_UNROLL
    for (int m = 0; m < S::TILES_M * 2; ++m) {
      const int r = first + m / 2 * APART_M + m % 2 * rows.second;
      T* const line = C + r * pitch;
      MANSARD_UNROLL
      for (int i = 0; i < S::TILES_N * 4; ++i) {
        const int n = i / 4, tile = i / 2 % 2, side = i % 2;
        const int c = sides[side] + n * APART_N + tile * columns.second;
        if (r < item.m && c < item.n)
          *reinterpret_cast<Pack<T, 1>*>(line + c) = {scales.product(sums[m / 2][n][tile][m % 2 * 2 + side])};
      }
    }
  }
};

// A product's matrices in shared memory.
template <class P>
struct Whole {
  using Matrix = typename RaggedWhole<P>::Matrix;
  const int deep, a_rows, b_rows;
  const Matrix a, b, c;

  MANSARD_DEVICE Whole(const Item& item)
      : deep(max(item.k, 0)), a_rows(P::TRANS_A ? deep : item.m), b_rows(P::TRANS_B ? item.n : deep),
        a(a_rows, P::TRANS_A ? item.m : deep), b(b_rows, P::TRANS_B ? deep : item.n), c(item.m, item.n) {}

  // Offset of B from A's place; below, elements that A and B need together, or C, which replaces them.
  MANSARD_DEVICE int place_b() const { return Matrix::room(a_rows, a.pitch); }
  MANSARD_DEVICE int room(int m) const {
    return max(place_b() + Matrix::room(b_rows, b.pitch), Matrix::room(m, c.pitch));
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void ragged_whole(const Arguments& x) {
  using S = RaggedWhole<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(T, shared);
  const int team = threadIdx.x / S::TEAM, rank = threadIdx.x % S::TEAM;
  T* const arena = shared + team * S::OF_TEAM;
  const Share<P, P::PER_BLOCK> share(x.starts);
  const i64 end = share.end, step = share.step;
  const auto item_at = [&](i64 i) { return i < end ? x.items[i] : Item{}; };
  const auto fill = [&](const Item& item, int place) {
    const Whole<P> whole(item);
    whole.a.template fill<S::TEAM>(arena + place, x.A + item.a, rank);
    whole.b.template fill<S::TEAM>(arena + place + whole.place_b(), x.B + item.b, rank);
  };

  i64 i = share.begin + team;
  Item item = item_at(i), next = item_at(i + step);
  int place = 0;
  fill(item, place);
  cp_async_commit();
MANSARD_UNROLL_BY(1)
  for (; i < end; i += step) {
    // where sizes do not fit, alpha is NaN, and so is every entry of C
    const Scales scales{item.k < 0 ? Start<double>::of(true) : x.alpha_re, x.alpha_im, x.beta_re, x.beta_im};
    const Whole<P> whole(item);
    const int behind = place + whole.room(item.m), needed = Whole<P>(next).room(next.m);
    const bool fits = behind + needed <= S::ROOM, early = fits || needed <= place;
    const int next_place = fits ? behind : 0;
    if (early) fill(next, next_place);
    cp_async_commit();
    const Item after = item_at(i + 2 * step);
    cp_async_wait<1>();
    S::meet();  // A and B: the copies of all threads have arrived
    Squares<P> squares;
    const int origin_a = place + whole.a.shift(x.A + item.a);
    const int origin_b = place + whole.place_b() + whole.b.shift(x.B + item.b);
    squares.multiply(item, {arena, origin_a, whole.a.pitch}, {arena, origin_b, whole.b.pitch});
    S::meet();  // A and B are about to be overwritten by C; all threads have read them
    T* const C = x.C + item.c;
    squares.lay_down(arena + place + whole.c.shift(C), whole.c.pitch, item, whole.a.pitch, whole.b.pitch, scales);
    S::meet();  // C is complete, written by all threads of the team
    whole.c.template store<S::TEAM, P::ACCUMULATE>(C, arena + place, scales, rank);
    S::meet();  // the place is about to be overwritten by copies of later products; all threads have stored C
    if (!early) {
      fill(next, next_place);
      cp_async_commit();
    }
    item = next, next = after, place = next_place;
  }
}

}  // namespace mansard
