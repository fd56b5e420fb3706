// Panels of op(A) and op(B) in shared memory, sizes known at run time, and the order in which a block needs them.
//
// A panel is BLK_M rows and BLK_K columns of op(A), or BLK_K rows and BLK_N columns of op(B). Transposed operands are
// transposed during the copy. Elements beyond the end of a matrix are not read; their places keep their old content.
#pragma once
#include "kernels/batched/gemm/image.cuh"
#include "kernels/batched/ragged_gemm/items.cuh"
#include "mansard/gpu/async_words.cuh"

namespace mansard {

// A panel of LINES x LENGTH elements of global memory. In shared memory lines are PITCH apart, or (TURNED) become
// columns.
template <class T, int LINES, int LENGTH, int PITCH, bool TURNED, int THREADS>
struct Panel {
  static constexpr int VECTOR = 16 / int(sizeof(T));
  static MANSARD_DEVICE int position(int line, int e) { return TURNED ? e * PITCH + line : line * PITCH + e; }

  // Start the copies. `lines` lines of `length` elements exist; lines of global memory are `stride` elements apart.
  static MANSARD_DEVICE void fill(T* to, const T* from, i64 stride, int lines, int length, int rank) {
    const bool pieces = !TURNED && (VECTOR == 1 || stride % VECTOR == 0 && length % VECTOR == 0 &&
                                                       reinterpret_cast<u64>(from) % 16 == 0);
    if (pieces) fill_by<TURNED ? 1 : VECTOR>(to, from, stride, lines, length, rank);
    else fill_by<1>(to, from, stride, lines, length, rank);
  }

 private:
  // A thread copies AT_ONCE elements of every LINES_AT_ONCE-th line.
  template <int AT_ONCE>
  static MANSARD_DEVICE void fill_by(T* to, const T* from, i64 stride, int lines, int length, int rank) {
    constexpr int OF_LINE = LENGTH / AT_ONCE, LINES_AT_ONCE = THREADS / OF_LINE;
    static_assert(LENGTH % AT_ONCE == 0 && THREADS % OF_LINE == 0, "even shares");
    const int first = rank / OF_LINE, e = rank % OF_LINE * AT_ONCE;
    if (e >= length) return;
    T* place = to + position(first, e);
    const T* piece = from + first * stride + e;
MANSARD_UNROLL_BY(8)
    for (int line = first; line < LINES; line += LINES_AT_ONCE) {
      if (line < lines) cp_async_word<AT_ONCE * int(sizeof(T))>(place, piece);
      place += position(LINES_AT_ONCE, 0), piece += LINES_AT_ONCE * stride;
    }
  }
};

// One panel of a tile: offsets of the parts of op(A) and op(B) and strides of their lines; offset of the tile of C and
// width n of C; rows and columns from there to the end of the matrix; number of values of k.
struct Step {
  enum { NOTHING = 0, SOME = 1, FIRST = 2, LAST = 4, MISFIT = 8 };  // FIRST, LAST of the tile; MISFIT: C becomes NaN
  i64 a, b, c;
  int a_stride, b_stride, n, rows, columns, deep, flags, unused;
};

template <class P>
struct RaggedPanels {
  using T = typename P::T;
  // padding against bank conflicts; for 16-byte elements the lanes that load operand B of the tensor cores at once are
  // adjacent in two lines
  static constexpr int PAD_A = 4, PAD_B = sizeof(T) == 16 ? 2 : 4;
  static constexpr int PITCH_A = P::BLK_K + PAD_A, PITCH_B = P::BLK_N + PAD_B;
  static constexpr int SIZE_A = P::BLK_M * PITCH_A, STAGE = SIZE_A + P::BLK_K * PITCH_B;  // elements
  static_assert(P::STAGES * STAGE * int(sizeof(T)) <= P::SHARED_BYTES, "shared memory");
  using A = Panel<T, P::TRANS_A ? P::BLK_K : P::BLK_M, P::TRANS_A ? P::BLK_M : P::BLK_K, PITCH_A, P::TRANS_A,
                  P::THREADS>;
  using B = Panel<T, P::TRANS_B ? P::BLK_N : P::BLK_K, P::TRANS_B ? P::BLK_K : P::BLK_N, PITCH_B, P::TRANS_B,
                  P::THREADS>;

