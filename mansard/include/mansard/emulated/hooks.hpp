// What a kernel library asks of the emulator's runtime. Light on purpose: every kernel parses it, the runtime
// is compiled once. No standard headers.
#pragma once

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "the emulator switches stacks on x86-64 and aarch64 only"
#endif

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace mansard::emulated {

using u32 = unsigned int;
using u64 = unsigned long long;

// Which thread runs next.
//
//   forward, reverse, random   every thread runs to its next wait before any thread runs again: from the first
//                              on, from the last on, or shuffled in every round
//   greedy, greedy_reverse     one warp runs to its next block barrier before any other warp moves, and a
//                              resident block as far as it can before any other block moves: from the first
//                              on, or from the last on
//
// The first three keep the warps of a block within one wait of each other, so a warp that overwrites what
// another has still to read goes unnoticed if a shuffle or __syncwarp lies between. The greedy ones drive warps
// as far apart as barriers allow.
enum Order : int { forward, reverse, random, greedy, greedy_reverse, kOrders };

constexpr bool is_greedy(int order) { return order >= greedy; }
constexpr bool is_reversed(int order) { return order == reverse || order == greedy_reverse; }

// One launch, as a caller describes it (plain C layout: ctypes fills it in).
struct Launch {
  u32 grid[3];
  u32 block[3];
  u64 shared_bytes;  // dynamic shared memory of each block
  int order;         // an Order of threads and blocks
  u32 seed;          // for random order
  int cooperative;   // all blocks resident at once, so that they may wait for each other
};

// A place in the kernel's source, captured by default arguments: `Site site = Site::here()`.
struct Site {
  const char* file;
  int line;
  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  bool operator==(const Site& other) const {
    return line == other.line && __builtin_strcmp(file, other.file) == 0;
  }
};

// Where the running thread sits.
struct Seat {
  uint3 thread;
  uint3 block;
  dim3 block_size;
  dim3 grid_size;
  void* arena;  // the block's dynamic shared memory
  u32 lane;
};

extern const Seat* current;

// Counts the stores that another thread may be spinning on, so that a spin which gets somewhere is told from
// one that does not.
extern u64 visible_changes;

// --- Waiting -----------------------------------------------------------------------------------------------

// Returns how many threads came with a true predicate.
u32 sync_threads(bool predicate, Site site);
void sync_named(int id, int threads, Site site);
// Blocks until *word differs from old.
void wait_until_differs(const u32* word, u32 old, u32 mask, Site site);
// Ends the launch with a report.
[[noreturn]] void trap(Site site);
// Called by a read or an atomic that changed nothing: it may be one turn of a spin loop, so others run.
void spin(Site site);

// --- Warp-wide exchange ------------------------------------------------------------------------------------

enum class Collective : u32 { sync, shuffle, vote, mma };

constexpr u32 kSlotBytes = 96;  // the largest deposit: m16n8k16 has 8 + 4 doubles of operands per lane

// What the lanes deposited; valid until the calling thread's next word. Lanes that took no part read as NaN.
struct Slots {
  const unsigned char* bytes;
  u32 arrived;

  template <class T>
  T get(u32 lane, u32 index = 0) const {
    T value;
    __builtin_memcpy(&value, bytes + lane * kSlotBytes + index * sizeof(T), sizeof(T));
    return value;
  }
};

// All lanes of mask meet at the same kind of collective, each leaving its value.
Slots exchange(Collective kind, u32 mask, const void* value, u32 bytes, Site site);

// --- Asynchronous copies -----------------------------------------------------------------------------------

void cp_async(void* shared, const void* global, u32 bytes, Site site);
void cp_async_commit();
void cp_async_wait(u32 groups_left);

void mbarrier_init(u64* barrier, u32 arrivals, Site site);
void mbarrier_inval(u64* barrier, Site site);
void mbarrier_arrive(u64* barrier, u32 expected_bytes, Site site);
void mbarrier_wait(const u64* barrier, u32 parity, Site site);

void bulk_load(void* shared, const void* global, u32 bytes, u64* barrier, Site site);
void bulk_store(void* global, const void* shared, u32 bytes, Site site);
void bulk_commit();
void bulk_wait(u32 groups_left, bool sources_only);

// --- Launch ------------------------------------------------------------------------------------------------

// Runs the body once per thread of the grid. 0: all went well; otherwise mansard_emulated_error() says what
// did not.
int run(const Launch& launch, void (*body)(const void* arguments), const void* arguments);

}  // namespace mansard::emulated

extern "C" __attribute__((visibility("default"))) const char* mansard_emulated_error();
