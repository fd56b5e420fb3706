// Forward or backward substitution in the registers of a team, with the triangle in shared memory.
//
// Rows are numbered by steps, the order in which they become known: an upper triangle begins at its last row. Step i:
// x_i = b_i / a_ii goes to all LANES_M lanes by a shuffle, and each subtracts a_ji * x_i from its later rows j. Row of
// step s is in slot s / LANES_M of lane s % LANES_M. Entries of the other triangle, and of a unit diagonal, do not
// enter the arithmetic.
#pragma once
#include "kernels/batched/gemm/image.cuh"

namespace mansard {

// Bounds of magnitudes for which the products and remainders of a quotient neither overflow nor lose bits.
template <class R>
struct Harmless;
template <>
struct Harmless<double> {
  static constexpr double MOST = 0x1p400, LEAST = 0x1p-400;
};
template <>
struct Harmless<float> {
  static constexpr float MOST = 0x1p40f, LEAST = 0x1p-40f;
};
template <class R>
MANSARD_DEVICE bool harmless(R x) {
  return fabs(x) <= Harmless<R>::MOST && fabs(x) >= Harmless<R>::LEAST;
}

// x / by; not inlined, since it is long and few quotients need it.
template <class R>
__device__ __noinline__ R quotient_of(R x, R by) {
  return x / by;
}

// Divides several numbers by one. The inverse is prepared ahead of time and the quotient corrected by its remainder:
// three operations on the critical path instead of a division's ten. Extreme numbers are divided exactly. INVERT leaves
// out the correction.
template <class T, bool INVERT>
struct Divisor {
  T number, inverse;
  bool usual;

  MANSARD_DEVICE void prepare(T by) {
    number = by;
    inverse = T(1) / by;
    usual = harmless(by);
  }
  // `wanted`: the quotient is used
  MANSARD_DEVICE T divide(T x, bool wanted) const {
    const T first = x * inverse;
    if constexpr (INVERT) return first;
    T quotient = fma(fma(-first, number, x), inverse, first);
    if (wanted && !(usual && (harmless(first) || x == 0))) quotient = quotient_of(x, number);
    return quotient;
  }
};

// Complex division by Smith's method: division by the larger part of the divisor avoids overflow.
template <class R, bool INVERT>
struct Divisor<Complex<R>, INVERT> {
  bool turned;  // the imaginary part is the larger one: divisor and numbers are divided by i first
  R ratio;
  Divisor<R, INVERT> part;

  MANSARD_DEVICE void prepare(Complex<R> by) {
    turned = fabs(by.re) < fabs(by.im);
    if (turned) by = {by.im, -by.re};
    ratio = by.im / by.re;
    part.prepare(by.re + by.im * ratio);
  }
  MANSARD_DEVICE Complex<R> divide(Complex<R> x, bool wanted) const {
    if (turned) x = {x.im, -x.re};
    return {part.divide(x.re + x.im * ratio, wanted), part.divide(x.im - x.re * ratio, wanted)};
  }
};

template <class R>
MANSARD_DEVICE R negative(R x) {
  return -x;
}
template <class R>
MANSARD_DEVICE Complex<R> negative(Complex<R> x) {
  return {-x.re, -x.im};
}

// Value of x in lane `from` of each group of WIDTH lanes.
template <int WIDTH, class R>
MANSARD_DEVICE R from_lane(R x, int from) {
  return __shfl_sync(0xffffffffu, x, from, WIDTH);
}
template <int WIDTH, class R>
MANSARD_DEVICE Complex<R> from_lane(Complex<R> x, int from) {
  return {from_lane<WIDTH>(x.re, from), from_lane<WIDTH>(x.im, from)};
}

// N rows and COLUMNS right-hand sides per lane; Tile describes A in shared memory (PITCH, READ).
template <class P, int N, int LANES_M, int COLUMNS, class Tile>
struct Substitution {
  using T = typename P::T;
  static constexpr bool ROW_MAJOR = P::LAYOUT_A != Layout::col;
  static constexpr int SLOTS = ceil_div(N, LANES_M);       // rows per lane
  static constexpr int READ = ROW_MAJOR ? Tile::READ : 1;  // steps whose entries of a row are loaded at once
  static constexpr int NEAR = READ > LANES_M ? READ / LANES_M : 1;  // slots that hold the rows of these steps
  static_assert(N % READ == 0 && (READ % LANES_M == 0 || LANES_M % READ == 0), "steps of a read lie in whole slots");
  int lane;
  T x[SLOTS][COLUMNS];

  MANSARD_DEVICE explicit Substitution(int lane) : lane(lane) {}

  // Row that becomes known in a step.
  static MANSARD_DEVICE int at(int step) { return P::UPPER ? N - 1 - step : step; }
  MANSARD_DEVICE int rank() const { return LANES_M == 1 ? 0 : lane; }
  // Step of a slot's row; the last step for slots without a row.
  MANSARD_DEVICE int step_of(int slot) const {
    const int step = slot * LANES_M + rank();
    return N % LANES_M == 0 || slot + 1 < SLOTS ? step : min(step, N - 1);
  }
  MANSARD_DEVICE int row_of(int slot) const { return at(step_of(slot)); }
  MANSARD_DEVICE bool has(int slot) const {
    return N % LANES_M == 0 || slot + 1 < SLOTS || slot * LANES_M + rank() < N;
  }

