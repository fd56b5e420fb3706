// C_b = alpha A_b B_b + beta C_b for a batch of small matrices on CPUs; sizes, layouts, strides and conjugations are
// arguments, so that one kernel of a dtype serves all products whose work does not earn a kernel of their own.
//
// Lanes run along the rows of C, as in kernel.hpp: rows of `right` are vectors, entries of `left` are broadcast, and a
// tile of C stays in registers from the first product to the last. A column-major C is the row-major C^T = B^T A^T. The
// products of an entry are added in the order of k with the same fused operations as there: both give the same bits.
//
// Tiles. A table has a function for each number of rows and vectors; the last vector of a row is loaded and stored only
// as far as it exists. A function computes its tile in many matrices, so that it is called rarely: a chunk of matrices
// goes through all tiles before the next one begins, and stays in the first cache meanwhile.
//
// Workspace of a thread: the right operands of a chunk in rows, where they have columns; once if all matrices share it.
//
// Limits: loads of `right` and broadcasts of `left`, one per multiply-add in tiles of one vector; rows of C that fill
// their vectors badly.
//
// Params beside T: none.
#pragma once
#include "kernels/batched/gemm/kernel.hpp"
#include "mansard/cpu/first_lanes.hpp"

namespace mansard {

// Matrices of a batch; strides count reals.
template <class R>
struct Run {
  R* data;
  i64 matrix, row, column;

  MANSARD_INLINE Run at(i64 b, i64 rows, i64 reals) const {
    return {data + b * matrix + rows * row + reals, matrix, row, column};
  }
};

template <class T>
struct RuntimeGemm {
  using R = typename Scalar<T>::Real;
  static constexpr int WORDS = Scalar<T>::WORDS, LANES = native_lanes<R>;
  using V = Vector<R, LANES>;
  static constexpr int REGISTERS = VECTOR_BYTES == 32 ? 12 : 24;  // for sums; SSE alone has half of those of ARM
  static constexpr int VECTORS = 2;                               // the most of a tile: more take longer to compile
  static constexpr i64 CHUNK = 1 << 14;                           // bytes of operands that are computed together

  // The most rows of a tile of so many vectors.
  static constexpr int rows(int vectors) { return smaller(8, REGISTERS / (vectors * WORDS)); }

  R alpha_re, alpha_im, beta_re, beta_im;
  bool unit, accumulate;
  V right_signs, signs;  // of complex numbers, for their conjugation (complex_product in operands.hpp)

  template <class Arguments>
  explicit RuntimeGemm(const Arguments& a)
      : alpha_re(static_cast<R>(a.alpha_re)), alpha_im(static_cast<R>(a.alpha_im)),
        beta_re(static_cast<R>(a.beta_re)), beta_im(static_cast<R>(a.beta_im)),
        unit(!a.accumulate && alpha_re == 1 && alpha_im == 0), accumulate(a.accumulate != 0) {
    const bool left = a.swap ? a.conj_b : a.conj_a, right = a.swap ? a.conj_a : a.conj_b;
    const R sign = left ? R(-1) : R(1);
    right_signs = alternating<R, LANES>(1, right ? R(-1) : R(1));
    signs = alternating<R, LANES>(right ? sign : -sign, sign);
  }

