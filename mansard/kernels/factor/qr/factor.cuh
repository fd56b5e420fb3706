// The factorisation of one matrix by a team, columns in registers: Householder's reflections, one after the other.
//
// A thread has rows row, row + LANES_M, ... of columns column, column + LANES_N, ...: slots of either. Reflection k
// takes one pass over what it changes: all products x^H a_j of the column x below the diagonal with the columns from k
// on, of which the first is |x|^2; then their update. Rows that are done go to shared memory, and the slots behind them
// move up; columns that are done go there whole. Vectors are scaled only then. Right-hand sides are more columns.
//
// Code is shared by ROLL slots of rows (0: by nothing, and indices are constants).
#pragma once
#include "kernels/factor/qr/reflection.cuh"
#include "kernels/factor/qr/team.cuh"

namespace mansard {

// Where the matrix lies in shared memory: columns from N on are B's.
template <class P>
struct Workplace {
  using T = typename P::T;
  static constexpr bool ROW_MAJOR = P::LAYOUT_A != Layout::col;
  static constexpr int ROW = ROW_MAJOR ? P::PITCH_A : 1, COLUMN = ROW_MAJOR ? 1 : P::PITCH_A;
  static constexpr int BEYOND = P::M | 1;  // from one column of B to the next
  T *a, *b, *tau, *line;  // line: the vector of a wide team's reflection, twice

  MANSARD_DEVICE T* at(int row, int column) const { return a + row * ROW + column * COLUMN; }
};

template <class P>
struct Factor {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  using Group = Team<P>;
  using Place = Workplace<P>;
  static constexpr int M = P::M, N = P::N, K = M < N ? M : N, WIDTH = N + P::NRHS;
  static constexpr int LM = Group::ROWS, LN = Group::COLUMNS;
  static constexpr int SLOTS = ceil_div(M, LM), COLUMNS = ceil_div(WIDTH, LN);
  static constexpr int ROLL = P::ROLL > 0 ? P::ROLL : 1;
  static constexpr int RUN = LM < LN ? LM : LN;  // steps whose column is in the same slot
  static constexpr int BEGIN = LM == 1 ? 1 : 0;  // where the first slot has but the row on the diagonal, x begins later
  static constexpr int LINE = SLOTS * LM + 1;     // of shared memory: a vector and its sum of squares
  // Products of first entries do not wait for a reflection's scale. They may be out of range where those of no other
  // entries are: what has come of it is seen in columns that are eliminated later (the last one of a square too), so
  // there must be no others. Then the last reflection has nothing to turn, either.
  static constexpr bool EARLY = N <= M && P::NRHS == 0;
  // vectors that are long for registers are read twice
  static constexpr bool TWICE = Group::WIDE && SLOTS * int(sizeof(T)) > 128;
  static_assert(ROLL == 1 || LN % (ROLL * LM) == 0, "steps that share code are of the same slot of columns");

  const Group& team;
  const Place& place;
  T a[COLUMNS][SLOTS];
  T tau[COLUMNS], scale[COLUMNS];
  bool unsafe = false;  // some reflection was: nothing of this is of use

  MANSARD_DEVICE Factor(const Group& team, const Place& place) : team(team), place(place) {}

  MANSARD_DEVICE int column_of(int q) const { return team.column + q * LN; }

  // visit(row, entry) for the rows of a column's slots, the first of which is `first`.
  template <class Visit>
  MANSARD_DEVICE void along(int q, int first, int slots, Visit visit) const {
    const int j = column_of(q), row = first * LM + team.row;
    const bool beyond = P::NRHS > 0 && (q + 1) * LN > N && j >= N;
    const int step = (beyond ? 1 : Place::ROW) * LM;
    T* at = beyond ? place.b + (j - N) * Place::BEYOND + row : place.at(row, j);
    if (WIDTH % LN == 0 || q + 1 < COLUMNS || j < WIDTH)
      MANSARD_UNROLL
      for (int r = 0; r < slots; ++r)
        if (M % LM == 0 || row + r * LM < M) visit(r, row + r * LM, at[r * step]);
  }

  MANSARD_DEVICE void run() {
    MANSARD_UNROLL
    for (int q = 0; q < COLUMNS; ++q) {
      tau[q] = scale[q] = zero<T>();
      MANSARD_UNROLL
      for (int r = 0; r < SLOTS; ++r) a[q][r] = zero<T>();
      along(q, 0, SLOTS, [&](int r, int, T& entry) { a[q][r] = entry; });
    }
    Group::meet();  // everybody has read what is overwritten
    chunks<0>();
  }

