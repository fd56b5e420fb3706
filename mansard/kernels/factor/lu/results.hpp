// Workspace, division by pivots, determinants, reading and writing for the CPU kernels of lu with one matrix per lane.
#pragma once
#include "mansard/cpu/groups.hpp"

namespace mansard {

enum class Want { factor, solve, inverse, determinant, logdet };

template <class P>
struct LuShape {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  using V = Vector<R, P::LANES>;
  using Index = Vector<IndexOf<R>, P::LANES>;
  using Entry = Number<T, P::LANES>;
  static constexpr int LANES = P::LANES, M = P::M, N = P::N, K = smaller(M, N);
  static constexpr int RIGHT = P::WANT == Want::solve ? P::NRHS : P::WANT == Want::inverse ? N : 0;
  static constexpr int COLUMNS = N + RIGHT, PANELS = ceil_div(COLUMNS, P::PANEL);
  static constexpr bool KEEPS_U = RIGHT > 0, KEEPS_F = P::WANT == Want::factor;  // rows of U; L and U in `entries`
  static constexpr bool HURRIES = P::TILE_N > 1;  // not the rare fallback of kernel_small.hpp, which has TILE_N = 1
  static constexpr bool UNROLLED = HURRIES && M <= 4 && COLUMNS <= 8;  // all steps are unrolled
  static constexpr bool SELECTED = P::PIVOT && M <= 6;  // pivot rows are selected among all rows, not gathered
  static constexpr int SIZE = 1 << 10;                  // key = SIZE * place + row

  // Sizes of the workspace (map in kernel.hpp), in entries of LANES numbers. Long columns are an odd number of entries
  // apart.
  static constexpr int PITCH = M > 16 ? M | 1 : M;
  static constexpr int ENTRIES = PITCH * COLUMNS, MULTIPLIERS = PITCH * (PANELS > 1 ? K : 1);
  static constexpr int UPPERS = KEEPS_U ? ENTRIES : 0;
  static constexpr int WORKSPACE = (ENTRIES + MULTIPLIERS + UPPERS) * Entry::REALS + (2 * M + K) * LANES;
  static_assert(LANES >= 2 && LANES <= native_lanes<R> && M < SIZE);
  static_assert(RIGHT == 0 || M == N);

  // Keys are real numbers; all of them are exact in single precision.
  static MANSARD_INLINE V key_of(int place, int row) {
    return all_lanes<R, LANES>(static_cast<R>(place) * SIZE + static_cast<R>(row));
  }
  // Key of a row that has been a pivot row: larger than all others.
  static MANSARD_INLINE V done() { return key_of(SIZE, 0); }
  static MANSARD_INLINE V place_of(V key) {
    return __builtin_convertvector(__builtin_convertvector(key * (R(1) / SIZE), Index), V);
  }
  static MANSARD_INLINE V row_of(V key, V place) { return minus_product(key, place, R(SIZE)); }
};

// Addresses in the workspace (map in kernel.hpp).
template <class P>
struct LuPlaces {
  using S = LuShape<P>;
  using R = typename S::R;
  using V = typename S::V;
  using Index = typename S::Index;
  R* workspace;

  MANSARD_INLINE R* entry(int i, int j) const { return workspace + (j * S::PITCH + i) * S::Entry::REALS; }
  MANSARD_INLINE R* multiplier(int k, int i) const {
    return workspace + (S::ENTRIES + (S::PANELS > 1 ? k : 0) * S::PITCH + i) * S::Entry::REALS;
  }
  MANSARD_INLINE R* upper(int k, int j) const {
    return workspace + (S::ENTRIES + S::MULTIPLIERS + j * S::PITCH + k) * S::Entry::REALS;
  }
  MANSARD_INLINE R* vectors(int n) const {
    return workspace + (S::ENTRIES + S::MULTIPLIERS + S::UPPERS) * S::Entry::REALS + n * S::LANES;
  }
  MANSARD_INLINE V key(int i) const { return load<S::LANES>(vectors(i)); }
  MANSARD_INLINE void set_key(int i, V key) const { store<S::LANES>(vectors(i), key); }
  MANSARD_INLINE V row(int k) const { return load<S::LANES>(vectors(S::M + k)); }
  MANSARD_INLINE V place(int k) const { return load<S::LANES>(vectors(2 * S::M + k)); }
  MANSARD_INLINE void choose(int k, V row, V place) const {
    store<S::LANES>(vectors(S::M + k), row), store<S::LANES>(vectors(2 * S::M + k), place);
  }
  // Offsets, in reals from row 0 of a column, of every lane's entry of the pivot row of step k.
  MANSARD_INLINE Index rows(int k) const {
    return __builtin_convertvector(row(k), Index) * S::Entry::REALS + lane_numbers();
  }
  // Rows of a tall matrix that were never a pivot row (M > K): enter them in `rows` at their places.
  void place_rest() const {
    for (int i = 0; i < S::M; ++i)
      for (int lane = 0; lane < S::LANES; ++lane) {
        const int key = static_cast<int>(vectors(i)[lane]), place = key / S::SIZE;
        if (place < S::M) vectors(S::M + place)[lane] = static_cast<R>(key % S::SIZE);
      }
  }
  static MANSARD_INLINE Index lane_numbers() {
    Index numbers{};
    MANSARD_UNROLL
    for (int lane = 0; lane < S::LANES; ++lane) numbers[lane] = lane;
    return numbers;
  }
};

// ---- division by a pivot ----------------------------------------------------------------------------------

// Divides entries by a pivot: by multiplication with its reciprocal in lanes where that is an ordinary number, by a
// true division in the others. In lanes whose pivot is zero the divisor is 1.
template <class P>
struct Divisor {
  using S = LuShape<P>;
  using R = typename S::R;
  using Entry = typename S::Entry;
  Entry divisor;
  Mask<R, S::LANES> zero, extreme;

