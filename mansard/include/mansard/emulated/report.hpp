// What the emulator says when a kernel goes wrong.
#pragma once

#include <map>
#include <utility>

#include "machine.hpp"

namespace mansard::emulated {

inline std::string text(const char* format, ...) {
  char buffer[512];
  va_list values;
  va_start(values, format);
  std::vsnprintf(buffer, sizeof(buffer), format, values);
  va_end(values);
  return buffer;
}

inline std::string describe(Site site) {
  const char* slash = std::strrchr(site.file, '/');
  return text("%s:%d", slash == nullptr ? site.file : slash + 1, site.line);
}

inline std::string describe(const uint3& index) { return text("(%u,%u,%u)", index.x, index.y, index.z); }

// Where a shared address lies, as far as the arena knows it.
inline std::string describe_shared(const Seat& seat, const void* address) {
  const auto offset = static_cast<const unsigned char*>(address) - static_cast<unsigned char*>(seat.arena);
  if (offset < 0 || static_cast<u64>(offset) >= kMaxSharedBytes) return "static shared memory";
  return text("shared+%lld", static_cast<long long>(offset));
}

inline std::string describe(const Fiber& fiber) {
  const Wait& wait = fiber.wait;
  switch (wait.reason) {
    case Reason::none:
      return "runs";
    case Reason::threads:
      return "at __syncthreads";
    case Reason::named: {
      const Barrier& barrier = fiber.home->barriers[wait.detail];
      return text("at named barrier %llu, which %u of %u threads have reached", wait.detail, barrier.arrived,
                  barrier.required);
    }
    case Reason::warp: {
      const auto* meeting = reinterpret_cast<const Meeting*>(wait.detail);
      constexpr const char* kNames[] = {"__syncwarp", "shuffle", "vote", "mma"};
      return text("for lanes 0x%08x at a %s of mask 0x%08x", meeting->mask & ~meeting->arrived,
                  kNames[static_cast<u32>(meeting->kind)], meeting->mask);
    }
    case Reason::mbarrier: {
      u64 word;
      std::memcpy(&word, reinterpret_cast<const void*>(wait.detail), sizeof(word));
      const Mbarrier barrier = Mbarrier::decode(word);
      return text("for parity %u of the mbarrier at %s, whose phase %u lacks %u of %u arrivals and %d bytes",
                  wait.old >> 31, describe_shared(fiber, reinterpret_cast<const void*>(wait.detail)).c_str(),
                  barrier.phase, barrier.pending, barrier.expected, barrier.bytes);
    }
    case Reason::flag:
      return text("for a flag to differ from %u", wait.old);
    case Reason::spin:
      return "spinning on a word that nobody changes";
  }
  return "";
}

// Groups waiting threads by block and by what they wait for: a thousand threads, a few lines.
inline std::string describe_stuck(const std::vector<Fiber>& fibers) {
  struct Group {
    std::string first;
    u32 count = 0;
  };
  std::map<std::pair<std::string, std::string>, Group> groups;
  for (const Fiber& fiber : fibers) {
    if (fiber.finished) continue;
    Group& group = groups[{describe(fiber.block), describe(fiber) + ", " + describe(fiber.wait.site)}];
    if (group.count++ == 0) group.first = describe(fiber.thread);
  }
  constexpr std::size_t kMostLines = 12;
  std::string result = "threads wait and nothing can end it";
  std::size_t lines = 0;
  for (const auto& [key, group] : groups) {
    if (lines++ == kMostLines) return result + text("\n  and %zu more", groups.size() - kMostLines);
    result += "\n  block " + key.first + ": " + std::to_string(group.count) + " waiting " + key.second +
              ", first thread " + group.first;
  }
  return result;
}

}  // namespace mansard::emulated
