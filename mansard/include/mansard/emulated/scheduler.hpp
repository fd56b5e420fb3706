// Which thread runs next, when copies land, and when to give up.
#pragma once

#include <algorithm>
#include <numeric>

#include "machine.hpp"
#include "report.hpp"

namespace mansard::emulated {

inline Machine::Machine(const Launch& launch, Body body, const void* arguments)
    : launch_(launch),
      body_(body),
      arguments_(arguments),
      threads_(launch.block[0] * launch.block[1] * launch.block[2]),
      random_(launch.seed) {}

inline void Machine::arrange(std::vector<u32>& order) {
  if (is_reversed(launch_.order)) std::reverse(order.begin(), order.end());
  if (launch_.order != random) return;
  for (u32 left = static_cast<u32>(order.size()); left > 1; --left) {
    std::swap(order[left - 1], order[random_.below(left)]);
  }
}

inline std::string Machine::run() {
  std::vector<u32> blocks(launch_.grid[0] * launch_.grid[1] * launch_.grid[2]);
  std::iota(blocks.begin(), blocks.end(), 0);
  arrange(blocks);
  const std::size_t resident = launch_.cooperative ? blocks.size() : 1;
  stacks_ = std::make_unique<Stacks>(resident * threads_);
  for (std::size_t first = 0; first < blocks.size() && error_.empty(); first += resident) {
    run_resident({blocks.begin() + first, blocks.begin() + first + resident});
  }
  return error_;
}

// --- Seating -----------------------------------------------------------------------------------------------

inline void Machine::settle_in(Block& block, u32 number) {
  const u32* size = launch_.block;
  fibers_.emplace_back();
  Fiber& fiber = fibers_.back();
  fiber.thread = {number % size[0], number / size[0] % size[1], number / (size[0] * size[1])};
  fiber.block = block.index;
  fiber.block_size = {size[0], size[1], size[2]};
  fiber.grid_size = {launch_.grid[0], launch_.grid[1], launch_.grid[2]};
  fiber.arena = block.arena.get();
  fiber.lane = number % kWarpSize;
  fiber.home = &block;
  fiber.number = number;
  fiber.context.prepare((*stacks_)[fibers_.size() - 1], &Machine::thread_main);
  block.warps[number / kWarpSize].alive |= 1u << fiber.lane;
}

inline void Machine::run_resident(const std::vector<u32>& blocks) {
  blocks_.clear();
  fibers_.clear();
  fibers_.reserve(blocks.size() * threads_);
  for (const u32 number : blocks) {
    const u32* grid = launch_.grid;
    blocks_.push_back(std::make_unique<Block>());
    Block& block = *blocks_.back();
    block.index = {number % grid[0], number / grid[0] % grid[1], number / (grid[0] * grid[1])};
    block.alive = threads_;
    block.warps.resize((threads_ + kWarpSize - 1) / kWarpSize);
    // Exactly as long as asked for, so that AddressSanitizer's red zone begins where the memory ends.
    void* arena = nullptr;
    if (posix_memalign(&arena, 128, launch_.shared_bytes) != 0) throw std::bad_alloc();
    std::memset(arena, kPoison, launch_.shared_bytes);
    block.arena.reset(static_cast<unsigned char*>(arena));
    for (u32 thread = 0; thread < threads_; ++thread) settle_in(block, thread);
  }
  order_.resize(fibers_.size());
  std::iota(order_.begin(), order_.end(), 0);
  if (is_reversed(launch_.order)) arrange(order_);
  alive_ = static_cast<u32>(fibers_.size());

  // Spinning threads run on and on; enough rounds in which nothing changes mean that nothing will.
  constexpr u32 kPatience = 20000;
  u32 idle_rounds = 0;
  while (alive_ > 0 && error_.empty()) {
    if (is_greedy(launch_.order) ? step_blocks() : step_all()) {
      idle_rounds = 0;
    } else if (error_.empty() && !land_one() && (++idle_rounds > kPatience || spins_ == 0)) {
      report_stuck();
    }
  }
}

// --- Running -----------------------------------------------------------------------------------------------

// Runs every thread that can, in order, up to its next wait. Returns whether that changed anything.
inline bool Machine::step_all() {
  if (launch_.order == random) arrange(order_);
  const u64 changes_before = visible_changes;
  bool progress = false;
  spins_ = 0;
  for (const u32 i : order_) {
    if (fibers_[i].finished || !fibers_[i].wait.over()) continue;
    progress |= run_to_wait(fibers_[i]);
    if (!error_.empty()) return true;
  }
  return progress || visible_changes != changes_before;
}

// Runs a thread up to its next wait. Returns whether it did more than a turn of a spin loop.
inline bool Machine::run_to_wait(Fiber& fiber) {
  running_ = &fiber;
  current = &fiber;
  switch_context(scheduler_, fiber.context);
  if (error_.empty() && overflowed(fiber.context)) {
    error_ = text(
        "block %s thread %s: stack overflow; compile the runtime with a larger "
        "MANSARD_EMULATED_STACK_BYTES than %zu",
        describe(fiber.block).c_str(), describe(fiber.thread).c_str(), kStackBytes);
  }
  const bool spun = error_.empty() && !fiber.finished && fiber.wait.reason == Reason::spin;
  spins_ += spun;
  return !spun;
}

// --- Greedy orders -----------------------------------------------------------------------------------------

// What one warp may do before others get their turn, even if it could go on: rounds in which its lanes come
// from one warp collective to the next, and turns of spin loops. A warp that polls a word of another warp by
// votes or shuffles never comes to a barrier by itself.
constexpr u32 kMostRounds = 1 << 14;
constexpr u64 kMostSpins = 1 << 11;

// Runs every resident block in turn as far as it can alone. Returns whether that changed anything.
inline bool Machine::step_blocks() {
  const u64 changes_before = visible_changes;
  bool progress = false;
  spins_ = 0;
  for (std::size_t first = 0; first < order_.size(); first += threads_) {
    const u64 most = spins_ + kMostSpins;
    while (spins_ < most && step_block(first)) progress = true;
    if (!error_.empty()) return true;
  }
  return progress || visible_changes != changes_before;
}

// Gives each warp of a block one turn. `first` is the place of the block's first thread in order_.
inline bool Machine::step_block(std::size_t first) {
  const std::size_t end = first + threads_;
  // In reverse the last warp comes first, and it is the one that may lack lanes.
  const std::size_t last = threads_ % kWarpSize == 0 ? kWarpSize : threads_ % kWarpSize;
  std::size_t lanes = is_reversed(launch_.order) ? last : kWarpSize;
  bool progress = false;
  for (; first < end && error_.empty(); first += lanes, lanes = kWarpSize) {
    progress |= step_warp(first, std::min(end, first + lanes));
  }
  return progress;
}

// Runs the lanes order_[first .. end) until all wait at a block barrier or for a word that none changes.
inline bool Machine::step_warp(std::size_t first, std::size_t end) {
  const u64 most = spins_ + kMostSpins;
  for (u32 round = 0; round < kMostRounds && spins_ < most; ++round) {
    bool progress = false;
    for (std::size_t i = first; i < end; ++i) {
      Fiber& fiber = fibers_[order_[i]];
      const bool at_barrier = fiber.wait.reason == Reason::threads || fiber.wait.reason == Reason::named;
      if (fiber.finished || !fiber.wait.over() || (round > 0 && at_barrier)) continue;
      progress |= run_to_wait(fiber);
      if (!error_.empty()) return true;
    }
    if (!progress) return round > 0;
  }
  spins_ += kMostSpins;  // ends the turn of the block, too
  return true;
}

// --- Waiting and ending ------------------------------------------------------------------------------------

inline void Machine::block_on(const Wait& wait) {
  Fiber& fiber = *running_;
  fiber.wait = wait;
  switch_context(fiber.context, scheduler_);
  fiber.wait = Wait();
}

inline void Machine::block_at_barrier(const Wait& wait) {
  if (!wait.over() || is_greedy(launch_.order)) block_on(wait);
}

inline void Machine::fail(Site site, const std::string& what) {
  error_ = "block " + describe(running_->block) + " thread " + describe(running_->thread) + ": " + what +
           ", " + describe(site);
  switch_context(running_->context, scheduler_);
  std::abort();  // an abandoned thread never runs again
}

// No frame of this function may be instrumented: it is never left, and its stack serves the next block's
// thread.
__attribute__((no_sanitize_address)) inline void Machine::thread_main() {
  enter_context(machine->scheduler_);
  machine->body_(machine->arguments_);
  Fiber& fiber = machine->running();
  machine->thread_exit(fiber);
  switch_context(fiber.context, machine->scheduler_, true);
}

inline void Machine::thread_exit(Fiber& fiber) {
  Block& block = *fiber.home;
  if (!fiber.loads.under_way().empty()) {
    fail(fiber.loads.under_way().front().site, "exits with a cp.async that it never waited for");
  }
  for (const Copy& store : fiber.stores.under_way()) {
    if (!store.read) fail(store.site, "exits with a bulk store whose shared memory may not have been read");
    block.late_stores.push_back(store);
  }
  fiber.finished = true;
  --alive_;
  --block.alive;
  Warp& warp = block.warps[fiber.number / kWarpSize];
  warp.alive &= ~(1u << fiber.lane);
  for (const auto& meeting : warp.meetings) check_meeting(warp, *meeting);
  check_barrier(block, 0);
  if (block.alive == 0) block_exit(block);
}

inline void Machine::block_exit(Block& block) {
  if (!block.loads.empty()) {
    const BulkLoad& load = block.loads.front();
    fail(load.copy.site,
         text("the block ends with %zu bulk loads under way that nobody waited for, the first by thread %u",
              block.loads.size(), load.thread));
  }
  for (const LiveBarrier& live : block.mbarriers) {
    if (*live.word != live.last) {
      fail(live.site, "an mbarrier whose word was overwritten without mbarrier_inval, initialised");
    }
  }
  for (const Copy& store : block.late_stores) store.land();
}

// --- When nobody can run -----------------------------------------------------------------------------------

// Lands one bulk load, in the launch's order. Returns whether there was one.
inline bool Machine::land_one() {
  std::vector<std::pair<Block*, std::size_t>> pending;
  for (const auto& block : blocks_) {
    for (std::size_t i = 0; i < block->loads.size(); ++i) pending.emplace_back(block.get(), i);
  }
  if (pending.empty()) return false;
  const std::size_t pick = launch_.order == random       ? random_.below(static_cast<u32>(pending.size()))
                           : is_reversed(launch_.order) ? pending.size() - 1
                                                        : 0;
  const auto [block, i] = pending[pick];
  const BulkLoad load = block->loads[i];
  block->loads.erase(block->loads.begin() + static_cast<std::ptrdiff_t>(i));
  load.copy.land();
  Mbarrier barrier = Mbarrier::decode(*load.barrier);
  const char* wrong =
      Mbarrier::initialised(*load.barrier) ? barrier.complete(load.copy.bytes) : "overwritten";
  if (wrong != nullptr) {
    error_ = "block " + describe(block->index) + ": the mbarrier of a bulk load was " + wrong + ", " +
             describe(load.copy.site);
    return true;
  }
  write_mbarrier(*block, load.barrier, barrier);
  return true;
}

inline void Machine::report_stuck() { error_ = describe_stuck(fibers_); }

}  // namespace mansard::emulated
