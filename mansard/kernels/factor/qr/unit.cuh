// A turn of the QR kernels `lanes` and `block`: from a group of matrices in global memory to their results.
//
// A unit is a warp with GROUP matrices, or a block with one. It copies a group to shared memory in the layout of global
// memory (image.cuh), factors it in registers, and writes R and the vectors back to the image. WANT says which results
// are formed from that. Matrices whose squares left the range are loaded again, element by element, and factored by
// careful.cuh. The memory map and the phases are in kernel_lanes.cuh.
#pragma once
#include "kernels/batched/gemm/image.cuh"
#include "kernels/factor/qr/careful.cuh"
#include "kernels/factor/qr/orthogonal.cuh"
#include "kernels/factor/qr/triangle.cuh"

namespace mansard {

using LayoutF = Layout;
using LayoutQ = Layout;
using LayoutX = Layout;
using FeedF = Feed;
enum class Want { raw, r, reduced, complete, solve, panel };

// Element-wise access to ROWS x COLUMNS operands in global memory, in the order of their memory.
template <class T, Layout LAYOUT, int ROWS, int COLUMNS>
struct Entries {
  static constexpr int LENGTH = LAYOUT == Layout::col ? ROWS : COLUMNS, SIZE = ROWS * COLUMNS;

  // Calls visit(address, matrix, row, column) for the share of thread `rank` of THREADS in the entries of `count`
  // matrices.
  template <int THREADS, class Pointer, class Visit>
  static MANSARD_DEVICE void each(const Place<Pointer>& place, i64 first, int count, int rank, Visit visit) {
MANSARD_UNROLL_BY(4)
    for (int e = rank; e < count * SIZE; e += THREADS) {
      const int matrix = e / SIZE, line = e % SIZE / LENGTH, position = e % LENGTH;
      auto* at = matrix_at(place.base, place.matrix, first + matrix) + line * place.line + position * place.step;
      visit(at, matrix, LAYOUT == Layout::col ? position : line, LAYOUT == Layout::col ? line : position);
    }
  }
};

template <class P>
struct QrShape {
  using T = typename P::T;
  using Group = Team<P>;
  static constexpr int M = P::M, N = P::N, K = M < N ? M : N, GROUP = Group::TEAMS;
  static constexpr bool RAW = P::WANT == Want::raw || P::WANT == Want::panel;
  static constexpr bool FORMS_Q = P::WANT == Want::reduced || P::WANT == Want::complete;
  static constexpr int Q_WIDTH = P::WANT == Want::complete ? M : K, R_HEIGHT = P::WANT == Want::complete ? M : K;
  static constexpr bool ROW_MAJOR = P::LAYOUT_A != Layout::col;
  static constexpr int LINES = ROW_MAJOR ? M : N, LENGTH = ROW_MAJOR ? N : M;
  using A = Image<T, LINES, LENGTH, GROUP, P::FEED_A, P::ALIGNED, P::PITCH_A, P::MATRIX_A>;
  using F = Image<T, LINES, LENGTH, GROUP, P::FEED_F, P::ALIGNED, P::PITCH_A, P::MATRIX_A>;  // if TWIN: laid out as A
  using Q = Entries<T, P::LAYOUT_Q, M, Q_WIDTH>;
  static constexpr int Q_PITCH = Q::LENGTH | 1, Q_MATRIX = Q::SIZE / Q::LENGTH * Q_PITCH;
  static constexpr int up(int elements) { return ceil_div(elements * int(sizeof(T)), 16) * 16; }
  // bytes per unit: STAGES stages, each for an image of A and for Q; then b, tau, lines, T
  static constexpr int OF_Q = FORMS_Q ? up(GROUP * Q_MATRIX) : 0;
  static constexpr int STAGE = A::BYTES > OF_Q ? A::BYTES : OF_Q;
  static constexpr int OF_B = up(GROUP * P::NRHS * Workplace<P>::BEYOND), OF_TAU = up(GROUP * K);
  static constexpr int OF_LINES = Group::WIDE ? up(2 * Factor<P>::LINE) : 0;
  static constexpr int OF_T = P::WANT == Want::panel ? up(GROUP * 2 * K * K) : 0;
  static constexpr int BYTES = P::STAGES * STAGE + OF_B + OF_TAU + OF_LINES + OF_T;
  static constexpr int UNITS = P::WARPS * 32 / Group::UNIT;
  static_assert(UNITS * BYTES <= P::SHARED_BYTES, "shared memory");
};

template <class P, class Arguments>
struct QrUnit {
  using S = QrShape<P>;
  using T = typename P::T;
  using Group = Team<P>;
  static constexpr int M = P::M, N = P::N, K = S::K, UNIT = Group::UNIT;

