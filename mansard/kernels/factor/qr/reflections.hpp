// Householder reflections on CPUs with one matrix per lane: formed from a column, and applied to tiles of columns.
#pragma once
#include "mansard/cpu/groups.hpp"

namespace mansard {

enum class Want { raw, r, reduced, complete, solve };

template <class P>
struct QrShape {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  using V = Vector<R, P::LANES>;
  using Entry = Number<T, P::LANES>;
  static constexpr int LANES = P::LANES, M = P::M, N = P::N, K = smaller(M, N);
  static constexpr int COLUMNS = N + (P::WANT == Want::solve ? P::NRHS : 0);
  static constexpr int Q_COLUMNS = P::WANT == Want::reduced ? K : P::WANT == Want::complete ? M : 0;
  static constexpr int F_ROWS = P::WANT == Want::raw || P::WANT == Want::complete ? M : K;
  static constexpr int PITCH = M > 16 ? M | 1 : M;  // entries per column; odd where columns are long
  static constexpr int NUMBERS = PITCH * (COLUMNS + Q_COLUMNS) + 2 * K, WORKSPACE = NUMBERS * Entry::REALS;
  static_assert(LANES >= 2 && LANES <= native_lanes<R>);
};

// Addresses in the workspace (map in kernel.hpp).
template <class P>
struct QrPlaces {
  using S = QrShape<P>;
  using R = typename S::R;
  static constexpr int REALS = S::Entry::REALS;
  R* workspace;

  MANSARD_INLINE R* entry(int i, int j) const { return workspace + (j * S::PITCH + i) * REALS; }
  MANSARD_INLINE R* orthogonal(int i, int j) const { return entry(i, S::COLUMNS + j); }
  MANSARD_INLINE R* tau(int k) const { return entry(k, S::COLUMNS + S::Q_COLUMNS); }
  MANSARD_INLINE R* relation(int k) const { return tau(S::K + k); }  // v_(k+1)^H v_k
};

// Calls visit(Int<count>()): turns a run-time count below LIMIT into a compile-time constant.
template <int LIMIT, class Visit>
MANSARD_INLINE void for_count(int count, Visit visit) {
  if constexpr (LIMIT > 0) {
    if (count == LIMIT - 1) visit(Int<LIMIT - 1>());
    else for_count<LIMIT - 1>(count, visit);
  }
}

// ---- forming a reflection ---------------------------------------------------------------------------------

// Sums of squares of column k from the diagonal on, times scale^2. Lanes whose squares would overflow or underflow have
// a scale other than one.
template <class P>
struct ScaledColumn {
  using S = QrShape<P>;
  using R = typename S::R;
  using V = typename S::V;
  using Entry = typename S::Entry;
  V scale = all_lanes<R, S::LANES>(1), below{}, total;  // sum of squares below the diagonal; with the diagonal
  bool rescaled = false;                                // some lane's scale is not one

  MANSARD_INLINE ScaledColumn(const QrPlaces<P>& at, int k) {
    V other{};
    int i = k + 1;
#pragma GCC unroll 1
    for (; i + 2 <= S::M; i += 2)
      Entry::at(at.entry(i, k)).add_square_to(below), Entry::at(at.entry(i + 1, k)).add_square_to(other);
    if (i < S::M) Entry::at(at.entry(i, k)).add_square_to(below);
    below += other;
    total = below + Entry::at(at.entry(k, k)).square();
    constexpr R LEAST = std::numeric_limits<R>::min() / (std::numeric_limits<R>::epsilon() *
                                                         std::numeric_limits<R>::epsilon());
    const auto ordinary = greater<R, S::LANES>(below, all_lanes<R, S::LANES>(LEAST)) &
                          greater<R, S::LANES>(all_lanes<R, S::LANES>(1 / LEAST), total);
    rescaled = (!ordinary).any();
    if (__builtin_expect(rescaled, false)) rescale(at, k, ordinary);
  }

