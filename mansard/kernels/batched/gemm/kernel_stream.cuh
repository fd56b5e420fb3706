// C = alpha A B + beta C for a batch on the tensor cores, panels streaming through a ring: one barrier per panel.
//
// A block computes one BLK_M x BLK_N tile of C after the other, as sum over panels of A(:, k) B(k, :) with BLK_K values
// of k each; where BLK_K covers K, a panel is a whole operand. WARPS_M x WARPS_N warps have tiles of 16 x 16 in
// registers: double precision (tensor_tile.cuh), or float32 and complex64 as three TF32 products (split_tile.cuh).
// Copies run STAGES - 1 panels ahead of the products, across tiles and matrices. An operand that serves the whole
// batch, and whose panel is all of it, is copied once per block.
//
// Shared memory: common operands (COMMON); a ring of STAGES places, each with a panel of A (A::BYTES) and one of B; a
// strip per warp, by way of which C leaves (strips.cuh).
//
// Barriers (barrier -> buffer -> writer):
//   advance -> panels of this place -> copies of all threads of the block
//           -> panels of the place before, read by all warps -> the copies that are started next
//
// Limits: memory bandwidth to 96 rows of float64 (91 %, H200). Beyond, the tensor cores are idle while all warps load
// their first fragments after a barrier: 36 of 66 TFLOP/s at 128.
//
//   WARPS_M, WARPS_N      warps of a block along the rows and the columns of C
//   BLK_M, BLK_N, BLK_K   the tile of C, and columns of A per panel
//   KSTEP                 values of k per instruction
//   STAGES                places of the ring
#pragma once
#include "kernels/batched/gemm/stream_window.cuh"
#include "kernels/batched/gemm/strips.cuh"

namespace mansard {

template <class P, class S, class Real>
struct UnitOf {
  using Type = DoubleTile<P, S>;
};
template <class P, class S>
struct UnitOf<P, S, float> {
  using Type = SplitTile<P, S>;
};

template <class P>
struct StreamShape {
  using T = typename P::T;
  static constexpr int WARPS = P::WARPS_M * P::WARPS_N, THREADS = WARPS * 32;
  static constexpr bool ROW_MAJOR_A = P::LAYOUT_A != Layout::col, ROW_MAJOR_B = P::LAYOUT_B != Layout::col;
  static constexpr int M = P::BLK_M < P::M ? P::BLK_M : P::M, N = P::BLK_N < P::N ? P::BLK_N : P::N;
  static constexpr int K = P::BLK_K < P::K ? P::BLK_K : P::K;
  static constexpr int TILES_M = ceil_div(P::M, M), TILES_N = ceil_div(P::N, N), PANELS = ceil_div(P::K, K);
  static constexpr int LAST = P::K - (PANELS - 1) * K;  // columns of A in the last panel
  using A = StreamWindow<T, ROW_MAJOR_A ? P::M : P::K, ROW_MAJOR_A ? P::K : P::M, ROW_MAJOR_A ? M : K,
                         ROW_MAJOR_A ? K : M, P::FEED_A, P::ALIGNED, P::PITCH_A, P::LINE_A>;
  using B = StreamWindow<T, ROW_MAJOR_B ? P::K : P::N, ROW_MAJOR_B ? P::N : P::K, ROW_MAJOR_B ? K : N,
                         ROW_MAJOR_B ? N : K, P::FEED_B, P::ALIGNED, P::PITCH_B, P::LINE_B>;
  // operands that are copied once per block
  static constexpr bool COMMON_A = P::SHARED_A && TILES_M * PANELS == 1, COMMON_B = P::SHARED_B && TILES_N * PANELS == 1;
  static constexpr int COMMON = (COMMON_A ? A::BYTES : 0) + (COMMON_B ? B::BYTES : 0);
  static constexpr int PLACE_A = COMMON_A ? 0 : A::BYTES, STAGE = PLACE_A + (COMMON_B ? 0 : B::BYTES);
  static constexpr int STRIPS = COMMON + P::STAGES * STAGE;  // where they begin
  static_assert(P::STAGES >= 2, "a panel is copied while another one is multiplied");
};

// The tiles of a block, and the ring of panels that are copied ahead of them.
template <class P, class Arguments>
struct Stream {
  using S = StreamShape<P>;
  using T = typename P::T;
  using Unit = typename UnitOf<P, S, typename Scalar<T>::Real>::Type;
  // fragments read beyond the windows' ends: the values are not used, but the addresses must be shared memory (SLACK)
  static constexpr int BYTES = S::STRIPS + S::WARPS * Strip<P, S, Unit>::BYTES;
  static_assert(BYTES + P::SLACK <= P::SHARED_BYTES, "shared memory");
  const Operands<P, Arguments> operands;
  unsigned char* const arena;
  const i64 batch, items, step;
  i64 item, ahead;
  int ahead_panel = 0, stage = P::STAGES - 1, free_stage = 0;  // places: of the panel in use; filled next

