// C = alpha A B + beta C by teams of threads that loop along K: shared by kernel_block.cuh and kernel_tensor.cuh.
//
// A team computes one BLK_M x BLK_N tile of C after the other, as sum over panels of A(:, k) B(k, :) with BLK_K values
// of k each. The sums are in registers (Unit: lane_tile.cuh or tensor_tile.cuh). Copies run ahead of the products,
// across tiles and matrices.
//
// Shared memory of a team (OF_TEAM): a ring of STAGES places, each with a panel of A (A::BYTES) and one of B; then,
// with OUT own, a C image. OUT back: the C image replaces the panels in the last place used.
//
// Barriers (meet -> buffer -> writer):
//   arrive  -> panels of this stage -> copies of other threads of the team
//   leave   -> panels of this stage, read by all -> the next copies into this place
//   OUT     back: meet -> panels -> C image;  both: meet -> C image -> other threads, before it is stored
//
//   PER_BLOCK  teams per block
//   OUT        how C leaves: direct from registers; or, if a tile is a whole matrix, in full lines through shared
//              memory: own (a place of its own) or back (the place of the last panels)
#pragma once
#include "kernels/batched/gemm/operands.cuh"
#include "kernels/batched/gemm/window.cuh"

namespace mansard {

template <class P, int TEAM_>
struct PanelShape {
  using T = typename P::T;
  static constexpr int TEAM = TEAM_, THREADS = TEAM * P::PER_BLOCK;
  static constexpr bool ROW_MAJOR_A = P::LAYOUT_A != Layout::col, ROW_MAJOR_B = P::LAYOUT_B != Layout::col;
  static constexpr int M = P::BLK_M < P::M ? P::BLK_M : P::M, N = P::BLK_N < P::N ? P::BLK_N : P::N;
  static constexpr int K = P::BLK_K < P::K ? P::BLK_K : P::K;
  static constexpr int TILES_M = ceil_div(P::M, M), TILES_N = ceil_div(P::N, N), PANELS = ceil_div(P::K, K);
  static constexpr int LAST = P::K - (PANELS - 1) * K;  // columns of A in the last panel
  using A = Window<T, ROW_MAJOR_A ? P::M : P::K, ROW_MAJOR_A ? P::K : P::M, ROW_MAJOR_A ? M : K, ROW_MAJOR_A ? K : M,
                   P::FEED_A, P::ALIGNED, P::PITCH_A>;
  using B = Window<T, ROW_MAJOR_B ? P::K : P::N, ROW_MAJOR_B ? P::N : P::K, ROW_MAJOR_B ? K : N, ROW_MAJOR_B ? N : K,
                   P::FEED_B, P::ALIGNED, P::PITCH_B>;
  using C = Image<T, P::M, P::N, 1, P::FEED_C, P::ALIGNED, P::PITCH_C, P::MATRIX_C>;
  static constexpr bool BACK = P::OUT == Out::back, DIRECT = P::OUT == Out::direct;
  static_assert(DIRECT || TILES_M * TILES_N == 1, "only whole matrices go by way of shared memory");
  static constexpr int BOTH = A::BYTES + B::BYTES, STAGE = BACK && C::BYTES > BOTH ? C::BYTES : BOTH;
  // fragments read beyond the windows' ends: the values are not used, but the addresses must be shared memory (SLACK)
  static constexpr int OF_TEAM = P::STAGES * STAGE + (P::OUT == Out::own ? C::BYTES : 0);
  static_assert(P::PER_BLOCK * OF_TEAM + P::SLACK <= P::SHARED_BYTES, "shared memory");
};

// Barrier of a team.
template <class S, int PER_BLOCK>
MANSARD_DEVICE void meet(int team) {
  if constexpr (S::TEAM == 32) __syncwarp();
  else if constexpr (PER_BLOCK == 1) __syncthreads();
  else named_barrier_sync(1 + team, S::TEAM);
}

// The tiles of a team, and the ring of panels that are copied ahead of them.
template <class P, class S, class Arguments>
struct Panels {
  using T = typename P::T;
  const Operands<P, Arguments> operands;
  unsigned char* memory;
  const i64 batch, items, step;
  const int rank;
  i64 item, ahead;
  int ahead_panel = 0, stage = 0;

  MANSARD_DEVICE Panels(const Arguments& arguments, unsigned char* arena, int team, int rank)
      : operands(arguments), memory(arena + team * S::OF_TEAM), batch(arguments.BATCH),
        items(batch * (S::TILES_M * S::TILES_N)), step(static_cast<i64>(gridDim.x) * P::PER_BLOCK), rank(rank),
        item(static_cast<i64>(blockIdx.x) * P::PER_BLOCK + team), ahead(item) {}

  static MANSARD_DEVICE i64 matrix(i64 item) { return item / (S::TILES_M * S::TILES_N); }
  static MANSARD_DEVICE int row(i64 item) { return static_cast<int>(item / S::TILES_N % S::TILES_M) * S::M; }
  static MANSARD_DEVICE int column(i64 item) { return static_cast<int>(item % S::TILES_N) * S::N; }
  MANSARD_DEVICE T* place_a(int at) const { return reinterpret_cast<T*>(memory + at * S::STAGE); }
  MANSARD_DEVICE T* place_b(int at) const { return reinterpret_cast<T*>(memory + at * S::STAGE + S::A::BYTES); }

