// Products by warpgroups, four warps that begin at a multiple of four: C += A B on the tensor cores, asynchronously,
// with A in registers and B in shared memory. sm_90a only.
//
// A is 64 x 8, B 8 x 8 TILES, both TF32. Each warp has 16 rows of A and C; its fragments have the layout of m16n8k8 in
// mma.cuh. In shared memory B is a run of tiles of eight columns, 256 bytes each, on 128-byte boundaries: entry (k, n)
// is word `warpgroup_word(k, n)`. Stores to B must be followed by fence_async_shared() and a barrier.
//
//   warpgroup_arrive();                  registers written before are read by the instructions that follow
//   wgmma_tf32(c, a, b, add) ...         c += a b, or, without `add`, c = a b
//   warpgroup_commit();                  close a group of instructions
//   warpgroup_wait<N>();                 all but the N youngest groups are done; until then leave c and a alone
//
// The instruction could negate A, but ptxas 13.0 negates integers instead where it copies such an A: callers flip
// signs.
#pragma once
#include "platform.cuh"

#if defined(MANSARD_EMULATED)
#include "mansard/emulated/mma.hpp"
#else
#include "async.cuh"
#endif

namespace mansard {

MANSARD_DEVICE int warpgroup_word(int k, int n) { return n / 8 * 64 + k / 4 * 32 + n % 8 * 4 + k % 4; }

#if defined(MANSARD_EMULATED)

// Emulation: executed at once, warp by warp, since no warp needs registers of the others.
template <int TILES>
inline void wgmma_tf32(float (&c)[TILES][4], const u32 (&a)[4], const u32* b, bool add, MANSARD_HERE) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (int tile = 0; tile < TILES; ++tile) {
    for (int i = 0; i < 4; ++i) c[tile][i] = add ? c[tile][i] : 0.0f;
    const u32 right[2] = {b[warpgroup_word(t, 8 * tile + g)], b[warpgroup_word(t + 4, 8 * tile + g)]};
    mma_tf32_m16n8k8(c[tile], a, right, site);
  }
}
inline void warpgroup_arrive() {}
inline void warpgroup_commit() {}
template <int N>
inline void warpgroup_wait() {}

#else

MANSARD_DEVICE void warpgroup_arrive() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
MANSARD_DEVICE void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
MANSARD_DEVICE void warpgroup_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Matrix descriptor of B: its address, and the strides of its tiles along k (128 bytes) and along n (256 bytes).
MANSARD_DEVICE u64 warpgroup_matrix(const u32* b) {
  return static_cast<u64>((shared_address(b) & 0x3ffffu) >> 4) | (u64(128 >> 4) << 16) | (u64(256 >> 4) << 32);
}

template <int TILES>
struct Wgmma;