  Group team;
  const Arguments& x;
  decltype(place_of(Arguments::A, Layout::row, 0, 0, 0)) A;
  const int rank;  // of the thread in its unit
  unsigned char* const memory;
  Workplace<P> place;

  MANSARD_DEVICE QrUnit(const Arguments& x, unsigned char* memory)
      : x(x), A(place_of(x.A, P::LAYOUT_A, x.a_matrix, x.a_row, x.a_col)),
        rank(Group::WIDE ? threadIdx.x : threadIdx.x % 32), memory(memory) {}

  MANSARD_DEVICE T* stage(int which) const { return reinterpret_cast<T*>(memory + which * S::STAGE); }
  // Address `offset` bytes behind the stages: b at 0, then tau, lines, T.
  MANSARD_DEVICE T* beside(int offset) const { return reinterpret_cast<T*>(memory + P::STAGES * S::STAGE + offset); }
  MANSARD_DEVICE T* tau() const { return beside(S::OF_B); }

  MANSARD_DEVICE void fill(int which, i64 first, int count) const {
    S::A::template fill<UNIT>(stage(which), A, first, count, x.BATCH, rank);
  }

  // Factor matrices first .. first + count - 1, which are in stage `which`, and store their results.
  MANSARD_DEVICE void turn(int which, i64 first, int count) {
    if constexpr (P::NRHS > 0) fetch_right_hand_sides(first, count);
    T* const image = S::A::origin(stage(which), A, first);
    place = {image + team.index * S::A::MATRIX, beside(0) + team.index * P::NRHS * Workplace<P>::BEYOND,
             tau() + team.index * K, beside(S::OF_B + S::OF_TAU)};
    factor(first, count);
    if constexpr (S::RAW) store_raw(stage(which), image, first, count);
    if constexpr (P::WANT == Want::panel) store_compact(first, count);
    if constexpr (S::FORMS_Q || P::WANT == Want::r) store_r(image, first, count);
    if constexpr (S::FORMS_Q) store_q(stage(which), first, count);
    if constexpr (P::WANT == Want::solve) store_x(first, count);
    Group::meet();  // stage, b and tau are about to be overwritten by the next turn; all threads have stored results
  }

  MANSARD_DEVICE void fetch_right_hand_sides(i64 first, int count) {
    const auto from = place_of(x.B, P::LAYOUT_B, x.b_matrix, x.b_row, x.b_col);
    Entries<T, P::LAYOUT_B, M, P::NRHS>::template each<UNIT>(
        from, first, count, rank, [&](const T* at, int matrix, int row, int column) {
          beside(0)[(matrix * P::NRHS + column) * Workplace<P>::BEYOND + row] = *at;
        });
    Group::meet();  // b is complete, loaded by all threads
  }

  // Factor in registers; matrices that were unsafe once more by careful.cuh.
  MANSARD_DEVICE void factor(i64 first, int count) {
    Factor<P> quick(team, place);
    quick.run();
    const bool concerned = quick.unsafe && team.index < count;
    Group::meet();  // image and tau hold R, the vectors and tau, written by all threads
    if (Group::any(concerned)) again(x, place, first, concerned);
  }
  // Factor unsafe matrices again from the beginning, with scaled norms in shared memory.
  static __device__ __noinline__ void again(const Arguments& x, Workplace<P> place, i64 first, bool concerned) {
    const Group team;
    if (concerned) {
      const auto of_a = place_of(x.A, P::LAYOUT_A, x.a_matrix, x.a_row, x.a_col);
      Entries<T, P::LAYOUT_A, M, N>::template each<Group::THREADS>(
          of_a, first + team.index, 1, team.rank,
          [&](const T* at, int, int row, int column) { *place.at(row, column) = *at; });
      if constexpr (P::NRHS > 0) {
        const auto of_b = place_of(x.B, P::LAYOUT_B, x.b_matrix, x.b_row, x.b_col);
        Entries<T, P::LAYOUT_B, M, P::NRHS>::template each<Group::THREADS>(
            of_b, first + team.index, 1, team.rank,
            [&](const T* at, int, int row, int column) { place.b[column * Workplace<P>::BEYOND + row] = *at; });
      }
    }
    Group::meet();  // image and b are complete again, loaded by all threads
    Careful<P>::run(place, team.rank, concerned);
  }