  // Start the copies of the next panel into place `at`.
  MANSARD_DEVICE void fill(int at) {
    if (ahead < items) {
      const int k = S::PANELS == 1 ? 0 : ahead_panel * S::K, m = row(ahead), n = column(ahead);
      const i64 index = matrix(ahead);
      S::A::template fill<S::TEAM>(place_a(at), operands.A, index, batch, S::ROW_MAJOR_A ? m : k,
                                   S::ROW_MAJOR_A ? k : m, rank);
      S::B::template fill<S::TEAM>(place_b(at), operands.B, index, batch, S::ROW_MAJOR_B ? k : n,
                                   S::ROW_MAJOR_B ? n : k, rank);
      if (++ahead_panel == S::PANELS) ahead_panel = 0, ahead += step;
    }
    cp_async_commit();
  }
  MANSARD_DEVICE const T* panel_a(int panel) const {
    const int k = panel * S::K, m = row(item);
    return S::A::origin(place_a(stage), operands.A, matrix(item), S::ROW_MAJOR_A ? m : k, S::ROW_MAJOR_A ? k : m);
  }
  MANSARD_DEVICE const T* panel_b(int panel) const {
    const int k = panel * S::K, n = column(item);
    return S::B::origin(place_b(stage), operands.B, matrix(item), S::ROW_MAJOR_B ? k : n, S::ROW_MAJOR_B ? n : k);
  }
};

// Store C from registers; ADJACENT entries of a row are adjacent in memory and aligned to their common size.
template <class P, class S, class Arguments, class Unit>
MANSARD_DEVICE void store_direct(const Panels<P, S, Arguments>& panels, const Unit& unit) {
  using T = typename P::T;
  const auto& place = panels.operands.C;
  const int m = panels.row(panels.item), n = panels.column(panels.item);
  const auto& scales = panels.operands.scales;
  T* to = matrix_at(place.base, place.matrix, panels.matrix(panels.item)) + m * place.line + n * place.step;
  constexpr int PUT = gcd(Unit::PUT, P::ADJACENT);
  unit.template for_each<PUT>([&](int row, int column, const T* sum) {
    if (S::TILES_M > 1 && m + row >= P::M || S::TILES_N > 1 && n + column >= P::N) return;
    T* at = to + row * place.line + column * place.step;
    Pack<T, PUT> pack;
    MANSARD_UNROLL
    for (int i = 0; i < PUT; ++i) {
      pack.e[i] = scales.product(sum[i]);
      if constexpr (P::ACCUMULATE) pack.e[i] = scales.with_old(pack.e[i], at[i]);
    }
    if constexpr (P::ALIGNED || !Scalar<T>::COMPLEX) store_pack(at, pack);
    else *at = pack.e[0];
  });
}

template <class P, class S, class Unit, class Arguments>
MANSARD_DEVICE void gemm_panels(const Arguments& arguments) {
  using T = typename P::T;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const int team = threadIdx.x / S::TEAM, rank = threadIdx.x % S::TEAM;
  Panels<P, S, Arguments> panels(arguments, arena, team, rank);
  MANSARD_UNROLL
  for (int stage = 0; stage < P::STAGES; ++stage) panels.fill(stage);
  Unit unit(rank);
MANSARD_UNROLL_BY(1)
  for (; panels.item < panels.items; panels.item += panels.step) {
    unit.clear();
    const auto arrive = [&]() {
      cp_async_wait<P::STAGES - 1>();
      meet<S, P::PER_BLOCK>(team);  // panels of this stage: the copies of all threads have arrived
    };
    const auto leave = [&]() {
      meet<S, P::PER_BLOCK>(team);  // this stage is about to be overwritten by the next copies; all have read it
      panels.fill(panels.stage);
      if (++panels.stage == P::STAGES) panels.stage = 0;
    };
MANSARD_UNROLL_BY(1)
    for (int panel = 0; panel + 1 < S::PANELS; ++panel) {
      arrive();
      unit.template multiply<S::K>(panels.panel_a(panel), panels.panel_b(panel));
      leave();
    }
    arrive();
    unit.template multiply<S::LAST>(panels.panel_a(S::PANELS - 1), panels.panel_b(S::PANELS - 1));
    if constexpr (S::DIRECT) {
      leave();
      store_direct(panels, unit);
    } else {
      const auto& C = panels.operands.C;
      const Scales& scales = panels.operands.scales;
      T* memory = S::BACK ? panels.place_a(panels.stage) : reinterpret_cast<T*>(panels.memory + P::STAGES * S::STAGE);
      if constexpr (S::BACK) meet<S, P::PER_BLOCK>(team);  // panels are about to be overwritten by C; all are read
      else leave();
      unit.template lay_down<typename S::C>(S::C::origin(memory, C, panels.item), scales);
      meet<S, P::PER_BLOCK>(team);  // C image is complete, written by all threads of the team
      S::C::template store<S::TEAM, P::ACCUMULATE>(memory, C, panels.item, 1, scales, rank);
      if constexpr (S::BACK) leave();
    }
  }
}

}  // namespace mansard
