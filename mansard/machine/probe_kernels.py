"""Text and geometry of the probes: which shapes of which kernel of probes.cuh and probes.hpp are tried. Pure, so that
the emulator can run every shape and the compiler can be asked about every shape without a GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ..codegen.geometry import Device, Geometry, Kernel
from ..codegen.instantiate import CPP_TYPES, Field, instantiate

_REST = (
    Field("partials", "void*", "pointer"),
    Field("counters", "unsigned*", "pointer"),
    Field("count", "long long", "integer"),
    Field("repeats", "long long", "integer"),
)
_OPERANDS = (
    Field("x", "const double*", "pointer"),
    Field("y", "double*", "pointer"),
    Field("result", "double*", "pointer"),
)
_SCALARS = (Field("a", "double", "real"), Field("b", "double", "real"))
_WARP_SUMS = 32 * 8  # shared memory of a block's sum
GRANULE = 1 << 14  # operands are a multiple of so many doubles: whole chunks and tiles for every shape
LINE = 16  # doubles between two places of the pointer chase: one cache line of 128 bytes
# The cycle of the pointer chase, next = place * FACTOR + ADDEND modulo a power of two, passes through every place.
FACTOR, ADDEND = 1664525, 1013904223


@dataclass(frozen=True)
class Shape:
    """One way to run a probe: threads per block, blocks per multiprocessor (0: one block per tile), constants."""

    block: int
    per_sm: int
    constants: tuple[tuple[str, int | bool], ...] = ()
    dtype: str = "float64"

    def __str__(self) -> str:
        flags = (name if value is True else f"{name}={value}" for name, value in self.constants if value is not False)
        blocks = f"{self.per_sm}/SM" if self.per_sm else "one tile each"
        return " ".join((f"{self.block} threads, {blocks}", *flags))

    def with_(self, **constants: int | bool) -> Shape:
        return Shape(self.block, self.per_sm, (*self.constants, *constants.items()), self.dtype)


def _registers(block: int, per_sm: int, unroll: int, stream: bool = False) -> Shape:
    return Shape(block, per_sm, (("UNROLL", unroll), ("STREAM", stream)))


def _ring(warps: int, chunk: int, stages: int, per_sm: int = 1) -> Shape:
    return Shape(32 * warps, per_sm, (("CHUNK", chunk), ("STAGES", stages)))


_READ = (
    *(_registers(*shape) for shape in ((1024, 2, 4), (512, 4, 4), (512, 2, 8), (256, 4, 8), (1024, 1, 8))),
    _registers(1024, 2, 4, True),
    _registers(512, 0, 4),
)
_READ_RING = (_ring(8, 8192, 3), _ring(4, 16384, 3), _ring(8, 4096, 6), _ring(16, 4096, 3), _ring(4, 8192, 6))
_COPY = (
    *(_registers(*shape) for shape in ((1024, 2, 4), (512, 4, 2), (256, 0, 4), (512, 0, 2), (1024, 0, 1))),
    _registers(512, 0, 4, True),
)
_COPY_RING = (_ring(4, 16384, 3), _ring(8, 8192, 3), _ring(2, 16384, 6), _ring(1, 16384, 4, 3))
_TRIAD = (*(_registers(*shape) for shape in ((512, 2, 4), (512, 0, 2), (256, 0, 4))), _registers(512, 0, 4, True))
RAMP = Shape(256, 0, (("UNROLL", 1), ("STREAM", False), ("SCALE", True)))  # small kernels: calibrate_ramp.py
_CACHE = (Shape(512, 2, (("UNROLL", 4),)), Shape(1024, 2, (("UNROLL", 4),)))
_FMA = tuple(
    Shape(block, per_sm, (("CHAINS", chains), ("UNROLL", unroll)), dtype)
    for dtype in ("float64", "float32")
    for block, per_sm, chains, unroll in ((512, 2, 8, 16), (1024, 2, 8, 32))
)
_TENSOR = tuple(
    Shape(32 * warps, 1, (("KSTEP", kstep), ("TILES", tiles), ("UNROLL", 4), ("GROUP", False)), dtype)
    for dtype, kstep, warps, tiles in (
        ("float64", 4, 8, 8), ("float64", 4, 16, 8), ("float64", 8, 16, 8), ("float64", 16, 8, 8),
        ("float64", 16, 16, 4), ("float32", 8, 8, 8), ("float32", 8, 16, 8), ("float32", 8, 32, 4),
    )
)  # fmt: skip
_GROUPS = tuple(
    Shape(32 * warps, 1, (("KSTEP", 8), ("TILES", 16), ("UNROLL", 16), ("GROUP", True)), "float32") for warps in (8, 16)
)
_ONCE = {"fill": 1024, "link": 1024, "chase": 32, "empty": 32, "step": 128, "barrier": 256}


def shapes(probe: str, device: Device) -> tuple[Shape, ...]:
    """The shapes of `probe` that this device can run; bulk copies came with compute capability 9.0."""
    bulk = device.capability >= 90
    if probe in _ONCE:
        extra = (("LINE", LINE), ("FACTOR", FACTOR), ("ADDEND", ADDEND)) if probe in ("link", "chase") else ()
        return (Shape(_ONCE[probe], 1, extra),)
    scaled = {"copy": False, "scale": True, "copy_ring": False, "scale_ring": True}
    found = {
        "read": _READ,
        "read_ring": _READ_RING if bulk else (),
        "cache": _CACHE,
        "fma": _FMA,
        "tensor": (*_TENSOR, *(_GROUPS if device.arch == "sm_90a" else ())) if device.capability >= 80 else (),
        "copy": _COPY,
        "scale": _COPY,
        "triad": _TRIAD,
        "copy_ring": _COPY_RING if bulk else (),
        "scale_ring": _COPY_RING if bulk else (),
    }[probe]
    return tuple(shape.with_(SCALE=scaled[probe]) for shape in found) if probe in scaled else found


PROBES = ("fill", "read", "read_ring", "copy", "copy_ring", "scale", "scale_ring", "triad", "cache", "fma", "tensor",
          "link", "chase", "empty", "step", "barrier")  # fmt: skip


def kernel(
    probe: str, shape: Shape, device: Device, *, count: int = 0, repeats: int = 0, blocks: int | None = None
) -> Kernel:
    """The probe on `count` doubles, `repeats` rounds; its operands are x, y and result, its scalars a and b."""
    constants: dict[str, int | bool] = {"BLOCK": shape.block, **dict(shape.constants)}
    shared = _WARP_SUMS
    if "CHUNK" in constants:
        rings = shape.block // 32 * constants["STAGES"]
        shared = constants["SHARED_BYTES"] = -(-rings * 8 // 128) * 128 + rings * constants["CHUNK"]
    if constants.get("GROUP"):
        shared = constants["TILES"] * 256
    if blocks is None:
        blocks = shape.per_sm * device.multiprocessors or -(-count // (2 * shape.block * constants["UNROLL"]))
    source = instantiate(
        title=f"probe: {probe}, {shape}",
        header="machine/probes.cuh",
        function="probe_" + probe.replace("scale", "copy"),
        target=device.backend,
        types={"T": CPP_TYPES[shape.dtype]},
        constants=constants,
        arguments=(*_OPERANDS, *_REST, *_SCALARS),
        bounds=(shape.block, max(1, shape.per_sm)),
        cooperative=probe == "barrier",
    )
    geometry = Geometry((int(blocks), 1, 1), shape.block, shared, cooperative=probe == "barrier")
    return Kernel(source, geometry, (count, repeats))


def all_kernels(device: Device, count: int) -> Iterator[tuple[str, Shape, Kernel]]:
    """Every shape of every probe, to be compiled side by side before the first is timed."""
    for probe in PROBES:
        for shape in shapes(probe, device):
            yield probe, shape, kernel(probe, shape, device, count=count)


def cache_part(shape: Shape, footprint: int, blocks: int, total: int) -> tuple[int, int]:
    """Sizes of the cache probe: doubles in all blocks' parts together, and rounds that move about `total` bytes and end
    where a sweep ends, so that the sum can be checked."""
    pairs = max(32, footprint // 16 // blocks)
    part = pairs // shape.block * shape.block if pairs >= shape.block else pairs // 32 * 32
    unroll = dict(shape.constants)["UNROLL"]
    whole = math.lcm(part // math.gcd(part, shape.block), unroll)
    rounds = max(1, round(total / (16 * shape.block * blocks) / whole)) * whole
    return 2 * part * blocks, rounds


def cache_footprints(cache_bytes: int) -> tuple[int, ...]:
    """From 1 MiB to twice the cache, closer together where the cache begins to overflow."""
    small = [1 << power for power in range(20, 40) if 1 << power <= cache_bytes // 4]
    return (*small, *(int(cache_bytes * share) for share in (0.4, 0.55, 0.7, 0.8, 0.9, 1.0, 1.15, 1.5, 2.0)))


CPU_PROBES = ("touch", "read", "dot", "copy", "scale", "triad", "fill", "fma64", "fma32", "cache", "fork", "link",
              "chase")  # fmt: skip


def cpu_kernel(probe: str, threads: int, *, shape: int = 0, count: int = 0, repeats: int = 0) -> Kernel:
    """One probe of probes.hpp. All of them are one library, told apart by an argument: the compiler is slow."""
    integers = (Field(name, "long long", "integer") for name in ("probe", "shape", "threads"))
    source = instantiate(
        title="probes of a CPU",
        header="machine/probes.hpp",
        function="probe",
        target="cpu",
        types={},
        constants={name.upper(): number for number, name in enumerate(CPU_PROBES)},
        arguments=(*_OPERANDS, *_REST, *integers, *_SCALARS),
    )
    return Kernel(source, Geometry((1, 1, 1), 1), (count, repeats, CPU_PROBES.index(probe), shape, threads))