  static constexpr int end_of(int first) { return first + ROLL < SLOTS ? first + ROLL : SLOTS; }
  template <int FIRST>
  MANSARD_DEVICE void chunks() {
    chunk<FIRST>();
    if constexpr ((FIRST + ROLL) * LM < K) {
      chunks<FIRST + ROLL>();
    } else {
      constexpr int END = end_of(FIRST), DONE = LM > LN ? ceil_div(K, LN) : END * LM / LN;
      MANSARD_UNROLL
      for (int q = DONE; q < COLUMNS; ++q) flush(q, END, SLOTS - END);
    }
  }

  // The reflections of ROLL slots of rows from FIRST on.
  template <int FIRST>
  MANSARD_DEVICE void chunk() {
    constexpr int LIVE = SLOTS - FIRST, END = end_of(FIRST), BEHIND = END * LM;
    constexpr int LATER = LM > LN ? ceil_div(BEHIND < K ? BEHIND : K, LN) : FIRST * LM / LN;  // columns to go on
    if constexpr (P::ROLL > 0) {
MANSARD_UNROLL_BY(1)
      for (int s = FIRST; s < END; ++s) {
        runs<FIRST, LIVE, 0>(s);
        retire<LATER, LIVE>(s);
      }
    } else {
      runs<FIRST, LIVE, 0>(FIRST);
      retire<LATER, LIVE>(FIRST);
    }
    if constexpr (LM <= LN && BEHIND % LN == 0 && BEHIND / LN <= COLUMNS) flush(BEHIND / LN - 1, END, SLOTS - END);
  }

  template <int FIRST, int LIVE, int BEGIN>
  MANSARD_DEVICE void runs(int s) {
    constexpr int SLOT = (FIRST * LM + BEGIN) / LN;  // of the column that is eliminated
    if constexpr (BEGIN < LM && FIRST * LM + BEGIN < K) {
      if constexpr (P::ROLL > 0) {
MANSARD_UNROLL_BY(1)
        for (int i = BEGIN; i < BEGIN + RUN; ++i)
          if (end_of(FIRST) * LM <= K || s * LM + i < K) step<SLOT, LIVE>(s * LM + i, i);
      } else {
        MANSARD_UNROLL
        for (int i = BEGIN; i < BEGIN + RUN; ++i)
          if (FIRST * LM + i < K) step<SLOT, LIVE>(FIRST * LM + i, i);
      }
      if constexpr (LM > LN) flush(SLOT, s, LIVE);
      runs<FIRST, LIVE, BEGIN + RUN>(s);
    }
  }

  // Reflection k, whose row is in the first slot, of the threads of row `head`.
  template <int SLOT, int LIVE>
  MANSARD_DEVICE void step(int k, int head) {
    const int owner = k % LN;
    T dot[COLUMNS - SLOT], x[LIVE], alpha;
    R squares;
    fetch<SLOT, LIVE>(k, head, x, alpha, squares);
    MANSARD_UNROLL
    for (int q = SLOT; q < COLUMNS; ++q) dot[q - SLOT] = Group::sum(product<LIVE>(x, a[q]));
    if constexpr (!Group::WIDE) squares = team.of(real_part(dot[0]), team.row, owner);
    const bool last = M <= N && k == M - 1, idle = !EARLY && last && is_zero(imaginary_part(alpha));
    const auto h = Reflection<T>::quick(alpha, squares, last, EARLY);
    unsafe = unsafe || !h.safe;
    T by[COLUMNS - SLOT];
    MANSARD_UNROLL
    for (int q = SLOT; q < COLUMNS; ++q) {
      const bool to_do = (q > SLOT || team.column > owner) && !idle, own = q == SLOT && team.column == owner;
      const T top = team.of_row(a[q][0], head);
      T along, off;  // off the first entry
      if constexpr (EARLY) {
        along = dot[q - SLOT];
        multiply_add<true>(along, h.first, top);
        off = by_real(along, h.below), along = product_of<false>(h.scale, off);
      } else {
        along = top;
        multiply_add<true>(along, h.scale, dot[q - SLOT]);
        off = product_of<true>(h.tau, along), along = product_of<false>(h.by, along);
      }
      by[q - SLOT] = to_do ? along : zero<T>();
      if (team.row == head && to_do) a[q][0] = difference(top, off);
      if (team.row == head && own) a[q][0] = from_real<T>(h.beta);
      if (own) tau[q] = h.tau, scale[q] = h.scale;
    }
    const T* line = place.line + k % 2 * LINE + team.row;
    MANSARD_UNROLL
    for (int r = BEGIN; r < LIVE; ++r) {
      const T entry = TWICE && r > 0 ? once_more(line + r * LM) : x[r];
      MANSARD_UNROLL
      for (int q = SLOT; q < COLUMNS; ++q) multiply_subtract<false>(a[q][r], entry, by[q - SLOT]);
    }
  }

