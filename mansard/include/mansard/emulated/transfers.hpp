// Asynchronous copies and mbarriers: the hooks behind async.cuh.
#pragma once

#include <algorithm>

#include "machine.hpp"
#include "report.hpp"

namespace mansard::emulated {

namespace {

void check_aligned(Site site, const char* what, const void* address, u32 alignment) {
  if (reinterpret_cast<std::uintptr_t>(address) % alignment != 0) {
    machine->fail(site, text("misaligned: %s %p is no multiple of %u", what, address, alignment));
  }
}

void check_copy(const Copy& copy, const char* name) {
  check_aligned(copy.site, text("the target of %s", name).c_str(), copy.target, 16);
  check_aligned(copy.site, text("the source of %s", name).c_str(), copy.source, 16);
  if (copy.bytes == 0 || copy.bytes % 16 != 0) {
    machine->fail(copy.site,
                  text("misaligned: %s of %u bytes, which is no positive multiple of 16", name, copy.bytes));
  }
}

Mbarrier decode(const u64* barrier, Site site) {
  check_aligned(site, "mbarrier", barrier, 8);
  if (!Mbarrier::initialised(*barrier)) machine->fail(site, "an mbarrier that was not initialised");
  return Mbarrier::decode(*barrier);
}

}  // namespace

// --- cp.async ----------------------------------------------------------------------------------------------

void cp_async(void* shared, const void* global, u32 bytes, Site site) {
  const Copy copy = {shared, global, bytes, site};
  check_copy(copy, "cp.async");
  issue(copy);
  machine->running().loads.add(copy);
}

void cp_async_commit() { machine->running().loads.commit(); }
void cp_async_wait(u32 groups_left) { machine->running().loads.land(groups_left); }

// --- mbarrier ----------------------------------------------------------------------------------------------

void mbarrier_init(u64* barrier, u32 arrivals, Site site) {
  check_aligned(site, "mbarrier", barrier, 8);
  if (arrivals == 0 || arrivals > Mbarrier::kMaxArrivals) {
    machine->fail(site, text("an mbarrier for %u arrivals: 1 to 2^20 - 1", arrivals));
  }
  *barrier = Mbarrier(arrivals).encode();
  machine->running().home->mbarriers.push_back({barrier, *barrier, site});
}

void mbarrier_inval(u64* barrier, Site site) {
  decode(barrier, site);
  auto& live = machine->running().home->mbarriers;
  const auto ends = [&](const LiveBarrier& one) { return one.word == barrier; };
  live.erase(std::remove_if(live.begin(), live.end(), ends), live.end());
  *barrier = 0;  // no longer initialised
}

void mbarrier_arrive(u64* barrier, u32 expected_bytes, Site site) {
  Mbarrier state = decode(barrier, site);
  if (const char* wrong = state.arrive(expected_bytes)) {
    machine->fail(site, "the mbarrier at " + describe_shared(machine->running(), barrier) + " is " + wrong);
  }
  write_mbarrier(*machine->running().home, barrier, state);
}

void mbarrier_wait(const u64* barrier, u32 parity, Site site) {
  decode(barrier, site);
  if (parity > 1) machine->fail(site, text("parity %u, which must be 0 or 1", parity));
  Wait wait;
  wait.reason = Reason::mbarrier;
  wait.word = reinterpret_cast<const u32*>(barrier) + 1;  // the phase is the top bit
  wait.mask = 1u << 31;
  wait.old = parity << 31;
  wait.detail = reinterpret_cast<u64>(barrier);
  wait.site = site;
  if (!wait.over()) machine->block_on(wait);
}

// --- Bulk copies -------------------------------------------------------------------------------------------

void bulk_load(void* shared, const void* global, u32 bytes, u64* barrier, Site site) {
  const Copy copy = {shared, global, bytes, site};
  check_copy(copy, "a bulk load");
  decode(barrier, site);
  Fiber& fiber = machine->running();
  for (const BulkLoad& other : fiber.home->loads) {
    if (copy.overlaps(other.copy)) {
      machine->fail(
          site, "a bulk load into memory that another one, " + describe(other.copy.site) + ", still fills");
    }
  }
  issue(copy);
  fiber.home->loads.push_back({copy, barrier, fiber.number});
}

void bulk_store(void* global, const void* shared, u32 bytes, Site site) {
  const Copy copy = {global, shared, bytes, site};
  check_copy(copy, "a bulk store");
  issue(copy);
  machine->running().stores.add(copy);
}

void bulk_commit() { machine->running().stores.commit(); }

void bulk_wait(u32 groups_left, bool sources_only) {
  CopyGroups& stores = machine->running().stores;
  stores.stage(groups_left);
  if (!sources_only) stores.land(groups_left);
}

}  // namespace mansard::emulated
