"""The performance model of TSM2 (Rivera et al. 2021) for C = A B: A is m x k, B is k x n and skinny, a thread per row.

Registers and shared memory give the resident threads, Little's law the share of each ceiling that they can use, and the
slower of memory and arithmetic the time. docs/tsm2-model.md says what is the paper's and what was added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..codegen.geometry import Device
from ..errors import IllegalConfig, UnsupportedProblem
from ..plan.problem import ITEMSIZE, REAL
from . import occupancy, roofline
from .machine import Machine
from .roofline import Work


@dataclass(frozen=True)
class Shape:
    """C = A B with A m x k and B k x n: TSM2R where k is large, TSM2L where it is as small as n."""

    m: int
    k: int
    n: int
    dtype: str = "float64"

    def __post_init__(self) -> None:
        if min(self.m, self.k, self.n) < 1 or self.dtype not in ITEMSIZE:
            raise UnsupportedProblem(f"{self}: TSM2 needs sizes of 1 and more and a dtype of {', '.join(ITEMSIZE)}")

    @property
    def itemsize(self) -> int:
        return ITEMSIZE[self.dtype]


@dataclass(frozen=True)
class Parameters:
    """Tuning parameters by the paper's names. `split` is ours: the paper has rows enough for its devices."""

    t1: int  # threads per block, and rows of a tile of B
    t2: int  # columns of C per thread at a time
    t3: int  # elements of A that a thread fetches at a time
    tcf: int = 1  # rows per thread, that is horizontal tiles of A (TSM2L)
    interleaved: bool = False  # TSM2L's second version: all tiles of A pass by one tile of B
    split: int = 1  # parts of k, each with threads of its own

    def __str__(self) -> str:
        text = f"t1={self.t1} t2={self.t2} t3={self.t3}"
        if self.tcf > 1:
            text += f" tcf={self.tcf} {'interleaved' if self.interleaved else 'sequential'}"
        return text + (f" split={self.split}" if self.split > 1 else "")


@dataclass(frozen=True)
class Prediction:
    """Prediction of the model for one shape with one set of parameters."""

    parameters: Parameters
    seconds: float
    bound: str  # memory | cache | latency | arithmetic | shared | launch | reduction: the largest of `parts`
    occupancy: float  # share of the threads that a multiprocessor can hold, as far as there are rows for them
    registers: int
    shared_bytes: int
    memory_seconds: float
    arithmetic_seconds: float
    memory_utilisation: float  # share of the bandwidth that the loads under way can sustain
    arithmetic_utilisation: float
    parts: Mapping[str, float]

    def text(self) -> str:
        """One paragraph for `explain()`."""
        return (
            f"TSM2's model: {self.parameters}, {self.registers} registers, {self.shared_bytes} bytes of shared memory, "
            f"occupancy {self.occupancy:.0%}. Loads under way sustain {self.memory_utilisation:.0%} of the bandwidth, "
            f"independent sums {self.arithmetic_utilisation:.0%} of the arithmetic. Memory takes "
            f"{self.memory_seconds * 1e6:.4g} us, arithmetic {self.arithmetic_seconds * 1e6:.4g} us: "
            f"{self.seconds * 1e6:.4g} us in all, set by {self.bound}."
        )