  // Store R, the vectors and tau.
  MANSARD_DEVICE void store_raw(T* memory, T* image, i64 first, int count) const {
    const auto to = place_of(x.F, P::LAYOUT_F, x.f_matrix, x.f_row, x.f_col);
    if constexpr (P::TWIN) {
      S::F::template store<UNIT, false>(memory, to, first, count, Scales{1.0, 0.0, 0.0, 0.0}, rank);
    } else {
      Entries<T, P::LAYOUT_F, M, N>::template each<UNIT>(
          to, first, count, rank, [&](T* at, int matrix, int row, int column) { *at = *entry(image, matrix, row, column); });
    }
MANSARD_UNROLL_BY(2)
    for (int e = rank; e < count * K; e += UNIT) x.TAU[first * K + e] = tau()[e];
  }
  // Store R with zeros below the diagonal.
  MANSARD_DEVICE void store_r(T* image, i64 first, int count) const {
    const auto to = place_of(x.F, P::LAYOUT_F, x.f_matrix, x.f_row, x.f_col);
    Entries<T, P::LAYOUT_F, S::R_HEIGHT, N>::template each<UNIT>(
        to, first, count, rank, [&](T* at, int matrix, int row, int column) {
          *at = row > column ? zero<T>() : *entry(image, matrix, row, column);
        });
  }
  static MANSARD_DEVICE T* entry(T* image, int matrix, int row, int column) {
    return image + matrix * S::A::MATRIX + row * Workplace<P>::ROW + column * Workplace<P>::COLUMN;
  }

  // Form Q in registers, and store it through the stage of A.
  MANSARD_DEVICE void store_q(T* memory, i64 first, int count) {
    Orthogonal<P, S::Q_WIDTH> q{team, place, {}};
    q.run();
    Group::meet();  // image is about to be overwritten by Q; all threads have read R and the vectors
    q.template lay<P::LAYOUT_Q != Layout::col, S::Q_PITCH>(memory + team.index * S::Q_MATRIX);
    Group::meet();  // stage holds Q, written by all threads
    const auto to = place_of(x.Q, P::LAYOUT_Q, x.q_matrix, x.q_row, x.q_col);
    S::Q::template each<UNIT>(to, first, count, rank, [&](T* at, int matrix, int row, int column) {
      *at = memory[matrix * S::Q_MATRIX +
                   (P::LAYOUT_Q == Layout::col ? column * S::Q_PITCH + row : row * S::Q_PITCH + column)];
    });
  }

  // Form and store T of Q = I - V T V^H.
  MANSARD_DEVICE void store_compact(i64 first, int count) const {
    T* const t = beside(S::OF_B + S::OF_TAU + S::OF_LINES);
    Compact<P>::run(team, place, t + team.index * 2 * K * K, t + (team.index * 2 + 1) * K * K);
    const auto to = place_of(x.Q, P::LAYOUT_Q, x.q_matrix, x.q_row, x.q_col);
    Entries<T, P::LAYOUT_Q, K, K>::template each<UNIT>(
        to, first, count, rank,
        [&](T* at, int matrix, int row, int column) { *at = t[(matrix * 2 * K + row) * K + column]; });
  }

  // Solve R X = Q^H B and store X.
  MANSARD_DEVICE void store_x(i64 first, int count) const {
    Substituted<P>::run(team, place);
    Group::meet();  // b holds X, written by all threads
    const auto to = place_of(x.X, P::LAYOUT_X, x.x_matrix, x.x_row, x.x_col);
    Entries<T, P::LAYOUT_X, N, P::NRHS>::template each<UNIT>(
        to, first, count, rank, [&](T* at, int matrix, int row, int column) {
          *at = beside(0)[(matrix * P::NRHS + column) * Workplace<P>::BEYOND + row];
        });
  }
};

// All groups of a unit, with up to STAGES groups in flight.
template <class P, class Arguments>
MANSARD_DEVICE void qr_turns(const Arguments& arguments) {
  using S = QrShape<P>;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const int unit = S::UNITS == 1 ? 0 : threadIdx.x / 32;
  QrUnit<P, Arguments> mine(arguments, arena + unit * S::BYTES);
  const i64 batch = arguments.BATCH, step = static_cast<i64>(gridDim.x) * S::UNITS * S::GROUP;
  i64 first = (static_cast<i64>(blockIdx.x) * S::UNITS + unit) * S::GROUP;
  const auto count = [&](i64 group) { return batch - group < S::GROUP ? static_cast<int>(batch - group) : S::GROUP; };
  const auto fill = [&](int stage, i64 group) {
    if (group < batch) mine.fill(stage, group, count(group));
    cp_async_commit();
  };
  MANSARD_UNROLL
  for (int stage = 0; stage < P::STAGES; ++stage) fill(stage, first + stage * step);
  int stage = 0;
MANSARD_UNROLL_BY(1)
  for (; first < batch; first += step) {
    cp_async_wait<P::STAGES - 1>();
    Team<P>::meet();  // this stage's image: the copies of all threads have arrived
    mine.turn(stage, first, count(first));
    fill(stage, first + P::STAGES * step);
    if (++stage == P::STAGES) stage = 0;
  }
}

}  // namespace mansard