  static MANSARD_DEVICE void fill(T* stage, const T* matrix_a, const T* matrix_b, const Step& step, int rank) {
    A::fill(stage, matrix_a + step.a, step.a_stride, P::TRANS_A ? step.deep : step.rows,
            P::TRANS_A ? step.rows : step.deep, rank);
    B::fill(stage + SIZE_A, matrix_b + step.b, step.b_stride, P::TRANS_B ? step.columns : step.deep,
            P::TRANS_B ? step.deep : step.columns, rank);
  }
};

// Plans the steps of a block: all panels of a tile, all tiles of a product, all products. One thread does it.
template <class P, class Arguments>
class Course {
 public:
  // State of the planning thread; in shared memory, since it would cost registers in all threads.
  struct Now {
    i64 first, end, i;
    Item item;
    Step step;  // the next step, as if all values of k that are left were one panel
    int tile;
  };
  MANSARD_DEVICE Course(const Arguments& x, Now& now) : x_(x), now_(now) {}

  MANSARD_DEVICE void begin() {
    now_.first = x_.starts[P::CLASS], now_.end = (x_.starts[P::CLASS + 1] - now_.first) * P::SLOTS;
    now_.i = blockIdx.x;
    next_ = item_at(now_.i);
    take_product();
  }

  MANSARD_DEVICE void plan(Step& to) {
    Step step = now_.step;
    const int left = step.deep - P::BLK_K;
    step.deep = min(step.deep, P::BLK_K);
    if (step.flags != Step::NOTHING && left <= 0) step.flags |= Step::LAST;
    to = step;
    if (left > 0) {
      now_.step.a = step.a + (P::TRANS_A ? static_cast<i64>(P::BLK_K) * step.a_stride : P::BLK_K);
      now_.step.b = step.b + (P::TRANS_B ? P::BLK_K : static_cast<i64>(P::BLK_K) * step.b_stride);
      now_.step.deep = left, now_.step.flags = Step::SOME;
    } else if (step.flags != Step::NOTHING) {
      take_tile();
    }
  }

 private:
  const Arguments& x_;
  Now& now_;
  Item next_ = {};  // the next product, loaded ahead

  MANSARD_DEVICE Item item_at(i64 i) const { return i < now_.end ? x_.items[now_.first + i / P::SLOTS] : Item{}; }
  static MANSARD_DEVICE int tiles(const Item& item) {
    return ceil_div(item.m, P::BLK_M) * ceil_div(item.n, P::BLK_N);
  }
  MANSARD_DEVICE void take_tile() {
    now_.tile += P::SLOTS;
    if (now_.tile < tiles(now_.item)) return settle();
    now_.i += gridDim.x;
    take_product();
  }
  // Move on to the first product, from i on, that has a tile for this block.
  MANSARD_DEVICE void take_product() {
MANSARD_UNROLL_BY(1)
    for (; now_.i < now_.end; now_.i += gridDim.x) {
      now_.item = next_;
      now_.tile = static_cast<int>((now_.i + beginner(now_.i / P::SLOTS, P::SLOTS)) % P::SLOTS);
      next_ = item_at(now_.i + gridDim.x);
      if (now_.tile < tiles(now_.item)) return settle();
    }
    now_.step.flags = Step::NOTHING, now_.step.deep = 0;
  }
  // Set `step` to the first step of the tile.
  MANSARD_DEVICE void settle() {
    const Item& item = now_.item;
    Step& step = now_.step;
    const int across = ceil_div(item.n, P::BLK_N), deep = max(item.k, 0);
    const int row = now_.tile / across * P::BLK_M, column = now_.tile % across * P::BLK_N;
    step.a_stride = P::TRANS_A ? item.m : deep, step.b_stride = P::TRANS_B ? deep : item.n;
    step.a = item.a + (P::TRANS_A ? row : static_cast<i64>(row) * deep);
    step.b = item.b + (P::TRANS_B ? static_cast<i64>(column) * deep : column);
    step.c = item.c + static_cast<i64>(row) * item.n + column;
    step.n = item.n, step.rows = item.m - row, step.columns = item.n - column, step.deep = deep;
    step.flags = Step::SOME | Step::FIRST | (item.k < 0 ? Step::MISFIT : 0);
  }
};

}  // namespace mansard