  MANSARD_DEVICE Stream(const Arguments& arguments, unsigned char* arena)
      : operands(arguments), arena(arena), batch(arguments.BATCH), items(batch * (S::TILES_M * S::TILES_N)),
        step(static_cast<i64>(gridDim.x)), item(static_cast<i64>(blockIdx.x)), ahead(item) {
    if constexpr (S::COMMON_A) S::A::template fill<S::THREADS>(common_a(), operands.A, 0, batch, 0, 0, threadIdx.x);
    if constexpr (S::COMMON_B) S::B::template fill<S::THREADS>(common_b(), operands.B, 0, batch, 0, 0, threadIdx.x);
MANSARD_UNROLL_BY(1)
    for (int i = 0; i + 1 < P::STAGES; ++i) fill();
  }

  static MANSARD_DEVICE i64 matrix(i64 item) { return item / (S::TILES_M * S::TILES_N); }
  static MANSARD_DEVICE int row(i64 item) { return static_cast<int>(item / S::TILES_N % S::TILES_M) * S::M; }
  static MANSARD_DEVICE int column(i64 item) { return static_cast<int>(item % S::TILES_N) * S::N; }
  MANSARD_DEVICE T* common_a() const { return reinterpret_cast<T*>(arena); }
  MANSARD_DEVICE T* common_b() const { return reinterpret_cast<T*>(arena + (S::COMMON_A ? S::A::BYTES : 0)); }
  MANSARD_DEVICE T* place_a(int at) const { return reinterpret_cast<T*>(arena + S::COMMON + at * S::STAGE); }
  MANSARD_DEVICE T* place_b(int at) const {
    return reinterpret_cast<T*>(arena + S::COMMON + at * S::STAGE + S::PLACE_A);
  }
  MANSARD_DEVICE T* strip() const {
    return reinterpret_cast<T*>(arena + S::STRIPS + threadIdx.x / 32 * Strip<P, S, Unit>::BYTES);
  }

  // Start the copies of the next panel into the free place.
  MANSARD_DEVICE void fill() {
    if (ahead < items) {
      const int k = S::PANELS == 1 ? 0 : ahead_panel * S::K, m = row(ahead), n = column(ahead);
      const i64 index = matrix(ahead);
      if constexpr (!S::COMMON_A)
        S::A::template fill<S::THREADS>(place_a(free_stage), operands.A, index, batch, S::ROW_MAJOR_A ? m : k,
                                        S::ROW_MAJOR_A ? k : m, threadIdx.x);
      if constexpr (!S::COMMON_B)
        S::B::template fill<S::THREADS>(place_b(free_stage), operands.B, index, batch, S::ROW_MAJOR_B ? k : n,
                                        S::ROW_MAJOR_B ? n : k, threadIdx.x);
      if (++ahead_panel == S::PANELS) ahead_panel = 0, ahead += step;
    }
    cp_async_commit();
    if (++free_stage == P::STAGES) free_stage = 0;
  }
  // Wait for the next panel, and start the copies of a later one into the place of the panel before.
  MANSARD_DEVICE void advance() {
    cp_async_wait<P::STAGES - 2>();
    __syncthreads();  // the next panel: copies of all threads have arrived; the panel before: all warps have read it
    fill();
    if (++stage == P::STAGES) stage = 0;
  }
  MANSARD_DEVICE const T* panel_a(int panel) const {
    if constexpr (S::COMMON_A) return S::A::origin(common_a(), operands.A, 0, 0, 0);
    const int k = panel * S::K, m = row(item);
    return S::A::origin(place_a(stage), operands.A, matrix(item), S::ROW_MAJOR_A ? m : k, S::ROW_MAJOR_A ? k : m);
  }
  MANSARD_DEVICE const T* panel_b(int panel) const {
    if constexpr (S::COMMON_B) return S::B::origin(common_b(), operands.B, 0, 0, 0);
    const int k = panel * S::K, n = column(item);
    return S::B::origin(place_b(stage), operands.B, matrix(item), S::ROW_MAJOR_B ? k : n, S::ROW_MAJOR_B ? n : k);
  }
  MANSARD_DEVICE Part part() const {
    const int m = row(item), n = column(item);
    return {matrix(item), m, n, S::TILES_M == 1 ? S::M : min(S::M, P::M - m),
            S::TILES_N == 1 ? S::N : min(S::N, P::N - n)};
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void gemm_stream(const Arguments& arguments) {
  using S = StreamShape<P>;
  using T = typename P::T;
  using Unit = typename Stream<P, Arguments>::Unit;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  Stream<P, Arguments> stream(arguments, arena);
  Unit unit(threadIdx.x);
MANSARD_UNROLL_BY(1)
  for (; stream.item < stream.items; stream.item += stream.step) {
    unit.clear();
MANSARD_UNROLL_BY(1)
    for (int panel = 0; panel < S::PANELS; ++panel) {
      stream.advance();
      const T *a = stream.panel_a(panel), *b = stream.panel_b(panel);
      if (S::LAST == S::K || panel + 1 < S::PANELS) unit.template multiply<S::K>(a, b);
      else unit.template multiply<S::LAST>(a, b);
    }
    Strip<P, S, Unit>::store(unit, stream.strip(), stream.operands, stream.part());
  }
}

}  // namespace mansard