  MANSARD_INLINE explicit Divisor(Entry pivot) {
    constexpr R LEAST = 4 * std::numeric_limits<R>::min();
    const auto size = pivot.magnitude();
    zero = equal<R, S::LANES>(size, typename S::V{});
    divisor = pick(zero, Entry::real(all_lanes<R, S::LANES>(1)), pivot);
    const auto checked = divisor.magnitude();
    extreme = greater<R, S::LANES>(all_lanes<R, S::LANES>(LEAST), checked) |
              greater<R, S::LANES>(checked, all_lanes<R, S::LANES>(1 / LEAST));
  }
  template <class Use>
  MANSARD_INLINE void use(Use use) const {
    const Entry reciprocal = (Entry::real(all_lanes<R, S::LANES>(1)) / divisor).kept();
    const auto product = [&](Entry entry) __attribute__((always_inline)) { return entry * reciprocal; };
    if (__builtin_expect(extreme.any(), false))
      use([&](Entry entry) __attribute__((always_inline)) { return pick(extreme, entry / divisor, product(entry)); });
    else
      use(product);
  }
};

// ---- info and determinant ---------------------------------------------------------------------------------

// Per lane: 1 + the first step whose pivot is zero, and the determinant. For logdet the determinant is a phase times
// size * 2^exponent, with `size` near 1.
template <class P>
struct LuState {
  using S = LuShape<P>;
  using R = typename S::R;
  using V = typename S::V;
  using Entry = typename S::Entry;
  static constexpr bool LOGARITHM = P::WANT == Want::logdet;
  static constexpr bool DETERMINANT = P::WANT == Want::determinant || LOGARITHM;
  V info{}, exponent{}, size = all_lanes<R, S::LANES>(1);
  Entry determinant = Entry::real(all_lanes<R, S::LANES>(1));

  MANSARD_INLINE void note(int k, Entry pivot, Mask<R, S::LANES> zero, V place) {
    const auto first = zero & equal<R, S::LANES>(info, V{});
    info = select<R, S::LANES>(first, all_lanes<R, S::LANES>(static_cast<R>(k + 1)), info);
    if constexpr (DETERMINANT) {
      if constexpr (P::PIVOT) {
        const auto stays = equal<R, S::LANES>(place, all_lanes<R, S::LANES>(static_cast<R>(k)));
        determinant = determinant * select<R, S::LANES>(stays, all_lanes<R, S::LANES>(1), all_lanes<R, S::LANES>(-1));
      }
      if constexpr (LOGARITHM) multiply_apart(pivot);
      else determinant = determinant * pivot;
    }
  }