  MANSARD_INLINE V product(const V (&sums)[WORDS]) const {
    if constexpr (WORDS == 1) return sums[0];
    else return plus_product(V(sums[0] * right_signs), signs, exchange<1, R, LANES>(sums[1]));
  }
  MANSARD_INLINE V scaled_product(V sum) const { return scaled<WORDS, LANES>(alpha_re, alpha_im, sum); }
};

// ---- tiles ------------------------------------------------------------------------------------------------

template <class T, class R = typename RuntimeGemm<T>::R>
using RuntimeTile = void (*)(const RuntimeGemm<T>&, Run<const R> left, Run<const R> right, Run<R> out, i64 count,
                             i64 deep, int last);

// Compute a tile of ROWS rows and VECTORS vectors, the last of which has `last` reals, in `count` matrices.
template <class T, int ROWS, int VECTORS, class R = typename RuntimeGemm<T>::R>
void runtime_tile(const RuntimeGemm<T>& x, Run<const R> left, Run<const R> right, Run<R> out, i64 count, i64 deep,
                  int last) {
  using S = RuntimeGemm<T>;
  using V = typename S::V;
  const FirstLanes<R> end(last);
  for (i64 b = 0; b < count; ++b, left.data += left.matrix, right.data += right.matrix, out.data += out.matrix) {
    V sums[ROWS][VECTORS][S::WORDS];
    const auto step = [&](const R* a, const R* from, auto first) __attribute__((always_inline)) {
      V row[VECTORS];
      MANSARD_UNROLL
      for (int n = 0; n < VECTORS; ++n)
        row[n] = in_register(n < VECTORS - 1 ? load<S::LANES>(from + n * S::LANES) : end.load(from + n * S::LANES));
      MANSARD_UNROLL
      for (int m = 0; m < ROWS; ++m) {
        MANSARD_UNROLL
        for (int word = 0; word < S::WORDS; ++word) {
          const R entry = a[m * left.row + word];
          MANSARD_UNROLL
          for (int n = 0; n < VECTORS; ++n) {
            if constexpr (decltype(first)::value) sums[m][n][word] = entry * row[n];  // so zeros keep their signs
            else add_product(sums[m][n][word], entry, row[n]);
          }
        }
      }
    };
    const R *a = left.data, *from = right.data;
    step(a, from, std::true_type());
    for (i64 k = 1; k < deep; ++k) step(a += left.column, from += right.row, std::false_type());

    MANSARD_UNROLL
    for (int m = 0; m < ROWS; ++m) {
      MANSARD_UNROLL
      for (int n = 0; n < VECTORS; ++n) sums[m][n][0] = x.product(sums[m][n]);
    }
    if (!x.unit) {
      MANSARD_UNROLL
      for (int m = 0; m < ROWS; ++m) {
        MANSARD_UNROLL
        for (int n = 0; n < VECTORS; ++n) {
          V& sum = sums[m][n][0];
          sum = x.scaled_product(sum);
          if (!x.accumulate) continue;
          const R* const old = out.data + m * out.row + n * S::LANES;
          const V was = n < VECTORS - 1 ? load<S::LANES>(old) : end.load(old);
          add_scaled<S::WORDS, S::LANES>(sum, x.beta_re, x.beta_im, was);
        }
      }
    }
    MANSARD_UNROLL
    for (int m = 0; m < ROWS; ++m) {
      MANSARD_UNROLL
      for (int n = 0; n < VECTORS; ++n) {
        R* const to = out.data + m * out.row + n * S::LANES;
        if (n < VECTORS - 1) store<S::LANES>(to, sums[m][n][0]);
        else end.store(to, sums[m][n][0]);
      }
    }
  }
}

// Tile functions by number of rows and vectors. Not a static member of a template: the loader would merge it with those
// of other kernels.
template <class T>
struct RuntimeTiles {
  RuntimeTile<T> of[8][RuntimeGemm<T>::VECTORS] = {};

  RuntimeTiles() { fill(std::make_integer_sequence<int, RuntimeGemm<T>::VECTORS>()); }

