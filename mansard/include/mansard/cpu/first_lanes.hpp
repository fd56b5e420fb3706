// Vectors of which only the first lanes exist in memory, whose number is known at run time (parts.hpp: when compiling).
#pragma once
#include "mansard/cpu/parts.hpp"

namespace mansard {

// Loads and stores the first `count` lanes, 1 to LANES; memory beyond them is not accessed.
template <class R, int LANES = native_lanes<R>>
struct FirstLanes {
  using V = Vector<R, LANES>;
#if defined(__AVX512VL__)
  unsigned mask;
  explicit FirstLanes(int count) : mask(static_cast<unsigned>((1ull << count) - 1)) {}
  MANSARD_INLINE V load(const R* p) const { return masked_load(Int<LANES>(), p, mask); }
  MANSARD_INLINE void store(R* p, V v) const { masked_store(Int<LANES>(), p, mask, v); }
#else
  using Lane = std::conditional_t<sizeof(R) == 8, i64, int>;
  int count;
  Vector<Lane, LANES> mask{};
  explicit FirstLanes(int count) : count(count) {
    for (int lane = 0; lane < LANES; ++lane) mask[lane] = lane < count ? -1 : 0;
  }
  MANSARD_INLINE V load(const R* p) const {
    if (count == LANES) return mansard::load<LANES>(p);
#if defined(__AVX__)
    if constexpr (LANES * sizeof(R) >= 16) return masked_load(p, mask);
#endif
    V v{};
    for (int lane = 0; lane < count; ++lane) v[lane] = p[lane];
    return v;
  }
  MANSARD_INLINE void store(R* p, V v) const {
    if (count == LANES) return mansard::store<LANES>(p, v);
    for (int lane = 0; lane < count; ++lane) p[lane] = v[lane];
  }
#endif
};

}  // namespace mansard