// Operand lists of the registers of c: C1 for one tile, C2 for two, and so on.
#define MANSARD_C1 "%0, %1, %2, %3"
#define MANSARD_C2 MANSARD_C1 ", %4, %5, %6, %7"
#define MANSARD_C3 MANSARD_C2 ", %8, %9, %10, %11"
#define MANSARD_C4 MANSARD_C3 ", %12, %13, %14, %15"
#define MANSARD_C5 MANSARD_C4 ", %16, %17, %18, %19"
#define MANSARD_C6 MANSARD_C5 ", %20, %21, %22, %23"
#define MANSARD_C7 MANSARD_C6 ", %24, %25, %26, %27"
#define MANSARD_C8 MANSARD_C7 ", %28, %29, %30, %31"
#define MANSARD_C9 MANSARD_C8 ", %32, %33, %34, %35"
#define MANSARD_C10 MANSARD_C9 ", %36, %37, %38, %39"
#define MANSARD_C11 MANSARD_C10 ", %40, %41, %42, %43"
#define MANSARD_C12 MANSARD_C11 ", %44, %45, %46, %47"
#define MANSARD_C13 MANSARD_C12 ", %48, %49, %50, %51"
#define MANSARD_C14 MANSARD_C13 ", %52, %53, %54, %55"
#define MANSARD_C15 MANSARD_C14 ", %56, %57, %58, %59"
#define MANSARD_C16 MANSARD_C15 ", %60, %61, %62, %63"
#define MANSARD_R1 "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3])
#define MANSARD_R2 MANSARD_R1, "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]), "+f"(c[1][3])
#define MANSARD_R3 MANSARD_R2, "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3])
#define MANSARD_R4 MANSARD_R3, "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3])
#define MANSARD_R5 MANSARD_R4, "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3])
#define MANSARD_R6 MANSARD_R5, "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3])
#define MANSARD_R7 MANSARD_R6, "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3])
#define MANSARD_R8 MANSARD_R7, "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3])
#define MANSARD_R9 MANSARD_R8, "+f"(c[8][0]), "+f"(c[8][1]), "+f"(c[8][2]), "+f"(c[8][3])
#define MANSARD_R10 MANSARD_R9, "+f"(c[9][0]), "+f"(c[9][1]), "+f"(c[9][2]), "+f"(c[9][3])
#define MANSARD_R11 MANSARD_R10, "+f"(c[10][0]), "+f"(c[10][1]), "+f"(c[10][2]), "+f"(c[10][3])
#define MANSARD_R12 MANSARD_R11, "+f"(c[11][0]), "+f"(c[11][1]), "+f"(c[11][2]), "+f"(c[11][3])
#define MANSARD_R13 MANSARD_R12, "+f"(c[12][0]), "+f"(c[12][1]), "+f"(c[12][2]), "+f"(c[12][3])
#define MANSARD_R14 MANSARD_R13, "+f"(c[13][0]), "+f"(c[13][1]), "+f"(c[13][2]), "+f"(c[13][3])
#define MANSARD_R15 MANSARD_R14, "+f"(c[14][0]), "+f"(c[14][1]), "+f"(c[14][2]), "+f"(c[14][3])
#define MANSARD_R16 MANSARD_R15, "+f"(c[15][0]), "+f"(c[15][1]), "+f"(c[15][2]), "+f"(c[15][3])
#define MANSARD_WGMMA(TILES, COLUMNS, A0, A1, A2, A3, B, ADD)                                                          \
  template <>                                                                                                        \
  struct Wgmma<TILES> {                                                                                              \
    static MANSARD_DEVICE void multiply(float (&c)[TILES][4], const u32 (&a)[4], u64 b, int add) {                   \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADD ", 0;\n"                                                  \
                   "wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k8.f32.tf32.tf32 {" MANSARD_C##TILES "}, {" A0 ", " \
                   A1 ", " A2 ", " A3 "}, " B ", p, 1, 1;\n}"                                                        \
                   : MANSARD_R##TILES                                                                                \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                                  \
    }                                                                                                                \
  };
MANSARD_WGMMA(1, 8, "%4", "%5", "%6", "%7", "%8", "%9")
MANSARD_WGMMA(2, 16, "%8", "%9", "%10", "%11", "%12", "%13")
MANSARD_WGMMA(3, 24, "%12", "%13", "%14", "%15", "%16", "%17")
MANSARD_WGMMA(4, 32, "%16", "%17", "%18", "%19", "%20", "%21")
MANSARD_WGMMA(5, 40, "%20", "%21", "%22", "%23", "%24", "%25")
MANSARD_WGMMA(6, 48, "%24", "%25", "%26", "%27", "%28", "%29")
MANSARD_WGMMA(7, 56, "%28", "%29", "%30", "%31", "%32", "%33")
MANSARD_WGMMA(8, 64, "%32", "%33", "%34", "%35", "%36", "%37")
MANSARD_WGMMA(9, 72, "%36", "%37", "%38", "%39", "%40", "%41")
MANSARD_WGMMA(10, 80, "%40", "%41", "%42", "%43", "%44", "%45")
MANSARD_WGMMA(11, 88, "%44", "%45", "%46", "%47", "%48", "%49")
MANSARD_WGMMA(12, 96, "%48", "%49", "%50", "%51", "%52", "%53")
MANSARD_WGMMA(13, 104, "%52", "%53", "%54", "%55", "%56", "%57")
MANSARD_WGMMA(14, 112, "%56", "%57", "%58", "%59", "%60", "%61")
MANSARD_WGMMA(15, 120, "%60", "%61", "%62", "%63", "%64", "%65")
MANSARD_WGMMA(16, 128, "%64", "%65", "%66", "%67", "%68", "%69")
#undef MANSARD_WGMMA

template <int TILES>
MANSARD_DEVICE void wgmma_tf32(float (&c)[TILES][4], const u32 (&a)[4], const u32* b, bool add) {
  Wgmma<TILES>::multiply(c, a, warpgroup_matrix(b), add);
}

#endif

}  // namespace mansard
