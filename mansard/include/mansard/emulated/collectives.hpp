// Barriers, warp-wide exchanges and flags: the hooks by which threads wait for each other.
#pragma once

#include "machine.hpp"
#include "report.hpp"

namespace mansard::emulated {

// --- Block barriers ----------------------------------------------------------------------------------------

inline void Machine::check_barrier(Block& block, u32 id) {
  Barrier& barrier = block.barriers[id];
  const u32 required = barrier.required == 0 ? block.alive : barrier.required;
  if (barrier.arrived == 0 || barrier.arrived < required) return;
  barrier.result = barrier.votes;
  barrier.arrived = barrier.required = barrier.votes = 0;
  ++barrier.generation;
  for (Warp& warp : block.warps) warp.barrier_lanes[id] = 0;
}

namespace {

// The instruction is "aligned": the lanes of a warp must come to it together, from the same line.
void check_converged(Warp& warp, u32 id, Site site) {
  Site& first = warp.barrier_site[id];
  if (warp.barrier_lanes[id]++ == 0) first = site;
  if (!(first == site)) {
    machine->fail(site, "divergent barrier: another lane of this warp waits at " + describe(first));
  }
}

void sync_at(u32 id, u32 threads, bool vote, const Wait& kind) {
  Fiber& fiber = machine->running();
  Block& block = *fiber.home;
  Barrier& barrier = block.barriers[id];
  if (barrier.arrived > 0 && barrier.required != threads) {
    machine->fail(kind.site, text("barrier %u is in use with another number of threads", id));
  }
  check_converged(block.warps[fiber.number / kWarpSize], id, kind.site);
  Wait wait = kind;
  wait.word = &barrier.generation;
  wait.mask = ~0u;
  wait.old = barrier.generation;
  wait.detail = id;
  barrier.required = threads;
  ++barrier.arrived;
  barrier.votes += vote;
  machine->check_barrier(block, id);
  machine->block_at_barrier(wait);
}

}  // namespace

u32 sync_threads(bool predicate, Site site) {
  Wait kind;
  kind.reason = Reason::threads;
  kind.site = site;
  sync_at(0, 0, predicate, kind);
  return machine->running().home->barriers[0].result;
}

void sync_named(int id, int threads, Site site) {
  if (id < 0 || id >= static_cast<int>(kNamedBarriers))
    machine->fail(site, text("no barrier %d: 0 to 15", id));
  if (threads <= 0 || threads % static_cast<int>(kWarpSize) != 0) {
    machine->fail(site, text("a barrier for %d threads, which is no multiple of 32", threads));
  }
  Wait kind;
  kind.reason = Reason::named;
  kind.site = site;
  sync_at(static_cast<u32>(id), static_cast<u32>(threads), false, kind);
}

// --- Warp-wide exchange ------------------------------------------------------------------------------------

// A meeting is complete when all its lanes have arrived or exited.
inline void Machine::check_meeting(Warp& warp, Meeting& meeting) {
  if (!meeting.open || (meeting.mask & warp.alive & ~meeting.arrived) != 0) return;
  if (meeting.kind == Collective::mma && meeting.arrived != ~0u) {
    fail(meeting.site, text("an mma without lanes 0x%08x", ~meeting.arrived));
  }
  for (u32 lane = 0; lane < kWarpSize; ++lane) {
    if (!(meeting.arrived >> lane & 1)) std::memset(meeting.slots + lane * kSlotBytes, kPoison, kSlotBytes);
  }
  meeting.open = false;
  meeting.leaving = meeting.arrived;
  ++meeting.generation;
}

namespace {

Meeting& open_meeting(Warp& warp, Collective kind, u32 mask, Site site) {
  Meeting* unused = nullptr;
  for (const auto& meeting : warp.meetings) {
    if (meeting->open && meeting->kind == kind && meeting->mask == mask) return *meeting;
    if (!meeting->open && meeting->leaving == 0) unused = meeting.get();
  }
  if (unused == nullptr) {
    warp.meetings.push_back(std::make_unique<Meeting>());
    unused = warp.meetings.back().get();
  }
  unused->kind = kind;
  unused->mask = mask;
  unused->arrived = 0;
  unused->open = true;
  unused->site = site;
  return *unused;
}

}  // namespace

Slots exchange(Collective kind, u32 mask, const void* value, u32 bytes, Site site) {
  Fiber& fiber = machine->running();
  Warp& warp = fiber.home->warps[fiber.number / kWarpSize];
  const u32 self = 1u << fiber.lane;
  if ((mask & self) == 0)
    machine->fail(site, text("lane %u is not in its own mask 0x%08x", fiber.lane, mask));

  Meeting& meeting = open_meeting(warp, kind, mask, site);
  if (kind == Collective::mma && !(meeting.site == site)) {
    machine->fail(site, "divergent mma: another lane of this warp is at " + describe(meeting.site));
  }
  if (bytes > 0) std::memcpy(meeting.slots + fiber.lane * kSlotBytes, value, bytes);
  meeting.arrived |= self;
  Wait wait;
  wait.reason = Reason::warp;
  wait.word = &meeting.generation;
  wait.mask = ~0u;
  wait.old = meeting.generation;
  wait.detail = reinterpret_cast<u64>(&meeting);
  wait.site = site;
  machine->check_meeting(warp, meeting);
  if (!wait.over()) machine->block_on(wait);
  meeting.leaving &= ~self;
  return {meeting.slots, meeting.arrived};
}

// --- Flags -------------------------------------------------------------------------------------------------

void wait_until_differs(const u32* word, u32 old, u32 mask, Site site) {
  Wait wait;
  wait.reason = Reason::flag;
  wait.word = word;
  wait.mask = mask;
  wait.old = old & mask;
  wait.site = site;
  if (!wait.over()) machine->block_on(wait);
}

void trap(Site site) { machine->fail(site, "__trap"); }

void spin(Site site) {
  Wait wait;
  wait.reason = Reason::spin;
  wait.site = site;
  machine->block_on(wait);
}

}  // namespace mansard::emulated
