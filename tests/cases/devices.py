"""GPUs that kernels are planned and compiled for without one."""

from __future__ import annotations

from mansard.codegen.geometry import Device

H200 = Device("cuda", "NVIDIA H200", "sm_90a", 132, 232448, 233472, 65536, 2048, 60 << 20)
A100 = Device("cuda", "NVIDIA A100", "sm_80", 108, 166912, 167936, 65536, 2048, 40 << 20)