 private:
  static MANSARD_INLINE V largest_part(Entry entry) {
    return larger_of<R, S::LANES>(absolute<R, S::LANES>(entry.re), absolute<R, S::LANES>(entry.imaginary()));
  }
  // Scale in two steps: the vector below the diagonal for its norm, then both. Ordinary lanes keep scale one.
  __attribute__((noinline)) void rescale(const QrPlaces<P>& at, int k, Mask<R, S::LANES> ordinary) {
    V largest{}, sum{};
    for (int i = k + 1; i < S::M; ++i)
      largest = larger_of<R, S::LANES>(largest_part(Entry::at(at.entry(i, k))), largest);
    const V own = unit_scale<R, S::LANES>(largest);
    for (int i = k + 1; i < S::M; ++i) (Entry::at(at.entry(i, k)) * own).add_square_to(sum);
    const Entry first = Entry::at(at.entry(k, k));
    const V norm = square_root<R, S::LANES>(sum) / own;
    scale = unit_scale<R, S::LANES>(larger_of<R, S::LANES>(largest_part(first), norm));
    scale = select<R, S::LANES>(ordinary, all_lanes<R, S::LANES>(1), scale);
    const V seen = larger_of<R, S::LANES>(norm * scale, all_lanes<R, S::LANES>(std::numeric_limits<R>::epsilon()));
    const V squared = select<R, S::LANES>(equal<R, S::LANES>(norm, V{}), V{}, seen * seen);  // zero only if the norm is
    below = select<R, S::LANES>(ordinary, below, squared);
    total = select<R, S::LANES>(ordinary, total, norm * scale * (norm * scale) + (first * scale).square());
  }
};

// Form reflection k from column k: v replaces the entries below the diagonal, beta the diagonal entry.
template <class P>
MANSARD_INLINE void make_reflection(const QrPlaces<P>& at, int k) {
  using S = QrShape<P>;
  using R = typename S::R;
  using V = typename S::V;
  using Entry = typename S::Entry;
  const ScaledColumn<P> column(at, k);
  const Entry first = Entry::at(at.entry(k, k)), scaled = first * column.scale;
  auto none = equal<R, S::LANES>(column.below, V{});
  if constexpr (Entry::COMPLEX) none = none & equal<R, S::LANES>(first.imaginary(), V{});
  const V beta = -with_sign<R, S::LANES>(square_root<R, S::LANES>(column.total), scaled.re);
  const Entry difference = scaled - Entry::real(beta);
  Entry tau = Entry::real((beta - scaled.re) / beta);
  if constexpr (Entry::COMPLEX) tau.im = -scaled.im / beta;
  pick(none, Entry{}, tau).to(at.tau(k));
  Entry factor = Entry::real(all_lanes<R, S::LANES>(1)) / difference;
  factor = pick(none, Entry{}, factor).kept();
  pick(none, first, Entry::real(beta / column.scale)).to(at.entry(k, k));
  // Multiply by scale and factor in turn: for a column of subnormal numbers their product overflows.
  if (__builtin_expect(column.rescaled, false))
    for (int i = k + 1; i < S::M; ++i) (Entry::at(at.entry(i, k)) * column.scale).to(at.entry(i, k));
#pragma GCC unroll 4
  for (int i = k + 1; i < S::M; ++i) (Entry::at(at.entry(i, k)) * factor).to(at.entry(i, k));
}

// relation(k) = v_(k+1)^H v_k, for applying reflections k and k + 1 at once.
template <class P>
MANSARD_INLINE void relate(const QrPlaces<P>& at, int k) {
  using S = QrShape<P>;
  using Entry = typename S::Entry;
  Entry sums[2] = {Entry::at(at.entry(k + 1, k)), Entry{}};
  int i = k + 2;
#pragma GCC unroll 1
  for (; i + 2 <= S::M; i += 2)
    for (int way = 0; way < 2; ++way)
      sums[way].add(Entry::at(at.entry(i + way, k + 1)).conjugate(), Entry::at(at.entry(i + way, k)));
  if (i < S::M) sums[0].add(Entry::at(at.entry(i, k + 1)).conjugate(), Entry::at(at.entry(i, k)));
  (sums[0] + sums[1]).to(at.relation(k));
}

// ---- applying reflections ---------------------------------------------------------------------------------

// Apply H_k to COLUMNS columns: y -= v tau (v^H y). INVERSE: H_k^H, with the conjugate of tau.
template <class P, int COLUMNS, bool INVERSE>
MANSARD_INLINE void reflect(const QrPlaces<P>& at, int k, typename QrShape<P>::R* columns) {
  using S = QrShape<P>;
  using Entry = typename S::Entry;
  const auto place = [&](int i, int c) __attribute__((always_inline)) {
    return columns + (c * S::PITCH + i) * Entry::REALS;
  };
  Entry sums[COLUMNS];
  MANSARD_UNROLL
  for (int c = 0; c < COLUMNS; ++c) sums[c] = Entry::at(place(k, c));
#pragma GCC unroll 2
  for (int i = k + 1; i < S::M; ++i) {
    const Entry v = Entry::at(at.entry(i, k)).conjugate().kept();
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) sums[c].add(v, Entry::at(place(i, c)));
  }
  const Entry tau = Entry::at(at.tau(k));
  MANSARD_UNROLL
  for (int c = 0; c < COLUMNS; ++c) {
    sums[c] = (sums[c] * (INVERSE ? tau.conjugate() : tau)).kept();
    (Entry::at(place(k, c)) - sums[c]).to(place(k, c));
  }
#pragma GCC unroll 2
  for (int i = k + 1; i < S::M; ++i) {
    const Entry v = Entry::at(at.entry(i, k)).kept();
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      Entry entry = Entry::at(place(i, c));
      entry.subtract(v, sums[c]);
      entry.to(place(i, c));
    }
  }
}

