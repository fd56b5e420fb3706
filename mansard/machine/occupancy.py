"""How many blocks a multiprocessor holds, and whether they keep enough bytes in flight (Little's law)."""

from __future__ import annotations

from ..codegen.geometry import Device

_REGISTER_GRANULE = 256  # registers are handed out per warp in these units


def blocks_per_multiprocessor(device: Device, threads: int, registers: int, shared_bytes: int) -> int:
    """Resident blocks, limited by threads, registers and shared memory."""
    warps = -(-threads // 32)
    per_warp = -(-max(registers, 16) * 32 // _REGISTER_GRANULE) * _REGISTER_GRANULE
    by_registers = device.registers_per_multiprocessor // (per_warp * warps)
    by_threads = device.threads_per_multiprocessor // (warps * 32)
    by_shared = device.shared_per_multiprocessor // (shared_bytes + 1024)
    return max(0, min(by_registers, by_threads, by_shared, 32))


def little_efficiency(bytes_in_flight: float, bandwidth: float, latency: float, multiprocessors: int) -> float:
    """Share of `bandwidth` that this number of bytes in flight per multiprocessor can sustain, at most 1."""
    needed = bandwidth * latency / multiprocessors
    return min(1.0, bytes_in_flight / needed)
