// The emulator's runtime, compiled once and linked to every kernel library.
#include <cstdlib>
#include <exception>
#include <mutex>

#include "collectives.hpp"
#include "machine.hpp"
#include "report.hpp"
#include "scheduler.hpp"
#include "transfers.hpp"

namespace mansard::emulated {

const Seat* current = nullptr;
u64 visible_changes = 0;
Machine* machine = nullptr;

namespace {

std::mutex launching;  // static shared memory and the running machine are one per library
thread_local std::string last_error;

constexpr u64 kMaxBlocks = 1 << 24;

std::string refuse(const Launch& launch) {
  constexpr u32 kMaxGrid[3] = {0x7FFFFFFF, 65535, 65535}, kMaxBlock[3] = {1024, 1024, 64};
  u64 threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (launch.grid[i] < 1 || launch.grid[i] > kMaxGrid[i]) {
      return text("grid[%d] is %u, which must be in 1..%u", i, launch.grid[i], kMaxGrid[i]);
    }
    if (launch.block[i] < 1 || launch.block[i] > kMaxBlock[i]) {
      return text("block[%d] is %u, which must be in 1..%u", i, launch.block[i], kMaxBlock[i]);
    }
    threads *= launch.block[i];
  }
  // Three factors below 2^31: the first product fits, the second may not.
  const u64 plane = static_cast<u64>(launch.grid[0]) * launch.grid[1];
  if (plane > kMaxBlocks || plane * launch.grid[2] > kMaxBlocks) {
    return text("more than %llu blocks, which nobody would wait for", kMaxBlocks);
  }
  if (threads > 1024) return text("a block of %llu threads; at most 1024", threads);
  if (launch.shared_bytes > kMaxSharedBytes) {
    return text("%llu bytes of shared memory; at most %llu", launch.shared_bytes, kMaxSharedBytes);
  }
  if (launch.order < 0 || launch.order >= kOrders) {
    return text("order is %d, which must be in 0..%d", launch.order, kOrders - 1);
  }
  return "";
}

}  // namespace

int run(const Launch& launch, void (*body)(const void*), const void* arguments) {
  std::lock_guard<std::mutex> lock(launching);
  last_error = refuse(launch);
  if (!last_error.empty()) return 2;
  try {
    Machine emulated(launch, body, arguments);
    machine = &emulated;
    last_error = emulated.run();
  } catch (const std::exception& exception) {
    last_error = exception.what();
  }
  machine = nullptr;
  current = nullptr;
  return last_error.empty() ? 0 : 1;
}

}  // namespace mansard::emulated

extern "C" const char* mansard_emulated_error() { return mansard::emulated::last_error.c_str(); }