 private:
  // Multiply by a pivot: its phase into `determinant`, its magnitude into `size` and `exponent`.
  MANSARD_INLINE void multiply_apart(Entry pivot) {
    V magnitude = pivot.magnitude();
    const V scale = unit_scale<R, S::LANES>(magnitude);
    pivot = pivot * scale;
    magnitude = S::Entry::COMPLEX ? square_root<R, S::LANES>(pivot.square()) : pivot.magnitude();
    determinant = determinant * Entry{pivot * (1 / magnitude)};
    size *= magnitude, exponent -= exponent_of(scale);
    const V again = unit_scale<R, S::LANES>(size);
    size *= again, exponent -= exponent_of(again);
  }
  static MANSARD_INLINE V exponent_of(V power_of_two) {
    constexpr int MANTISSA = std::numeric_limits<R>::digits - 1;
    const auto field = bits_of<R, S::LANES>(power_of_two) >> MANTISSA;
    return __builtin_convertvector(field - (std::numeric_limits<R>::max_exponent - 1), V);
  }
};

// ---- reading and writing ----------------------------------------------------------------------------------

// Read the matrices of a group (and B, or the unit matrix for inverses) into lanes.
template <class P, class Arguments>
MANSARD_INLINE void lu_read(const Arguments& a, const LuPlaces<P>& at, i64 b, int count) {
  using S = LuShape<P>;
  using T = typename P::T;
  const Matrices<const T, P::STACK_A> A{a.A, a.a_matrix, a.a_row, a.a_col};
  read_group<S::M, S::N, P::LAYOUT_A != LayoutA::col>(
      Group<const T, S::LANES>(A, b, count),
      [&](int i, int j) __attribute__((always_inline)) { return at.entry(i, j); });
  if constexpr (P::WANT == Want::solve) {
    const Matrices<const T, P::STACK_B> B{a.B, a.b_matrix, a.b_row, a.b_col};
    read_group<S::N, P::NRHS, P::LAYOUT_B != LayoutB::col>(
        Group<const T, S::LANES>(B, b, count),
        [&](int i, int j) __attribute__((always_inline)) { return at.entry(i, S::N + j); });
  } else if constexpr (P::WANT == Want::inverse) {
    for (int j = 0; j < S::N; ++j)
      for (int i = 0; i < S::N; ++i)
        S::Entry::real(all_lanes<typename S::R, S::LANES>(i == j)).to(at.entry(i, S::N + j));
  }
}

// Write info, pivots and determinants, lane by lane.
template <class P, class Arguments>
MANSARD_INLINE void lu_write_numbers(const Arguments& a, const LuPlaces<P>& at, const LuState<P>& state, i64 b,
                                     int count) {
  using S = LuShape<P>;
  using R = typename S::R;
  for (int lane = 0; lane < count; ++lane) {
    a.INFO[b + lane] = static_cast<int>(state.info[lane]);
    if constexpr (P::WANT == Want::factor)
      for (int k = 0; k < S::K; ++k)
        a.PIVOTS[(b + lane) * S::K + k] = P::PIVOT ? static_cast<int>(at.vectors(2 * S::M + k)[lane]) : k;
    if constexpr (LuState<P>::DETERMINANT) {
      const bool singular = LuState<P>::LOGARITHM && state.info[lane] != 0;
      R* const number = reinterpret_cast<R*>(a.F + (b + lane) * a.f_matrix);
      number[0] = singular ? 0 : state.determinant.re[lane];
      if constexpr (S::Entry::COMPLEX) number[1] = singular ? 0 : state.determinant.im[lane];
    }
    if constexpr (LuState<P>::LOGARITHM) {
      constexpr double LOG_2 = 0.693147180559945309417232121458;
      const double size = state.size[lane], exponent = state.exponent[lane];
      const double logarithm = size > 1.5 ? std::log(size / 2) + (exponent + 1) * LOG_2
                                          : std::log(size) + exponent * LOG_2;
      reinterpret_cast<R*>(a.X)[(b + lane) * a.x_matrix] =
          state.info[lane] != 0 ? -std::numeric_limits<R>::infinity() : static_cast<R>(logarithm);
    }
  }
}

// Write the results of a group: factors in pivot order, inverses, or X; then info, pivots and determinants.
template <class P, class Arguments>
MANSARD_INLINE void lu_write(const Arguments& a, const LuPlaces<P>& at, const LuState<P>& state, i64 b, int count) {
  using S = LuShape<P>;
  using T = typename P::T;
  if constexpr (P::WANT == Want::factor || P::WANT == Want::inverse) {
    if constexpr (P::PIVOT && S::M > S::K) at.place_rest();
    const Group<T, S::LANES> F(Matrices<T, P::STACK_F>{a.F, a.f_matrix, a.f_row, a.f_col}, b, count);
    write_group<S::M, S::N, P::LAYOUT_F != LayoutF::col>(
        F, [&](int i, int j, int word) __attribute__((always_inline)) {
          if constexpr (P::WANT == Want::inverse) return load<S::LANES>(at.upper(i, S::N + j) + word * S::LANES);
          else if constexpr (!P::PIVOT) return load<S::LANES>(at.entry(i, j) + word * S::LANES);
          else return gathered<typename S::R, S::LANES>(at.entry(0, j) + word * S::LANES, at.rows(i));
        });
  } else if constexpr (P::WANT == Want::solve) {
    const Group<T, S::LANES> X(Matrices<T, P::STACK_X>{a.X, a.x_matrix, a.x_row, a.x_col}, b, count);
    write_group<S::N, P::NRHS, P::LAYOUT_X != LayoutX::col>(
        X, [&](int i, int j, int word) __attribute__((always_inline)) {
          return load<S::LANES>(at.upper(i, S::N + j) + word * S::LANES);
        });
  }
  lu_write_numbers<P>(a, at, state, b, count);
}

}  // namespace mansard