// Apply two reflections to COLUMNS columns: H_(k+1)^H H_k^H (INVERSE), otherwise H_k H_(k+1).
template <class P, int COLUMNS, bool INVERSE>
MANSARD_INLINE void reflect_twice(const QrPlaces<P>& at, int k, typename QrShape<P>::R* columns) {
  using S = QrShape<P>;
  using Entry = typename S::Entry;
  const auto place = [&](int i, int c) __attribute__((always_inline)) {
    return columns + (c * S::PITCH + i) * Entry::REALS;
  };
  Entry early[COLUMNS], late[COLUMNS];  // dot products with v_k and with v_(k+1)
  const Entry beside = Entry::at(at.entry(k + 1, k));
  MANSARD_UNROLL
  for (int c = 0; c < COLUMNS; ++c) {
    early[c] = Entry::at(place(k, c)), late[c] = Entry::at(place(k + 1, c));
    early[c].add(beside.conjugate(), late[c]);
  }
#pragma GCC unroll 1
  for (int i = k + 2; i < S::M; ++i) {
    const Entry v = Entry::at(at.entry(i, k)).conjugate().kept(), w = Entry::at(at.entry(i, k + 1)).conjugate().kept();
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      const Entry entry = Entry::at(place(i, c)).kept();
      early[c].add(v, entry), late[c].add(w, entry);
    }
  }
  const Entry relation = Entry::at(at.relation(k)), tau = Entry::at(at.tau(k)), next = Entry::at(at.tau(k + 1));
  MANSARD_UNROLL
  for (int c = 0; c < COLUMNS; ++c) {
    if constexpr (INVERSE) {
      early[c] = early[c] * tau.conjugate();
      late[c].subtract(relation, early[c]);
      late[c] = late[c] * next.conjugate();
    } else {
      late[c] = late[c] * next;
      early[c].subtract(relation.conjugate(), late[c]);
      early[c] = early[c] * tau;
    }
    early[c] = early[c].kept(), late[c] = late[c].kept();
    (Entry::at(place(k, c)) - early[c]).to(place(k, c));
    Entry entry = Entry::at(place(k + 1, c)) - late[c];
    entry.subtract(beside, early[c]);
    entry.to(place(k + 1, c));
  }
#pragma GCC unroll 1
  for (int i = k + 2; i < S::M; ++i) {
    const Entry v = Entry::at(at.entry(i, k)).kept(), w = Entry::at(at.entry(i, k + 1)).kept();
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      Entry entry = Entry::at(place(i, c));
      entry.subtract(v, early[c]), entry.subtract(w, late[c]);
      entry.to(place(i, c));
    }
  }
}

}  // namespace mansard
