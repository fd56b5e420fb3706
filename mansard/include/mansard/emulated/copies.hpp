// Copies that have been issued and have not landed.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "fibers.hpp"
#include "hooks.hpp"

namespace mansard::emulated {

constexpr int kPoison = 0xFF;  // bytes of a NaN, and of an index far out of bounds

struct Copy {
  void* target;
  const void* source;
  u32 bytes;
  Site site;
  bool read = false;  // a store has taken its source into `staged`
  std::vector<unsigned char> staged = {};

  bool overlaps(const Copy& other) const {
    const auto *a = static_cast<unsigned char*>(target), *b = static_cast<unsigned char*>(other.target);
    return a < b + other.bytes && b < a + bytes;
  }
  void land() const { std::memcpy(target, read ? staged.data() : source, bytes); }
  void stage() {
    if (read) return;
    read = true;
    const auto* from = static_cast<const unsigned char*>(source);
    staged.assign(from, from + bytes);
  }
};

// The target is undefined from issue to landing. The source is touched so that AddressSanitizer speaks up
// here, where the kernel's line is on the stack, and not at the landing.
inline void issue(const Copy& copy) {
#if defined(MANSARD_ASAN)
  void* forbidden = __asan_region_is_poisoned(const_cast<void*>(copy.source), copy.bytes);
  if (forbidden != nullptr) static_cast<void>(*static_cast<volatile unsigned char*>(forbidden));
#endif
  std::memset(copy.target, kPoison, copy.bytes);
}

// One thread's copies in commit groups: cp.async, or bulk stores.
class CopyGroups {
 public:
  void add(const Copy& copy) { copies_.push_back(copy); }
  void commit() { ends_.push_back(copies_.size()); }

  // Reads the sources of all but the youngest `left` groups.
  void stage(u32 left) {
    const std::size_t count = end_of_older(left);
    for (std::size_t i = 0; i < count; ++i) copies_[i].stage();
  }
  // Lands all but the youngest `left` groups.
  void land(u32 left) {
    const std::size_t count = end_of_older(left);
    for (std::size_t i = 0; i < count; ++i) copies_[i].land();
    copies_.erase(copies_.begin(), copies_.begin() + count);
    if (ends_.size() > left) ends_.erase(ends_.begin(), ends_.end() - left);
    for (std::size_t& end : ends_) end -= count;
  }
  const std::vector<Copy>& under_way() const { return copies_; }

 private:
  std::size_t end_of_older(u32 left) const {
    return ends_.size() > left ? ends_[ends_.size() - left - 1] : 0;
  }

  std::vector<Copy> copies_;
  std::vector<std::size_t> ends_;  // of the committed groups, oldest first, as indices into copies_
};

// A bulk load under way to a block's shared memory.
struct BulkLoad {
  Copy copy;
  u64* barrier;
  u32 thread;
};

}  // namespace mansard::emulated
