"""TSM2's model: cases worked out by hand, what the paper says of its devices, and its search against all parameters."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from sparing import rotated

from mansard.codegen.geometry import Device
from mansard.compile import nvrtc
from mansard.errors import IllegalConfig, UnsupportedProblem
from mansard.kernels.tall_skinny.tsm2r import emit, spec, work
from mansard.kernels.tall_skinny.tsm2r.space import Steps
from mansard.machine import machine, tsm2_search
from mansard.machine.machine import Machine
from mansard.machine.tsm2 import Parameters, Shape, Tsm2Model
from mansard.plan import explain
from papers.tsm2.cases import choice, planned

pytestmark = rotated(3)

# 100 multiprocessors; Little's law asks each for 10 000 bytes (1 TB/s, 1 us) and 512 sums (64 per cycle, 8 cycles)
ROUND = Tsm2Model(
    Device("cuda", "round", "sm_90a", 100, 48 << 10, 96 << 10, 65536, 2048),
    Machine("round", "by hand", 1e12, 1e12, 1e12, {"float32": 25.6e12, "float64": 12.8e12},
            launch_seconds=0.0, graph_step_seconds=0.0, latency_seconds=1e-6),
    clock=1e9, shared_reads=math.inf, lines=math.inf, fetch_cycles=0.0, product_cycles=0.0,
    dispatch_latencies=0.0, tile_latencies=0.0, arrival_latencies=0.0, spread=0.0, overlap=math.inf,
)  # fmt: skip
H200 = Tsm2Model(explain.NOMINAL["sm_90a"], machine.nominal_for(explain.NOMINAL["sm_90a"]))


def data_sheet(
    name: str, sms: int, shared: int, single: float, double: float, bandwidth: float, clock: float
) -> Tsm2Model:
    """A device of the paper: peaks and bandwidth from its table 2 (A100: its text), the rest from data sheets."""
    device = Device("cuda", name, "sm_80", sms, 48 << 10, shared << 10, 65536, 2048)
    ceilings = Machine(name, "data sheet", bandwidth, bandwidth, bandwidth, {"float32": single, "float64": double})
    return Tsm2Model(device, ceilings, clock=clock, shared_reads=math.inf, lines=math.inf)


PAPER = {
    "K40c": data_sheet("K40c", 15, 48, 5.046e12, 1.43e12, 288e9, 0.745e9),
    "M40": data_sheet("M40", 24, 96, 6.844e12, 0.213e12, 288e9, 0.948e9),
    "P100": data_sheet("P100", 56, 64, 10.6e12, 4.6e12, 720e9, 1.328e9),
    "V100": data_sheet("V100", 80, 96, 15e12, 7.5e12, 900e9, 1.53e9),
    "A100": data_sheet("A100", 108, 164, 19.5e12, 9.7e12, 1555e9, 1.41e9),
}


# --- The paper's devices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("K40c", "float32", 35.0),  # 5046 GFLOP/s * 4 bytes / (2 * 288 GB/s)
        ("K40c", "float64", 19.9),
        ("M40", "float32", 47.5),
        ("M40", "float64", 2.96),
        ("P100", "float32", 29.4),
        ("P100", "float64", 25.6),
        ("V100", "float32", 33.3),
        ("V100", "float64", 33.3),
        ("A100", "float64", 24.95),
    ],
)
def test_threshold(name: str, dtype: str, expected: float) -> None:
    assert PAPER[name].threshold(dtype) == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("flops_per_multiply_add", [1, 2])  # the text does not say which; what it concludes fits both
def test_the_paper_says_which_problems_are_memory_bound(flops_per_multiply_add: int) -> None:
    def memory_bound(name: str, dtype: str, n: int) -> bool:
        return n <= PAPER[name].threshold(dtype) * 2 / flops_per_multiply_add

    for name in ("K40c", "V100"):
        assert all(memory_bound(name, dtype, n) for dtype in ("float32", "float64") for n in (2, 4, 8, 16))
    assert not memory_bound("M40", "float64", 16)
    assert memory_bound("P100", "float64", 16)
    assert memory_bound("A100", "float64", 16)


@pytest.mark.parametrize(
    ("dtype", "t1", "t2", "t3", "shared", "registers"),
    [  # table 3; where it leaves t2 to n, the registers are those of n = 16
        ("float32", 128, 16, 4, None, 64),  # K40c
        ("float64", 128, 16, 4, None, 128),
        ("float32", 256, 8, 4, 8192, 40),  # M40
        ("float64", 256, 8, 4, 16384, 70),
        ("float32", 128, 4, 4, 2048, 32),  # P100
        ("float64", 128, 4, 4, 4096, 56),
        ("float32", 128, 16, 32, None, 144),  # V100
        ("float64", 128, 16, 16, None, 180),
        ("float64", 128, 16, 12, None, 168),
    ],
)
def test_resources_of_table_3(dtype: str, t1: int, t2: int, t3: int, shared: int | None, registers: int) -> None:
    model = PAPER["V100"]
    assert model.registers(dtype, t2, t3) == pytest.approx(registers, rel=0.2)
    if shared is not None:
        assert model.shared_bytes(dtype, Parameters(t1, t2, t3)) == shared


def test_search_agrees_with_the_papers_choices() -> None:
    def t2(name: str, dtype: str, n: int) -> int:
        return tsm2_search.optimise(PAPER[name], Shape(20480, 20480, n, dtype), splits=(1,)).parameters.t2

    for name in ("K40c", "V100"):
        assert all(t2(name, dtype, n) == n for dtype in ("float32", "float64") for n in (2, 4, 8, 16))
    # in favour of arithmetic: the paper has 8, and anything above the threshold is as good where arithmetic decides
    slow = tsm2_search.optimise(PAPER["M40"], Shape(20480, 20480, 16, "float64"), splits=(1,))
    assert slow.bound == "arithmetic" and slow.parameters.t2 > PAPER["M40"].threshold("float64")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(PAPER))
def test_search_is_near_the_minimum_on_the_papers_devices(name: str, dtype: str) -> None:
    for n in (2, 4, 8, 16):
        shape = Shape(10240, 10240, n, dtype)
        whole_rows = (p.seconds for p in tsm2_search.exhaustive(PAPER[name], shape) if p.parameters.split == 1)
        assert tsm2_search.optimise(PAPER[name], shape, splits=(1,)).seconds <= 1.1 * min(whole_rows)


# --- By hand -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "t2", "t3", "threads"),
    [
        ("float64", 16, 4, 512),  # 16 + (3 * 16 + 2 * 4) * 2 = 128 registers
        ("float32", 2, 2, 2048),  # 26 registers would do for 2520
        ("float64", 48, 1, 0),  # 308 registers
        ("complex64", 16, 4, 512),  # as large as float64
    ],
)
def test_max_threads(dtype: str, t2: int, t3: int, threads: int) -> None:
    assert ROUND.max_threads(dtype, t2, t3) == threads


def test_shared_memory_limits_threads() -> None:
    small = replace(ROUND, device=replace(ROUND.device, shared_per_multiprocessor=32 << 10))
    assert small.max_threads("float64", 16, 4) == 256  # 16 doubles each
    assert small.blocks("float64", Parameters(64, 16, 4)) == 3  # 8 KiB a block, and one for the system
    assert small.blocks("float64", Parameters(512, 16, 4)) == 0  # 64 KiB


def test_prefetch_of_c_takes_registers() -> None:
    assert ROUND.registers("float64", 16, 4, interleaved=True) == ROUND.registers("float64", 16, 4) + 32


def test_littles_law() -> None:
    assert ROUND.memory_utilisation(5_000) == pytest.approx(0.5)
    assert ROUND.memory_utilisation(20_000) == 1.0
    assert ROUND.arithmetic_utilisation("float64", 64, 2) == pytest.approx(0.25)  # 128 of 512 sums
    assert ROUND.arithmetic_utilisation("complex128", 64, 2) == pytest.approx(0.5)
    assert ROUND.arithmetic_utilisation("float32", 64, 2) == pytest.approx(0.25)  # twice the rate, half the latency
    assert ROUND.arithmetic_utilisation("float64", 1024, 4) == 1.0


def test_memory_bound() -> None:
    # 400 blocks, 6 fit: one wave, 512 threads each, 40 960 bytes under way
    got = ROUND.predict(Shape(51200, 1000, 4), Parameters(128, 4, 10))
    assert got.bound == "memory" and got.memory_utilisation == 1.0
    assert got.seconds == pytest.approx((51200 * 1000 + 1000 * 4 + 51200 * 4) * 8 / 1e12)
    assert (got.registers, got.shared_bytes, got.occupancy) == (80, 4096, 0.25)


def test_latency_bound() -> None:
    # one element of A under way per thread: a thousand fetches of 1 us
    got = ROUND.predict(Shape(51200, 1000, 4), Parameters(128, 4, 1))
    assert got.bound == "latency" and got.seconds == pytest.approx(1e-3)
    assert got.memory_utilisation == pytest.approx(0.4096)
    assert got.parts["latency"] == pytest.approx(51200 * 1000 * 8 / (1e12 * got.memory_utilisation)), "the paper's form"


def test_arithmetic_bound() -> None:
    single = replace(ROUND, machine=replace(ROUND.machine, fma={"float32": 25.6e12, "float64": 0.64e12}))
    assert single.threshold("float64") == pytest.approx(2.56)
    got = single.predict(Shape(51200, 1000, 4), Parameters(128, 4, 10))
    assert got.bound == "arithmetic" and got.seconds == pytest.approx(2 * 51200 * 1000 * 4 / 0.64e12)


def test_narrow_tiles_read_a_again() -> None:
    shape = Shape(51200, 1000, 5)
    assert ROUND.loads(shape, Parameters(128, 2, 8)) == 3 * 51200 * 1000 * 8
    assert ROUND.work(shape, Parameters(128, 2, 8)).flops == 2 * 51200 * 1000 * 6, "the sixth column is padding"


def test_a_last_wave_that_is_not_full_costs_a_lifetime() -> None:
    model = replace(ROUND, device=replace(ROUND.device, multiprocessors=10))
    p = Parameters(128, 4, 10)  # 60 blocks fit
    assert (
        model.predict(Shape(61 * 128, 1000, 4), p).parts["latency"]
        == 2 * model.predict(Shape(60 * 128, 1000, 4), p).parts["latency"]
    )


def test_waves_come_one_behind_the_other() -> None:
    """Four of five blocks fit: the fifth has its multiprocessor to itself, and a fifth of the work."""
    shape, p = Shape(10240, 10240, 16), Parameters(64, 16, 16, split=4)
    model = Tsm2Model(H200.device, H200.machine, setup_registers=44)  # 204 registers: two warps in each quarter
    assert model.blocks("float64", p) == 4 and Tsm2Model(H200.device, H200.machine).blocks("float64", p) == 4
    got, lifetime = model.predict(shape, p), model.lifetime(shape, p)
    work = [got.parts[name] for name in ("memory", "arithmetic", "shared")]
    full, last = (model.together(lifetime, *(blocks / 5 * each for each in work)) for blocks in (4, 1))
    expected = got.parts["launch"] + full + last + model.spread * last + got.parts["reduction"]
    assert got.seconds == pytest.approx(expected) and last < full
    assert model.predict(shape, replace(p, split=8)).seconds < got.seconds, "ten blocks leave two for the last wave"


def test_resources_add_up_in_a_norm() -> None:
    assert ROUND.together(3.0, 4.0) == 4, "the paper's"
    assert replace(ROUND, overlap=2.0).together(3.0, 4.0) == pytest.approx(5)
    assert replace(ROUND, overlap=1.0).together(3.0, 4.0, 0.0) == pytest.approx(7), "one after the other"


def test_shared_memory_and_loads_share_a_way() -> None:
    # 64 rows and 128 columns of A, 4 of B: 2 warps take 512 products each, 8 bytes, of which two come in one read
    shape, p = Shape(64, 128, 4), Parameters(64, 4, 8)
    reads = replace(ROUND, shared_reads=0.5)._shared_seconds(shape, p)
    assert reads == pytest.approx(2 * 512 / 2 / 0.5 / 1e9 / 100)
    # lines of 128 bytes: A has 512, and each of B's 512 numbers comes with a quarter of one, as four rows lie on a line
    assert replace(ROUND, lines=2.0)._shared_seconds(shape, p) == pytest.approx((512 + 128) / 2 / 1e9 / 100)
    wide = replace(ROUND, lines=1.0)._shared_seconds(Shape(64, 128, 32), Parameters(64, 32, 8))
    assert wide == pytest.approx((512 + 128 * 32) / 1e9 / 100), "a row of B is two lines, a load touches one of them"


def test_a_share_of_k_is_whole_tiles() -> None:
    # 10240 / 16 is two and a half tiles of 256: three for thirteen blocks, a third of that for one, nothing for two
    shape, p = Shape(256, 10240, 4), Parameters(256, 4, 16, split=16)
    assert ROUND.lifetime(shape, p) == ROUND.lifetime(replace(shape, k=768), replace(p, split=1))
    assert ROUND.predict(shape, p).occupancy == pytest.approx(14 * 256 / 100 / 2048)


@pytest.mark.parametrize(("split", "planned"), [(1, 2), (2, 3), (4, 5), (8, 5), (16, 5), (32, 6)])
def test_planned_blocks_are_those_of_the_fullest_wave(split: int, planned: int) -> None:
    model = Tsm2Model(H200.device, H200.machine, setup_registers=44)  # six blocks fit
    assert model.planned(Shape(10240, 10240, 8), Parameters(64, 8, 16, split=split)) == planned


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize("n", [2, 4, 8, 16])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_choice_is_compiled_as_planned(dtype: str, n: int) -> None:
    """As many blocks fit as the model plans with, and nothing spills that the loops need."""
    model = Tsm2Model(H200.device, H200.machine, setup_registers=work.STEPS_REGISTERS)
    shape = Shape(10240, 10240, n, dtype)
    t1, t2, t3, split = choice(model, dtype, 10240, n)
    blocks = planned(model, shape, (t1, t2, t3, split))
    assert blocks == model.planned(shape, Parameters(t1, t2, t3, split=split))
    source = emit.source(
        spec.problem(dtype, 10240, n, 10240, layout_a="col"), Steps("prefetch", t1, t2, t3, split, blocks), "cuda"
    )
    found = nvrtc.resources(nvrtc.compile_cuda(source, "sm_90a").log)
    assert found.spill_bytes <= 8, "a number that is put aside before the loops, and taken up behind them"
    registers = math.ceil(found.registers / 8) * 8
    assert 65536 // 4 // (32 * registers) * 4 // (t1 // 32) >= blocks


def test_the_busiest_multiprocessor_decides_about_arithmetic() -> None:
    p = Parameters(512, 8, 4)
    even, uneven = (ROUND.predict(Shape(blocks * 512, 1000, 8), p).parts for blocks in (200, 101))
    assert uneven["arithmetic"] == pytest.approx(even["arithmetic"]), "two blocks for some, here and there"
    assert uneven["memory"] < 0.6 * even["memory"]


def test_split_fills_the_device() -> None:
    shape, p = Shape(5120, 10000, 4), Parameters(64, 4, 10)
    whole, parts = ROUND.predict(shape, p), ROUND.predict(shape, replace(p, split=8))
    assert whole.bound == "latency" and parts.bound == "memory"
    waits = 4 * 2 * 1e-6  # four results, eight sums each, four at once
    assert parts.parts["reduction"] == pytest.approx(waits + 9 * 5120 * 4 * 8 / 1e12)
    assert parts.parts["memory"] > whole.parts["memory"], "every part writes its sums"


def test_tsm2l_by_hand() -> None:
    model = replace(ROUND, dispatch_latencies=1.0, tile_latencies=1.0, fetch_cycles=100.0, product_cycles=10.0)
    shape, idle, turn = Shape(10**6, 16, 16), 1e-6, 1e-6 + 8 * (100 + 16 * 10) * 1e-9
    assert model.lifetime(shape, Parameters(128, 16, 8)) == pytest.approx(2 * idle + 2 * turn)
    sequential = Parameters(128, 16, 8, tcf=4)
    assert model.lifetime(shape, sequential) == pytest.approx(idle + 4 * (idle + 2 * turn))
    together = replace(sequential, interleaved=True)
    assert model.lifetime(shape, together) == pytest.approx(2 * idle + 8 * turn)
    assert model.work(shape, together) == model.work(shape, sequential), "k is one tile: no sums wait in C"
    tall = Shape(10**6, 300, 16)
    extra = model.work(tall, together).bytes - model.work(tall, sequential).bytes
    assert extra == 2 * 2 * 10**6 * 16 * 8, "three tiles of B: sums go out and come back twice"


# --- Order -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [Parameters(128, 4, 8), Parameters(64, 8, 2, split=4), Parameters(256, 2, 4, tcf=4)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_more_work_takes_longer(dtype: str, p: Parameters) -> None:
    base = Shape(20000, 2000, 8, dtype)
    seconds = H200.predict(base, p).seconds
    for larger in (replace(base, m=40000), replace(base, k=4000), replace(base, n=16)):
        assert H200.predict(larger, p).seconds > seconds


def test_faster_devices_take_no_longer() -> None:
    shape, p, now = Shape(20480, 20480, 16), Parameters(128, 16, 8), H200.machine
    seconds = H200.predict(shape, p).seconds
    for better in (
        replace(now, read_bandwidth=6e12, copy_bandwidth=6e12),
        replace(now, fma={"float32": 90e12, "float64": 60e12}),
        replace(now, latency_seconds=0.2e-6),
    ):
        assert replace(H200, machine=better).predict(shape, p).seconds <= seconds
    assert replace(H200, machine=replace(now, fma={"float64": 62e12})).threshold("float64") == pytest.approx(
        2 * H200.threshold("float64")
    )


def test_larger_fetches_never_lower_utilisation_while_threads_stay() -> None:
    shape = Shape(10240, 10240, 2)
    shares = [H200.predict(shape, Parameters(64, 2, t3, split=2)).memory_utilisation for t3 in tsm2_search.T3]
    assert shares == sorted(shares) and shares[0] < 0.2 < 0.9 < shares[-1]


def test_occupancy_falls_with_t2_and_t3() -> None:
    threads = [H200.max_threads("float64", t2, t3) for t2, t3 in ((2, 2), (8, 2), (8, 8), (16, 8), (16, 16))]
    assert threads == sorted(threads, reverse=True)


# --- The search --------------------------------------------------------------------------------------------------


def test_descent() -> None:
    low, high = (1.0, 1.0), (50.0, 50.0)
    assert tsm2_search.descend(lambda x, y: (x - 7) ** 2 + (y - 3) ** 2, low, high) == pytest.approx((7, 3), abs=0.01)
    assert tsm2_search.descend(lambda x, y: 1 / (x * y), low, (4.0, 9.0)) == pytest.approx((4, 9))
    assert tsm2_search.descend(lambda x, y: 1.0, low, high) == low, "nothing to gain"
    edge = tsm2_search.descend(lambda x, y: 1 / (x + y) if x + y < 20 else math.inf, low, high)
    assert 19.5 < sum(edge) < 20, "no step to where nothing fits"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m", [10240, 20480, 30720])
def test_search_is_near_the_minimum(m: int, dtype: str) -> None:
    for n in (2, 3, 4, 8, 16, 32):
        shape = Shape(m, m, n, dtype)
        assert tsm2_search.optimise(H200, shape).seconds <= 1.1 * min(
            p.seconds for p in tsm2_search.exhaustive(H200, shape)
        )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m", [10**4, 10**5, 10**6, 10**7])
def test_search_is_near_the_minimum_of_tsm2l(m: int, dtype: str) -> None:
    for n in (8, 16):
        shape = Shape(m, n, n, dtype)
        best = min(p.seconds for p in tsm2_search.exhaustive(H200, shape, left=True))
        assert tsm2_search.optimise_left(H200, shape).seconds <= 1.1 * best


def test_few_rows_are_not_shared_out_further() -> None:
    for n in (8, 16):  # the paper, too, measured a thread per row to be best here
        assert tsm2_search.optimise_left(PAPER["V100"], Shape(10**4, n, n, "float32")).parameters.tcf == 1
    assert tsm2_search.optimise_left(H200, Shape(10**7, 16, 16)).parameters.tcf > 1


def test_both_branches_where_arithmetic_decides() -> None:
    shape = Shape(20480, 20480, 32)
    by_arithmetic, by_memory = tsm2_search.optima(H200, shape, split=4)
    assert by_arithmetic[0] >= H200.threshold("float64") >= by_memory[0]
    assert len(tsm2_search.optima(H200, Shape(20480, 20480, 16))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("shape", [Shape(1, 1, 1), Shape(5, 1, 64, "complex128"), Shape(7, 100000, 1, "float32")])
def test_search_copes_with_the_smallest(shape: Shape) -> None:
    for search in (tsm2_search.optimise, tsm2_search.optimise_left):
        assert 0 < search(H200, shape).seconds < 1


# --- What is said ------------------------------------------------------------------------------------------------


def test_text_says_what_and_why() -> None:
    found = tsm2_search.optimise(H200, Shape(20480, 20480, 8))
    text = found.text()
    assert str(found.parameters) in text and f"set by {found.bound}" in text and "\n" not in text
    assert "tcf=4 interleaved" in str(Parameters(128, 8, 8, tcf=4, interleaved=True))


def test_refusals() -> None:
    with pytest.raises(UnsupportedProblem, match="1 and more"):
        Shape(0, 4, 4)
    with pytest.raises(UnsupportedProblem, match="dtype"):
        Shape(4, 4, 4, "int32")
    with pytest.raises(IllegalConfig, match="t2=64"):
        H200.predict(Shape(1000, 1000, 64), Parameters(128, 64, 4))
    processor = replace(H200, device=Device("cpu", "a CPU", "x86_64", 8))
    with pytest.raises(UnsupportedProblem, match="a CPU"):
        tsm2_search.optimise(processor, Shape(1000, 1000, 4))