@dataclass(frozen=True)
class Tsm2Model:
    """The model for one device. Ceilings and latencies are the machine's; what it does not hold is a field below."""

    device: Device
    machine: Machine
    setup_registers: int = 16  # addresses and counters: the median of what the paper's table 3 leaves beyond the tiles
    clock: float = 1.98e9  # H200
    fma_cycles: Mapping[str, int] = field(default_factory=lambda: {"float32": 4, "float64": 8})  # until a sum is usable
    cache_ratio: float = 1.8  # L2 over memory bandwidth; H200: 8.0 to 9.1 over 4.5 TB/s
    shared_reads: float = 0.5  # by warps, of 16 bytes that are the same for all lanes, per cycle; paper: inf, free
    lines: float = 1.0  # of 128 bytes that their loads touch, on the same way, per cycle; paper: inf
    fetch_cycles: float = 48.0  # of a thread per element of A: twelve instructions, four cycles each; paper: 0
    product_cycles: float = 2.0  # of a thread per product: the sums do not wait for each other; paper: 0
    dispatch_latencies: float = 1.0  # a block's start, in latencies of idle memory
    tile_latencies: float = 1.0  # its wait for a first tile of B, likewise
    arrival_latencies: float = 2.0  # its end where others share its rows: sums published, and counted
    sums_at_once: int = 4  # of a row's parts, that the last of its blocks asks for before it waits
    spread: float = 0.1  # of a block's life, that the last ones end later than the average; paper: 0
    overlap: float = 3.0  # the norm in which times of different resources add up; inf: as in the paper, the largest

    # --- Resources ---

    def registers(self, dtype: str, t2: float, t3: float, interleaved: bool = False) -> float:
        """Registers per thread: two tiles of B, one of C (two if C is fetched ahead, too), two of A."""
        elements = (4 if interleaved else 3) * t2 + 2 * t3
        return self.setup_registers + elements * ITEMSIZE[dtype] / 4

    def shared_bytes(self, dtype: str, p: Parameters) -> int:
        """Shared memory per block: a tile of B."""
        return p.t1 * p.t2 * ITEMSIZE[dtype]

    def max_threads(self, dtype: str, t2: float, t3: float, interleaved: bool = False) -> float:
        """The paper's occupancy: threads per multiprocessor with no regard to blocks, for numbers that need not be
        whole. None fit that need more than 255 registers."""
        registers = self.registers(dtype, t2, t3, interleaved)
        if registers > _MOST_REGISTERS:
            return 0.0
        device = self.device
        by_shared = device.shared_per_multiprocessor / (t2 * ITEMSIZE[dtype])
        return min(device.threads_per_multiprocessor, device.registers_per_multiprocessor / registers, by_shared)

    def blocks(self, dtype: str, p: Parameters) -> int:
        """Blocks per multiprocessor; 0 if none fits."""
        registers, shared = math.ceil(self.registers(dtype, p.t2, p.t3, p.interleaved)), self.shared_bytes(dtype, p)
        if registers > _MOST_REGISTERS or shared > self.device.shared_per_block:
            return 0
        # a quarter of a multiprocessor has registers of its own, and warps stay in theirs
        quarter = replace(self.device, registers_per_multiprocessor=self.device.registers_per_multiprocessor // 4)
        by_quarters = 4 * occupancy.blocks_per_multiprocessor(quarter, 32, registers, 0) // math.ceil(p.t1 / 32)
        return min(by_quarters, occupancy.blocks_per_multiprocessor(self.device, p.t1, registers, shared))

    def planned(self, shape: Shape, p: Parameters) -> int:
        """Blocks per multiprocessor to compile a kernel for, so that it takes no more waves than predicted."""
        fit = self.blocks(shape.dtype, p)
        busiest = self._busiest(shape, p)
        return math.ceil(busiest / math.ceil(busiest / fit)) if fit else 0

    def _busiest(self, shape: Shape, p: Parameters) -> int:
        """Blocks of the multiprocessor that gets most of them."""
        return math.ceil(_blocks(shape, p) / self.device.multiprocessors)

    # --- Little's law ---

    def lifetime(self, shape: Shape, p: Parameters) -> float:
        """Seconds a thread lives that has idle memory to itself: its start, tiles of B, fetches of A, its end."""
        idle = self.machine.latency_seconds
        steps = math.ceil(_share(shape, p) / p.t3) * self.turn(p.t2, p.t3)
        tile = self.tile_latencies * idle
        passes = math.ceil(shape.n / p.t2)
        rows = tile + p.tcf * steps if p.interleaved else p.tcf * (tile + steps)
        edges = self.dispatch_latencies + (self.arrival_latencies if p.split > 1 else 0)
        return edges * idle + passes * rows

    def turn(self, t2: float, t3: float) -> float:
        """Seconds from one fetch of t3 elements to the next: a thread asks one by one, multiplies, and waits."""
        cycles = t3 * (self.fetch_cycles + t2 * self.product_cycles)
        return self.machine.latency_seconds + cycles / self.clock

    def memory_utilisation(self, bytes_in_flight: float) -> float:
        """Share of the bandwidth that this number of bytes in flight per multiprocessor sustains."""
        machine, sms = self.machine, self.device.multiprocessors
        return occupancy.little_efficiency(bytes_in_flight, machine.read_bandwidth, machine.latency_seconds, sms)

    def arithmetic_utilisation(self, dtype: str, threads: float, t2: float) -> float:
        """The share of the peak that `threads` per multiprocessor with t2 independent sums each sustain; the real and
        the imaginary part of a sum are independent."""
        real = REAL[dtype]
        per_cycle = self.machine.fma[real] / (2 * self.device.multiprocessors * self.clock)
        sums = t2 * (2 if dtype.startswith("complex") else 1)
        return min(1.0, threads * sums / (per_cycle * self.fma_cycles[real]))

    def threshold(self, dtype: str) -> float:
        """The t2 at which fetching an element of A takes as long as using it: fewer columns are limited by memory, more
        by arithmetic, and so is the whole problem when its n is on that side."""
        seconds_per_element = ITEMSIZE[dtype] / self.machine.read_bandwidth
        return seconds_per_element * self.machine.fma[REAL[dtype]] / flops_per_product(dtype)

    # --- Time ---

    def predict(self, shape: Shape, p: Parameters) -> Prediction:
        """Time and bound. Raises IllegalConfig if not even one block fits a multiprocessor."""
        threads, waves, uneven = self._residents(shape, p)
        lifetime, loads = self.lifetime(shape, p), self.loads(shape, p)
        rate = loads / (self.device.multiprocessors * waves * lifetime)
        share = self.memory_utilisation(rate * self.machine.latency_seconds)
        busy = self.arithmetic_utilisation(shape.dtype, threads * uneven, p.t2)
        work = self.work(shape, p)
        parts = {
            "memory": work.bytes / roofline.bandwidth(work, self.machine),
            "cache": (loads + self._tiles_of_b(shape, p)) / (self.cache_ratio * self.machine.read_bandwidth),
            "latency": waves * lifetime,  # the same as loads over bandwidth and utilisation, where that is below 1
            "arithmetic": uneven * work.flops / (self.machine.fma[REAL[shape.dtype]] * busy),
            "shared": uneven * self._shared_seconds(shape, p),
        }
        path = max(parts["memory"], parts["cache"])  # one behind the other, for the same bytes
        overlapped = self._waves_seconds(shape, p, lifetime, (path, parts["arithmetic"], parts["shared"]))
        parts |= {"launch": self.machine.launch_seconds, "reduction": self._reduction_seconds(shape, p)}
        return Prediction(
            parameters=p,
            seconds=parts["launch"] + overlapped + parts["reduction"],
            bound=max(parts, key=lambda name: parts[name]),
            occupancy=threads / self.device.threads_per_multiprocessor,
            registers=math.ceil(self.registers(shape.dtype, p.t2, p.t3, p.interleaved)),
            shared_bytes=self.shared_bytes(shape.dtype, p),
            memory_seconds=max(parts["memory"], parts["cache"], parts["latency"]),
            arithmetic_seconds=max(parts["arithmetic"], parts["shared"]),
            memory_utilisation=share,
            arithmetic_utilisation=busy,
            parts=parts,
        )

    def _residents(self, shape: Shape, p: Parameters) -> tuple[float, int, float]:
        """Threads per multiprocessor, on average; waves of blocks; and how much more the busiest multiprocessor gets
        than the average one: memory is shared and does not mind, its arithmetic is its own."""
        per_sm, sms = self.blocks(shape.dtype, p), self.device.multiprocessors
        if not per_sm:
            raise IllegalConfig(f"{p} needs more registers or shared memory than {self.device.name} has for a block")
        blocks = _blocks(shape, p)
        waves = math.ceil(blocks / (sms * per_sm))
        threads = math.ceil(shape.m / p.tcf) * math.ceil(shape.k / _share(shape, p))
        return threads / (sms * waves), waves, math.ceil(blocks / sms) * sms / blocks

    def _waves_seconds(self, shape: Shape, p: Parameters, lifetime: float, shared_out: Sequence[float]) -> float:
        """Waves of blocks, one behind the other, each with its blocks' share of all work. A last wave that is not full
        has as little of it as few blocks to hide latencies behind; and nothing follows those of it that end early."""
        busiest, fit = self._busiest(shape, p), self.blocks(shape.dtype, p)
        full, rest = divmod(busiest, fit)
        wave, last = (
            self.together(lifetime, *(count / busiest * part for part in shared_out)) for count in (fit, rest or fit)
        )
        return full * wave + (last if rest else 0.0) + self.spread * last

    def together(self, *seconds: float) -> float:
        """Seconds for resources together, given what each takes alone: no less than the slowest, and more the nearer
        the others come to it, because few warps leave all of them idle now and then."""
        slowest = max(seconds)
        if math.isinf(self.overlap):
            return slowest
        return float(slowest * sum((each / slowest) ** self.overlap for each in seconds) ** (1 / self.overlap))

    def loads(self, shape: Shape, p: Parameters) -> int:
        """Bytes of A that are fetched: all of it for every t2 columns."""
        return math.ceil(shape.n / p.t2) * shape.m * shape.k * shape.itemsize

    def work(self, shape: Shape, p: Parameters) -> Work:
        """Bytes through memory and flops, padding and repetition included. B is read from memory once."""
        result = shape.m * shape.n * shape.itemsize
        read, written = self.loads(shape, p) + shape.k * shape.n * shape.itemsize, result * p.split
        if p.interleaved:  # sums wait in C from one tile of B to the next
            waits = math.ceil(shape.k / p.t1) - 1
            read, written = read + waits * result, written + waits * result
        return Work(read, written, _products(shape, p) * flops_per_product(shape.dtype), shape.dtype)

    def _reduction_seconds(self, shape: Shape, p: Parameters) -> float:
        """The last of the blocks that share rows adds up what all have written, a result after the other."""
        if p.split == 1:
            return 0.0
        result = shape.m * shape.n * shape.itemsize
        work = Work(p.split * result, result, 0, shape.dtype)
        waits = shape.n * math.ceil(p.split / self.sums_at_once)
        return waits * self.machine.latency_seconds + work.bytes / roofline.bandwidth(work, self.machine)

    def _tiles_of_b(self, shape: Shape, p: Parameters) -> int:
        """Bytes of B that blocks fetch from the cache."""
        visitors = math.ceil(shape.m / p.t1 / (p.tcf if p.interleaved else 1))
        return visitors * shape.k * shape.n * shape.itemsize

    def _shared_seconds(self, shape: Shape, p: Parameters) -> float:
        """Every product takes its element of B from shared memory, which all lanes of a warp read at once. Loads of A
        and B pass the same way: those of A take whole lines, those of a column of a row-major B as many as it has."""
        reads = _products(shape, p) * shape.itemsize / (16 * 32)
        lines_of_b = self._tiles_of_b(shape, p) / shape.itemsize * min(1.0, shape.n * shape.itemsize / _LINE)
        cycles = reads / self.shared_reads + (self.loads(shape, p) / _LINE + lines_of_b) / self.lines
        return cycles / (self.clock * self.device.multiprocessors)


_MOST_REGISTERS = 255
_LINE = 128  # bytes


def _share(shape: Shape, p: Parameters) -> int:
    """Columns of A that a block of a split k gets, in whole tiles of B: the last ones may get fewer, or none."""
    return min(shape.k, math.ceil(math.ceil(shape.k / p.split) / p.t1) * p.t1)


def _blocks(shape: Shape, p: Parameters) -> int:
    """Number of blocks that have work."""
    return math.ceil(math.ceil(shape.m / p.tcf) / p.t1) * math.ceil(shape.k / _share(shape, p))


def _products(shape: Shape, p: Parameters) -> int:
    return shape.m * shape.k * math.ceil(shape.n / p.t2) * p.t2


def flops_per_product(dtype: str) -> int:
    """A multiply-add counts as two; a complex one is four."""
    return 8 if dtype.startswith("complex") else 2