  // Load the entries of the slot's row that belong to READ steps.
  MANSARD_DEVICE void load(T (&a)[READ], const T* A, int slot, int step) const {
    if constexpr (ROW_MAJOR) {
      const T* from = A + row_of(slot) * Tile::PITCH + (P::UPPER ? N - step - READ : step);
      const auto pack = *reinterpret_cast<const Pack<T, READ>*>(from);
      MANSARD_UNROLL
      for (int j = 0; j < READ; ++j) a[j] = pack.e[P::UPPER ? READ - 1 - j : j];
    } else {
      a[0] = A[at(step) * Tile::PITCH + row_of(slot)];
    }
  }

  // x_j += a_ji * minus_i for the READ steps i from `step` on, with minus_i = -x_i, in the slots from `first` on.
  MANSARD_DEVICE void subtract(const T* A, int first, int step, const T (&minus)[READ][COLUMNS]) {
    if constexpr (!ROW_MAJOR && LANES_M == 1) {  // entries of a column are adjacent
      constexpr int RUN = Tile::READ;
      MANSARD_UNROLL
      for (int run = 0; run < N; run += RUN) {
        if (run + RUN <= first) continue;
        const T* from = A + at(step) * Tile::PITCH + (P::UPPER ? N - run - RUN : run);
        const auto pack = *reinterpret_cast<const Pack<T, RUN>*>(from);
        MANSARD_UNROLL
        for (int j = 0; j < RUN; ++j) {
          if (run + j < first) continue;
          MANSARD_UNROLL
          for (int c = 0; c < COLUMNS; ++c)
            multiply_add<P::CONJ>(x[run + j][c], pack.e[P::UPPER ? RUN - 1 - j : j], minus[0][c]);
        }
      }
    } else {
      MANSARD_UNROLL
      for (int slot = 0; slot < SLOTS; ++slot) {
        if (slot < first) continue;
        T a[READ];
        load(a, A, slot, step);
        MANSARD_UNROLL
        for (int j = 0; j < READ; ++j)
          MANSARD_UNROLL
          for (int c = 0; c < COLUMNS; ++c) multiply_add<P::CONJ>(x[slot][c], a[j], minus[j][c]);
      }
    }
  }

  // Solve; x holds right-hand sides before and solutions afterwards. Only the first `rows` rows and columns of A exist.
  template <bool ALL>
  MANSARD_DEVICE void solve(const T* A, int rows) {
    solve_by<ALL>(A, rows, [](const auto&) {}, [](const auto& by, T x, bool wanted) { return by.divide(x, wanted); });
  }

  // Solve with another division: `prepared` is called with every divisor of the lane, quotient(divisor, x, wanted)
  // divides.
  template <bool ALL, class Prepared, class Quotient>
  MANSARD_DEVICE void solve_by(const T* A, int rows, Prepared prepared, Quotient quotient) {
    Divisor<T, P::INVERT> divisor[NEAR];
    MANSARD_UNROLL
    for (int step = 0; step < N; step += READ) {
      const int first = step / LANES_M;
      T near[NEAR][READ], minus[READ][COLUMNS];
      if constexpr (!P::UNIT)
        MANSARD_UNROLL
        for (int i = 0; i < NEAR; ++i)
          if (step % LANES_M == 0) {
            prepare(divisor[i], A, first + i);
            prepared(divisor[i]);
          }
      if (!ALL && at(step) >= rows) continue;
      MANSARD_UNROLL
      for (int i = 0; i < NEAR; ++i) load(near[i], A, first + i, step);
      MANSARD_UNROLL
      for (int j = 0; j < READ; ++j) {
        const int slot = (step + j) / LANES_M, owner = (step + j) % LANES_M;
        MANSARD_UNROLL
        for (int c = 0; c < COLUMNS; ++c) {
          T known = x[slot][c];
          if constexpr (!P::UNIT) known = quotient(divisor[slot - first], known, rank() == owner);
          if constexpr (LANES_M > 1) known = from_lane<LANES_M>(known, owner);
          if (rank() == owner) x[slot][c] = known;
          minus[j][c] = negative(known);
          MANSARD_UNROLL
          for (int i = 0; i < NEAR; ++i)
            if ((first + i) * LANES_M + rank() > step + j)
              multiply_add<P::CONJ>(x[first + i][c], near[i][j], minus[j][c]);
        }
      }
      subtract(A, first + NEAR, step, minus);
    }
  }

  // x -= A * known for a block of A, whose first `columns` columns exist. Rows of `known` are PITCH apart, the columns
  // of a lane STRIDE.
  template <bool ALL, int PITCH, int STRIDE>
  MANSARD_DEVICE void multiply(const T* A, const T* known, int columns) {
    constexpr int UNROLL = SLOTS * COLUMNS * READ >= 32 ? 1 : 4;
MANSARD_UNROLL_BY(UNROLL)
    for (int step = 0; step < N; step += READ) {
      if (!ALL && at(step) >= columns) continue;
      T minus[READ][COLUMNS];
      MANSARD_UNROLL
      for (int j = 0; j < READ; ++j)
        MANSARD_UNROLL
        for (int c = 0; c < COLUMNS; ++c) minus[j][c] = negative(known[at(step + j) * PITCH + c * STRIDE]);
      subtract(A, 0, step, minus);
    }
  }

 private:
  MANSARD_DEVICE void prepare(Divisor<T, P::INVERT>& divisor, const T* A, int slot) const {
    const int row = row_of(slot);
    const T diagonal = A[row * Tile::PITCH + row];
    divisor.prepare(P::CONJ ? conjugate(diagonal) : diagonal);
  }
};

}  // namespace mansard
