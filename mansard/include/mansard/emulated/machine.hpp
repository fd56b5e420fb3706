// The emulated machine: resident blocks, their warps and threads, and the scheduler that runs them.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "copies.hpp"
#include "fibers.hpp"
#include "hooks.hpp"
#include "mbarrier.hpp"

namespace mansard::emulated {

constexpr u32 kWarpSize = 32, kNamedBarriers = 16;

enum class Reason { none, threads, named, warp, mbarrier, flag, spin };

// Every wait is for some bits of some word to change: a barrier's generation, an mbarrier's phase, a flag in
// memory.
struct Wait {
  Reason reason = Reason::none;
  const u32* word = nullptr;
  u32 mask = 0, old = 0;
  u64 detail = 0;  // barrier number, lane mask
  Site site = {"", 0};

  bool over() const {
    if (word == nullptr) return true;
    u32 now;
    std::memcpy(&now, word, sizeof(now));  // half of an mbarrier, or of whatever the kernel waits on
    return (now & mask) != old;
  }
};

constexpr u64 kMaxSharedBytes = 227 << 10;  // what a block may have on sm_90

struct Block;

struct Fiber : Seat {
  Block* home;
  u32 number;  // of the thread in its block
  Context context;
  Wait wait;
  bool finished = false;
  CopyGroups loads;   // cp.async
  CopyGroups stores;  // bulk stores
};

// Lanes meeting at one collective.
struct Meeting {
  Collective kind;
  u32 mask;
  u32 arrived = 0, leaving = 0;  // lanes still to arrive make it open; lanes still to leave keep it in use
  bool open = false;
  u32 generation = 0;
  Site site = {"", 0};
  alignas(16) unsigned char slots[kWarpSize * kSlotBytes];
};

struct Warp {
  u32 alive = 0;
  std::vector<std::unique_ptr<Meeting>> meetings;
  Site barrier_site[kNamedBarriers] = {};  // where the warp's first lane arrived
  u32 barrier_lanes[kNamedBarriers] = {};
};

struct Barrier {
  u32 generation = 0, arrived = 0;
  u32 votes = 0, result = 0;  // of __syncthreads_count: under way, and of the last generation
  u32 required = 0;           // 0: all threads that have not exited
};

// An mbarrier between its initialisation and its end, and the word it last was.
struct LiveBarrier {
  u64* word;
  u64 last;
  Site site;  // of its initialisation
};

struct Block {
  uint3 index;
  u32 alive = 0;
  std::unique_ptr<unsigned char, decltype(&std::free)> arena{nullptr, &std::free};
  std::vector<Warp> warps;
  Barrier barriers[kNamedBarriers];
  std::vector<BulkLoad> loads;
  std::vector<LiveBarrier> mbarriers;
  std::vector<Copy> late_stores;  // read from shared memory, not awaited: written when the block ends
};

inline void write_mbarrier(Block& block, u64* word, const Mbarrier& state) {
  *word = state.encode();
  for (LiveBarrier& live : block.mbarriers) {
    if (live.word == word) live.last = *word;
  }
}

// Small, and the same on every machine: a seed names an order.
class Random {
 public:
  explicit Random(u32 seed) : state_(seed) {}
  u32 below(u32 limit) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<u32>((state_ >> 33) % limit);
  }

 private:
  u64 state_;
};

__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...);

class Machine {
 public:
  using Body = void (*)(const void* arguments);
  Machine(const Launch& launch, Body body, const void* arguments);

  // Returns what went wrong, or nothing.
  std::string run();

  // --- Called by running threads ---------------------------------------------------------------------------
  Fiber& running() { return *running_; }
  // Runs the other threads until the wait is over.
  void block_on(const Wait& wait);
  // Waits at a block barrier. In greedy orders other warps run first even if the barrier has just opened.
  void block_at_barrier(const Wait& wait);
  // Ends the launch with a report about the running thread.
  [[noreturn]] void fail(Site site, const std::string& what);
  void check_barrier(Block& block, u32 id);
  void check_meeting(Warp& warp, Meeting& meeting);

 private:
  static void thread_main();
  void thread_exit(Fiber& fiber);
  void block_exit(Block& block);
  void settle_in(Block& block, u32 number);
  void run_resident(const std::vector<u32>& blocks);
  bool step_all();
  bool step_blocks();
  bool step_block(std::size_t first);
  bool step_warp(std::size_t first, std::size_t last);
  bool run_to_wait(Fiber& fiber);
  bool land_one();
  void report_stuck();
  void arrange(std::vector<u32>& order);

  Launch launch_;
  Body body_;
  const void* arguments_;
  u32 threads_;
  Random random_;
  std::unique_ptr<Stacks> stacks_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Fiber> fibers_;
  std::vector<u32> order_;
  u32 alive_ = 0;
  u64 spins_ = 0;  // turns of spin loops in the last round
  Context scheduler_;
  Fiber* running_ = nullptr;
  std::string error_;
};

extern Machine* machine;

}  // namespace mansard::emulated
