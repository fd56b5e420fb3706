// Reserved words where nobody has formed anything yet, a few steps before anybody asks: written all beforehand, they would
// go to memory and back, as many bytes as the results.
//
// A block writes those of its own tiles, BATCH steps at a time, and counts itself in once they can be seen. When all
// blocks have, steps of that batch may be formed and read. Release and acquire order this, once per batch. Nobody
// waits for something later: what a step asks for is due in every block that is not behind it.
#pragma once
#include "families/powers/retention.cuh"

namespace mansard {

template <class P, class Arguments>
struct Prefill {
  using R = typename Scalar<typename P::T>::Real;
  static constexpr int BATCH = 12;     // steps
  static constexpr int TOGETHER = 4;   // that are written between two looks at the others
  static constexpr int REACH = P::LAG + 2;            // that a step needs: what it may read, and whatever shares a line with it
  static constexpr int LEAD = REACH + BATCH + 5;      // that are written before they are formed: others learn of it late
  const Arguments& arguments;
  const Arena<P>& arena;
  const int lane, steps, all_steps;  // of this block, of the first one
  const int batches = ceil_div(all_steps, BATCH);
  int written = 0, told = 0, known = 0;  // steps; batches: of this block, of all blocks

  // Steps that must have been filled before this one is formed; its results replace reserved words, too.
  static MANSARD_DEVICE int needed(int step, int all_steps) { return min(step + REACH, all_steps); }

  MANSARD_DEVICE void run() {
MANSARD_UNROLL_BY(1)
    while ((told < batches || known < batches) && !__any_sync(~0u, peek(arena.given_up()) != 0)) {
      look();
      write();
      pause();
    }
  }

 private:
  MANSARD_DEVICE u32* count(int batch) const { return arguments.FLAGS + P::P * P::BLOCKS + 1 + batch; }

  MANSARD_DEVICE void look() {
    bool all = false;
    if (lane == 0 && known < batches && load_relaxed(count(known)) == gridDim.x) {
      all = load_acquire(count(known)) == gridDim.x;
      post_release(arena.prefilled(), min((known + 1) * BATCH, all_steps));
    }
    known += __any_sync(~0u, all);
  }
  MANSARD_DEVICE void write() {
    const int due = min(steps, __shfl_sync(~0u, peek(arena.issued(0)), 0) + LEAD);
MANSARD_UNROLL_BY(1)
    for (int i = 0; i < TOGETHER && told < batches; ++i) {
      if (written < steps) {
        if (written >= due) break;
        reserve(written++);
      }
      if (written == min(steps, (told + 1) * BATCH)) tell();
    }
  }
  MANSARD_DEVICE void tell() {
    __syncwarp();
    if (lane == 0) add_release(count(told), 1u);
    ++told;
  }
  MANSARD_DEVICE void reserve(int step) const {
    constexpr int WORDS = P::NVECS * static_cast<int>(sizeof(typename P::T) / sizeof(R));
    const i64 row = (static_cast<i64>(step) * gridDim.x + blockIdx.x) * (32 * P::TILE);
    const i64 left = arguments.ROWS - row;
    const int words = static_cast<int>(left < 32 * P::TILE ? left : 32 * P::TILE) * WORDS;
    R* first = reinterpret_cast<R*>(arguments.VECTORS) + row * WORDS;
    const i64 to_next = arguments.step * static_cast<i64>(sizeof(typename P::T) / sizeof(R));
MANSARD_UNROLL_BY(1)
    for (int i = lane; i < words; i += 32) {
      MANSARD_UNROLL
      for (int k = 1; k < P::P; ++k) first[(k - 1) * to_next + i] = reserved<R>();
    }
  }
};

}  // namespace mansard