 private:
  template <int... N>
  void fill(std::integer_sequence<int, N...>) {
    (fill_rows<N + 1>(std::make_integer_sequence<int, RuntimeGemm<T>::rows(N + 1)>()), ...);
  }
  template <int VECTORS, int... M>
  void fill_rows(std::integer_sequence<int, M...>) {
    ((of[M][VECTORS - 1] = &runtime_tile<T, M + 1, VECTORS>), ...);
  }
};

// ---- matrices times vectors -------------------------------------------------------------------------------

// y_b = alpha A_b x_b + beta y_b of real numbers, rows of A and x without gaps: lanes run along rows of A, LANES of which
// share the loads of x. Their sums are transposed, so that additions give LANES entries of y at once.
template <class T, class R = typename RuntimeGemm<T>::R>
void runtime_dots(const RuntimeGemm<T>& s, Run<const R> A, Run<const R> x, Run<R> y, i64 rows, i64 deep, i64 begin,
                  i64 end) {
  using V = typename RuntimeGemm<T>::V;
  constexpr int LANES = RuntimeGemm<T>::LANES;
  const i64 whole = deep / LANES * LANES;
  const FirstLanes<R> rest(static_cast<int>(larger<i64>(1, deep - whole)));
  const auto block = [&](const R* first, const R* vector, R* to, int high, auto full) __attribute__((always_inline)) {
    V sums[LANES] = {};
    const auto add = [&](i64 k, auto load_entries) __attribute__((always_inline)) {
      const V entries = load_entries(vector + k);
      MANSARD_UNROLL
      for (int r = 0; r < LANES; ++r)  // rows that do not exist repeat the last one
        add_product(sums[r], load_entries(first + (full ? r : smaller(r, high - 1)) * A.row + k), entries);
    };
    for (i64 k = 0; k < whole; k += LANES)
      add(k, [&](const R* p) __attribute__((always_inline)) { return load<LANES>(p); });
    if (whole < deep) add(whole, [&](const R* p) __attribute__((always_inline)) { return rest.load(p); });
    transpose<1, R, LANES>(sums);
    MANSARD_UNROLL
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
      MANSARD_UNROLL
      for (int r = 0; r < distance; ++r) sums[r] += sums[r + distance];
    }
    V value = s.unit ? sums[0] : s.scaled_product(sums[0]);
    if (y.row == 1) {
      const FirstLanes<R> part(high);
      if (s.accumulate) add_product(value, s.beta_re, part.load(to));
      return part.store(to, value);
    }
    for (int r = 0; r < high; ++r) {
      R entry = value[r];
      if (s.accumulate) add_product(entry, s.beta_re, to[r * y.row]);
      to[r * y.row] = entry;
    }
  };
  for (i64 b = begin; b < end; ++b) {
    const R* const vector = x.data + b * x.matrix;
    for (i64 i = 0; i < rows; i += LANES) {
      const R* const first = A.data + b * A.matrix + i * A.row;
      R* const to = y.data + b * y.matrix + i * y.row;
      if (i + LANES <= rows) block(first, vector, to, LANES, std::true_type());
      else block(first, vector, to, static_cast<int>(rows - i), std::false_type());
    }
  }
}

// ---- the batch --------------------------------------------------------------------------------------------

// Transpose a right operand of `deep` x `width` entries, whose columns are adjacent, into rows of `pitch` reals, whole
// vectors.
template <class T, class R = typename RuntimeGemm<T>::R>
void runtime_transpose(R* to, i64 pitch, const R* from, i64 column, i64 deep, i64 width) {
  constexpr int W = RuntimeGemm<T>::WORDS, LANES = RuntimeGemm<T>::LANES, SQUARE = LANES / W;
  for (i64 k = 0; k < deep; k += SQUARE) {
    const int high = static_cast<int>(smaller<i64>(SQUARE, deep - k));
    const FirstLanes<R> entries(high * W);
    for (i64 n = 0; n < width; n += SQUARE) {
      const int wide = static_cast<int>(smaller<i64>(SQUARE, width - n));
      Vector<R, LANES> square[SQUARE] = {};
      MANSARD_UNROLL
      for (int i = 0; i < SQUARE; ++i)
        if (i < wide) square[i] = entries.load(from + (n + i) * column + k * W);
      transpose<W, R, LANES>(square);
      MANSARD_UNROLL
      for (int i = 0; i < SQUARE; ++i)
        if (i < high) store<LANES>(to + (k + i) * pitch + n * W, square[i]);
    }
  }
}

