// Householder QR of one matrix by a team, with the columns in registers.
//
// Step k, with (alpha, x) column k from the diagonal on: one pass forms x^H a_j for all columns j >= k, of which the
// first is |x|^2; a second pass updates a_j -= x (by * g_j) below the diagonal (reflection.cuh). Right-hand sides are
// further columns.
//
// A thread has SLOTS rows of COLUMNS columns: rows row + r * LM, columns column + q * LN. When the rows of a slot are
// finished they go to shared memory and the slots behind them move up, so that row k is always in slot 0. Finished
// columns go to shared memory, too; vectors are scaled to v only then.
//
// ROLL slots of rows share their code; with 0 all steps are unrolled and indices are constants.
// Barriers: after the loads -> image -> finished rows of other threads; WIDE, one __syncthreads per step -> line k % 2
// -> the warp that holds column k. The line is written again in step k + 2, after the barrier of step k + 1.
#pragma once
#include "kernels/factor/qr/reflection.cuh"
#include "kernels/factor/qr/team.cuh"

namespace mansard {

// Addresses of a matrix in shared memory: A (later R and the vectors), B, tau, and the lines of a wide team.
template <class P>
struct Workplace {
  using T = typename P::T;
  static constexpr bool ROW_MAJOR = P::LAYOUT_A != Layout::col;
  static constexpr int ROW = ROW_MAJOR ? P::PITCH_A : 1, COLUMN = ROW_MAJOR ? 1 : P::PITCH_A;
  static constexpr int BEYOND = P::M | 1;  // elements from one column of B to the next
  T *a, *b, *tau, *line;  // line: two lines for column k of a wide team, used in turn

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
  static constexpr int RUN = LM < LN ? LM : LN;  // consecutive steps whose row and column stay in the same slots
  static constexpr int BEGIN = LM == 1 ? 1 : 0;  // first slot of x; with LM = 1 slot 0 has only the row on the diagonal
  static constexpr int LINE = SLOTS * LM + 1;    // elements of a line: column k and its sum of squares
  // Use (alpha - beta) * a_0, which does not wait for the reflection's scale. This product may leave the range where no
  // other does. The damage shows in the sums of squares of columns that are eliminated later (`unsafe`, the last column
  // of a square matrix included), so all columns must be eliminated. The last reflection then has no column to update.
  static constexpr bool EARLY = N <= M && P::NRHS == 0;
  // long vectors are read again from the line instead of being kept in registers
  static constexpr bool TWICE = Group::WIDE && SLOTS * int(sizeof(T)) > 128;
  static_assert(ROLL == 1 || LN % (ROLL * LM) == 0, "steps that share code are of the same slot of columns");

  const Group& team;
  const Place& place;
  T a[COLUMNS][SLOTS];
  T tau[COLUMNS], scale[COLUMNS];
  bool unsafe = false;  // squares of some column left the range: the result is not to be used

  MANSARD_DEVICE Factor(const Group& team, const Place& place) : team(team), place(place) {}

  MANSARD_DEVICE int column_of(int q) const { return team.column + q * LN; }

  // Calls visit(r, row, entry) for `slots` slots of rows from slot `first` on, in the column of slot q in shared
  // memory.
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

  // Load the matrix into registers and factor it.
  MANSARD_DEVICE void run() {
    MANSARD_UNROLL
    for (int q = 0; q < COLUMNS; ++q) {
      tau[q] = scale[q] = zero<T>();
      MANSARD_UNROLL
      for (int r = 0; r < SLOTS; ++r) a[q][r] = zero<T>();
      along(q, 0, SLOTS, [&](int r, int, T& entry) { a[q][r] = entry; });
    }
    Group::meet();  // image is about to be overwritten by finished rows; all threads have loaded theirs
    chunks<0>();
  }

  static constexpr int end_of(int first) { return first + ROLL < SLOTS ? first + ROLL : SLOTS; }
  // Chunks of ROLL slots of rows from slot FIRST on; at the end, write back the columns that are left.
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

  // The reflections whose rows are in ROLL slots from FIRST on.
  template <int FIRST>
  MANSARD_DEVICE void chunk() {
    constexpr int LIVE = SLOTS - FIRST, END = end_of(FIRST), BEHIND = END * LM;
    constexpr int LATER = LM > LN ? ceil_div(BEHIND < K ? BEHIND : K, LN) : FIRST * LM / LN;  // first slot still in use
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

  // Steps whose row is in slot s, in runs whose column is in one slot; BEGIN is the run's first row within the slot.
  template <int FIRST, int LIVE, int BEGIN>
  MANSARD_DEVICE void runs(int s) {
    constexpr int SLOT = (FIRST * LM + BEGIN) / LN;  // slot of the columns that are eliminated
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

  // Reflection k: row k is in slot 0 of the threads with row == head; column k is in slot SLOT; LIVE slots are in use.
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
      T along, off;  // multiple of x to subtract below row k; number to subtract in row k
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

  // Fetch column k: x below row `head` of slot 0, and alpha there. By shuffles, or for a wide team through the line in
  // shared memory, where the sum of squares comes along: the reflection is then known before the dot products are.
  template <int SLOT, int LIVE>
  MANSARD_DEVICE void fetch(int k, int head, T (&x)[LIVE], T& alpha, R& squares) {
    const int owner = k % LN;
    if constexpr (Group::WIDE) {
      T* line = place.line + k % 2 * LINE;
      if (team.column / Group::ACROSS == owner / Group::ACROSS) {  // the warp that holds column k
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
      __syncthreads();  // line k % 2 is complete, written by the warp that holds column k
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
  // Load an entry again; volatile, since the compiler would keep the first copy in a register.
  static MANSARD_DEVICE T once_more(const T* from) {
    const volatile R* parts = reinterpret_cast<const volatile R*>(from);
    if constexpr (Scalar<T>::COMPLEX) return T{parts[0], parts[1]};
    else return parts[0];
  }

  // x^H y over this thread's rows, in several independent sums.
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

  // Write back the rows of slot 0, which is slot s of the matrix, and move the other slots up.
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
  // Write back the columns of slot q, from slot `first` of rows on, and their tau.
  MANSARD_DEVICE void flush(int q, int first, int slots) {
    put(q, first, slots);
    if (team.row == 0 && column_of(q) < K) place.tau[column_of(q)] = tau[q];
  }
  // Write entries of slot q to shared memory; those below the diagonal are scaled to v.
  MANSARD_DEVICE void put(int q, int first, int slots) {
    along(q, first, slots, [&](int r, int row, T& entry) {
      const bool of_vector = row > column_of(q) && (P::NRHS == 0 || column_of(q) < N);
      entry = of_vector ? product_of<false>(scale[q], a[q][r]) : a[q][r];
    });
  }
};

}  // namespace mansard
