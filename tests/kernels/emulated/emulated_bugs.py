"""Bugs to plant in the kernels of this folder, and what must come to light.

Each is the replacement of one passage of a correct kernel, so what is caught is that bug and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    kernel: str
    old: str
    new: str
    report: str = "wrong answer"  # what comes to light: a pattern
    always: bool = True  # in every order; otherwise in some
    only: tuple[str, ...] = ()  # in these orders and no other


STUCK = "threads wait and nothing can end it.*"
WAIT_FULL, WAIT_EMPTY = (
    "mbarrier_wait(&ring.full[stage], parity);",
    "mbarrier_wait(&ring.empty[stage], parity);",
)
READ = "const double value = ring.stage[stage][CHUNK - 1 - thread];"
RELEASE = "if (thread % 32 == 0) mbarrier_arrive(&ring.empty[stage]);"
LOAD = "bulk_load(ring.stage[stage], arguments.x + chunk * CHUNK, CHUNK * 4, &ring.full[stage]);"
LOCK = "while (atomicCAS(arguments.word + 3, 0u, 1u) != 0) {\n  }"

BUGS = {
    "barrier missing": Bug(
        "tree_sum", "__syncthreads();\n  if (threadIdx.x == 0)", "if (threadIdx.x == 0)", always=False
    ),
    "barrier diverges": Bug(
        "tree_sum",
        "if (lane == 0) per_warp[warp] = value;\n  __syncthreads();",
        "if (lane == 0) {\n  per_warp[warp] = value;\n  __syncthreads();\n} else {\n  __syncthreads();\n}",
        "divergent barrier",
    ),
    "barrier not reached by all": Bug(
        "tree_sum",
        "__syncthreads();  // everyone learns the ticket",
        "if (warp < 2) __syncthreads();\n  else while (load_acquire(arguments.ticket) < 99) {}",
        STUCK + "64 waiting at __syncthreads.*32 waiting spinning",
    ),
    "ticket read too early": Bug("tree_sum", "__syncthreads();  // everyone learns the ticket", "", always=False),
    "barrier missing after shuffles": Bug(
        "warp_turns", "__syncthreads();  // all have read the words of this round", "",
        only=("greedy", "greedy-reverse"),
    ),
    "cp.async awaited too late": Bug("double_buffer", "cp_async_wait<1>();", "if (chunk > 0) cp_async_wait<1>();"),
    "cp.async never awaited": Bug("double_buffer", "cp_async_wait<1>();", "", "exits with a cp.async"),
    "chunk read before all loaded": Bug("double_buffer", "__syncthreads();  // all parts of the chunk are there", ""),
    "buffer refilled too early": Bug("double_buffer", "__syncthreads();  // all have read it", ""),
    "misaligned cp.async": Bug("double_buffer", "128 + 2 * thread)", "128 + 2 * thread + 1)", "misaligned: the source"),
    "mbarrier not awaited": Bug("bulk_ring", WAIT_FULL, "if (chunk == 0) " + WAIT_FULL, "wrong answer|more often"),
    "last chunk not awaited": Bug(
        "bulk_ring", WAIT_FULL, "if (chunk < 9) " + WAIT_FULL, "bulk loads .* nobody waited for"
    ),
    "consumers' parity wrong": Bug("bulk_ring", "u32 parity = 0;", "u32 parity = 1;", "more often|" + STUCK),
    "producer's parity wrong": Bug("bulk_ring", "u32 parity = 1;", "u32 parity = 0;", STUCK + "mbarrier at shared"),
    "stage refilled too early": Bug("bulk_ring", WAIT_EMPTY, "", "more often|still fills"),
    "stage released too early": Bug(
        "bulk_ring",
        f"{READ}\n    __syncwarp();\n    {RELEASE}",
        f"{RELEASE}\n    __syncwarp();\n    {READ}",
        always=False,
    ),
    "two loads into one place": Bug("bulk_ring", LOAD, LOAD + "\n    " + LOAD, "still fills"),
    "store's source overwritten": Bug("bulk_ring", "if (thread == 0) bulk_wait_read<0>();", ""),
    "store not awaited": Bug("bulk_ring", "if (thread == 0) bulk_wait<0>();", "", "may not have been read"),
    "chunk stored incomplete": Bug(
        "bulk_ring", "named_barrier_sync(1, CONSUMERS);  // the chunk is complete", "", always=False
    ),
    "too many arrivals": Bug(
        "bulk_ring", RELEASE, RELEASE.replace("if (thread % 32 == 0) ", ""), "more often|" + STUCK
    ),
    "mbarrier not initialised": Bug("bulk_ring", "mbarrier_init(&ring->empty[stage], CONSUMERS / 32);", "", "not init"),
    "mbarrier overwritten": Bug(
        "bulk_ring",
        "if (threadIdx.x < STAGES) mbarrier_inval(&ring->empty[threadIdx.x]);",
        "",
        "without mbarrier_inval",
    ),
    "misaligned bulk source": Bug("bulk_ring", LOAD, LOAD.replace("CHUNK,", "CHUNK + 1,"), "misaligned: the source"),
    "misaligned bulk size": Bug("bulk_ring", LOAD, LOAD.replace("* 4", "* 4 - 8"), "misaligned: a bulk load of 248"),
    "bytes not expected": Bug("bulk_ring", "[stage], CHUNK * 8);", "[stage], 0);", "still fills|wrong answer"),
    "bytes expected in vain": Bug("bulk_ring", "[stage], CHUNK * 8);", "[stage], CHUNK * 9);", STUCK + "and 64 bytes"),
    "named barrier too large": Bug(
        "bulk_ring",
        "CONSUMERS);\n    ring.out",
        "CONSUMERS + 32);\n    ring.out",
        STUCK + "named barrier 1, which 64 of 96",
    ),
    "lane outside its mask": Bug("warp_words", "lane < 16 ? 0xFFFFu", "lane < 15 ? 0xFFFFu", "mask"),
    "shuffle lane missing": Bug(
        "warp_words", "out[4 * 32] =", "if (lane != 3) out[4 * 32] =", STUCK + "lanes 0x00000008"
    ),
    "shuffle from a lane that left": Bug("warp_words", "out[0 * 32]", "if (lane == 5) return;\n  out[0 * 32]"),
    "mma lane missing": Bug(
        "mma_shapes", "double* c = arg", "if (threadIdx.x == 9) return;\n  double* c = arg", "mma without"
    ),
    "lock never released": Bug("atomics", "atomicExch(arguments.word + 3, 0u);", "", STUCK + "spinning"),
    "lock never taken": Bug("atomics", LOCK, ""),
    "grid barrier missing": Bug("grid_barrier", "    grid_barrier(arguments);\n", ""),
    "grid barrier never opens": Bug(
        "grid_barrier", "store_release(arguments.round, now + 1);", "", STUCK + "differ from 0"
    ),
}

SANITIZED_BUGS = {
    "dynamic shared overflow": Bug(
        "tree_sum", "per_warp[warp] = value;", "per_warp[warp + 1] = value;", "heap-buffer-overflow"
    ),
    "static shared overflow": Bug(
        "tree_sum", "arrived = atomicAdd(", "(&arrived)[1] = atomicAdd(", "insufficient space|global-buffer"
    ),
    "array read past its end": Bug("tree_sum", "i < arguments.n;", "i <= arguments.n;", "heap-buffer-overflow"),
    "bulk load past the array": Bug(
        "bulk_ring",
        LOAD,
        LOAD.replace("chunk * CHUNK", "(chunk + (chunk == 9)) * CHUNK"),
        "heap-buffer-overflow",
    ),
    "vector load misaligned": Bug(
        "double_buffer",
        "buffers[chunk % 2 * 64 + partner]",
        "*(double2*)((double*)buffers + 2 * partner + 1)",
        "misaligned address",
    ),
}