  // The column k below row `head` of the first slot, and the entry there: by shuffles, or through shared memory. There
  // its sum of squares comes along, so that nobody waits for the reflection when the products are known.
  template <int SLOT, int LIVE>
  MANSARD_DEVICE void fetch(int k, int head, T (&x)[LIVE], T& alpha, R& squares) {
    const int owner = k % LN;
    if constexpr (Group::WIDE) {
      T* line = place.line + k % 2 * LINE;
      if (team.column / Group::ACROSS == owner / Group::ACROSS) {  // a warp
        MANSARD_UNROLL
        for (int r = 0; r < LIVE; ++r) x[r] = a[SLOT][r];
        if (team.row <= head) x[0] = zero<T>();
        squares = Group::sum(real_part(product<LIVE>(x, x)));
        if (team.column == owner) {
          MANSARD_UNROLL
          for (int r = 0; r < LIVE; ++r) line[r * LM + team.row] = a[SLOT][r];
          if (team.row == 0) line[SLOTS * LM] = from_real<T>(squares);
        }
      }
      __syncthreads();
      MANSARD_UNROLL
      for (int r = 0; r < LIVE; ++r) x[r] = line[r * LM + team.row];
      alpha = line[head];
      squares = real_part(line[SLOTS * LM]);
    } else {
      MANSARD_UNROLL
      for (int r = 0; r < LIVE; ++r) x[r] = team.of(a[SLOT][r], team.row, owner);
      alpha = team.of(a[SLOT][0], head, owner);
    }
    if (BEGIN == 0 && team.row <= head) x[0] = zero<T>();
  }
  // An entry that the compiler would rather keep.
  static MANSARD_DEVICE T once_more(const T* from) {
    const volatile R* parts = reinterpret_cast<const volatile R*>(from);
    if constexpr (Scalar<T>::COMPLEX) return T{parts[0], parts[1]};
    else return parts[0];
  }

  // x^H y, of this thread's rows, in several sums at a time.
  template <int LIVE, int LENGTH>
  static MANSARD_DEVICE T product(const T (&x)[LIVE], const T (&y)[LENGTH]) {
    constexpr int SUMS = LIVE < 8 ? 1 : COLUMNS < 3 ? 4 : 2;
    T sums[SUMS] = {};
    MANSARD_UNROLL
    for (int r = BEGIN; r < LIVE; ++r) multiply_add<true>(sums[r % SUMS], x[r], y[r]);
    MANSARD_UNROLL
    for (int step = SUMS / 2; step > 0; step /= 2)
      MANSARD_UNROLL
      for (int i = 0; i < step; ++i) add_to(sums[i], sums[i + step]);
    return sums[0];
  }

  // The rows of the first slot leave.
  template <int LATER, int LIVE>
  MANSARD_DEVICE void retire(int s) {
    MANSARD_UNROLL
    for (int q = LATER; q < COLUMNS; ++q) {
      put(q, s, 1);
      MANSARD_UNROLL
      for (int r = 0; r + 1 < LIVE; ++r) a[q][r] = a[q][r + 1];
      a[q][LIVE - 1] = zero<T>();
    }
  }
  // So do the columns of a slot.
  MANSARD_DEVICE void flush(int q, int first, int slots) {
    put(q, first, slots);
    if (team.row == 0 && column_of(q) < K) place.tau[column_of(q)] = tau[q];
  }
  MANSARD_DEVICE void put(int q, int first, int slots) {
    along(q, first, slots, [&](int r, int row, T& entry) {
      const bool of_vector = row > column_of(q) && (P::NRHS == 0 || column_of(q) < N);
      entry = of_vector ? product_of<false>(scale[q], a[q][r]) : a[q][r];
    });
  }
};

}  // namespace mansard