// Compute matrices [begin, end), the part of one thread: C is m x n, `deep` products are added per entry.
template <class T, class R = typename RuntimeGemm<T>::R>
void runtime_part(const RuntimeGemm<T>& x, const RuntimeTiles<T>& tiles, Run<const R> left, Run<const R> right,
                  Run<R> out, i64 m, i64 n, i64 deep, i64 begin, i64 end, R* workspace) {
  using S = RuntimeGemm<T>;
  constexpr int W = S::WORDS;
  const i64 vectors = ceil_div<i64>(W * n, S::LANES), pitch = vectors * S::LANES;
  const bool turned = right.column != W && n > 1, once = turned && right.matrix == 0;
  const i64 chunk = larger<i64>(1, S::CHUNK / (deep * pitch * i64(sizeof(R))));
  if (once) runtime_transpose<T>(workspace, pitch, right.data, right.column, deep, n);
  for (i64 b = begin; b < end; b += chunk) {
    const i64 count = smaller(chunk, end - b);
    Run<const R> rows = right.at(b, 0, 0);
    if (turned) {
      rows = {workspace, once ? 0 : deep * pitch, pitch, W};
      for (i64 i = 0; i < count && !once; ++i)
        runtime_transpose<T>(workspace + i * rows.matrix, pitch, right.data + (b + i) * right.matrix, right.column, deep,
                             n);
    }
    for (i64 first = 0; first < vectors;) {
      const i64 wide = ceil_div(vectors - first, ceil_div<i64>(vectors - first, S::VECTORS)), at = first * S::LANES;
      const int last = static_cast<int>(smaller<i64>(W * n - at - (wide - 1) * S::LANES, S::LANES));
      const i64 blocks = ceil_div<i64>(m, S::rows(static_cast<int>(wide)));
      for (i64 block = 0; block < blocks; ++block) {
        const i64 row = m * block / blocks, high = m * (block + 1) / blocks - row;
        tiles.of[high - 1][wide - 1](x, left.at(b, row, 0), rows.at(0, 0, at), out.at(b, row, at), count, deep, last);
      }
      first += wide;
    }
  }
}

template <class P, class Arguments>
int gemm_runtime(const Arguments& a) {
  using T = typename P::T;
  using S = RuntimeGemm<T>;
  using R = typename S::R;
  constexpr int W = S::WORDS;
  const auto run = [&](auto* data, i64 matrix, i64 row, i64 column) {
    using Real = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(data)>>, const R, R>;
    if (a.swap) std::swap(row, column);
    return Run<Real>{reinterpret_cast<Real*>(data), matrix * W, row * W, column * W};
  };
  const Run<const R> A = run(a.A, a.a_matrix, a.a_row, a.a_col), B = run(a.B, a.b_matrix, a.b_row, a.b_col);
  const Run<R> C = run(a.C, a.c_matrix, a.c_row, a.c_col);
  const i64 m = a.swap ? a.N : a.M, n = a.swap ? a.M : a.N;
  const S x(a);
  const RuntimeTiles<T> tiles;
  const i64 packed = a.K * round_up<i64>(W * n, S::LANES);  // reals of a right operand in rows
  const i64 reals = larger<i64>(packed, S::CHUNK / i64(sizeof(R)));
  in_parts(a.BATCH, a.threads, a.BATCH * a.M * a.N * a.K, [&](i64 begin, i64 end, i64 p) {
    if constexpr (W == 1)
      if (a.dots) return runtime_dots<T>(x, A, B, C, a.M, a.K, begin, end);
    runtime_part<T>(x, tiles, a.swap ? B : A, a.swap ? A : B, C, m, n, a.K, begin, end,
                    reinterpret_cast<R*>(a.partials) + p * reals);
  });
  return 0;
}

}  // namespace mansard
