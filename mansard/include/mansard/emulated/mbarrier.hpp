// An mbarrier in its eight bytes: phase, expected and pending arrivals, and bytes still to come.
//
//   bits 0-19  expected arrivals
//       20-39  pending arrivals
//       40-60  bytes to come, plus 2^20 - 1
//       61-62  mark
//       63     phase
//
// The mark tells an initialised barrier from memory nobody wrote. The phase is the top bit, so a waiting
// thread watches one bit of one 32-bit word.
#pragma once

#include "hooks.hpp"

namespace mansard::emulated {

class Mbarrier {
 public:
  static constexpr u32 kMaxArrivals = (1u << 20) - 1;
  static constexpr int kMaxBytes = (1 << 20) - 1;

  explicit Mbarrier(u32 arrivals) : expected(arrivals), pending(arrivals) {}

  static bool initialised(u64 word) { return (word >> 61 & 3) == kMark; }

  static Mbarrier decode(u64 word) {
    Mbarrier barrier(static_cast<u32>(word & kMaxArrivals));
    barrier.pending = static_cast<u32>(word >> 20 & kMaxArrivals);
    barrier.bytes = static_cast<int>(word >> 40 & kBytesMask) - kMaxBytes;
    barrier.phase = static_cast<u32>(word >> 63);
    return barrier;
  }

  u64 encode() const {
    return expected | static_cast<u64>(pending) << 20 | static_cast<u64>(bytes + kMaxBytes) << 40 |
           kMark << 61 | static_cast<u64>(phase) << 63;
  }

  // Each returns what is wrong, or null.
  const char* arrive(u32 more_bytes) {
    if (pending == 0) return "arrived at more often than it was initialised for";
    if (const char* error = expect(static_cast<i64>(more_bytes))) return error;
    --pending;
    settle();
    return nullptr;
  }
  const char* complete(u32 landed) {
    if (const char* error = expect(-static_cast<i64>(landed))) return error;
    settle();
    return nullptr;
  }

  u32 expected, pending;
  int bytes = 0;
  u32 phase = 0;

 private:
  using i64 = long long;
  static constexpr u64 kMark = 1;
  static constexpr u64 kBytesMask = (1u << 21) - 1;

  const char* expect(i64 more) {
    const i64 sum = bytes + more;
    if (sum > kMaxBytes || sum < -kMaxBytes) return "expecting more bytes than its counter holds (2^20 - 1)";
    bytes = static_cast<int>(sum);
    return nullptr;
  }
  void settle() {
    if (pending != 0 || bytes != 0) return;
    phase ^= 1;
    pending = expected;
  }
};

}  // namespace mansard::emulated
