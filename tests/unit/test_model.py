"""The model's arithmetic on cases worked out by hand, what is stored of a device, and the commands that show it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mansard.backends import cpu, cuda
from mansard.cli import main
from mansard.codegen.geometry import Device
from mansard.compile import nvrtc
from mansard.errors import MansardError
from mansard.kernels.tall_skinny import gram
from mansard.machine import info, machine, occupancy, roofline
from mansard.machine.machine import Machine
from mansard.machine.roofline import Work
from mansard.operations import command as explain_command
from mansard.plan import explain

H200 = explain.NOMINAL["sm_90a"]
ROUND = Machine("round", "by hand", 4e12, 3e12, 2e12, {"float32": 60e12, "float64": 30e12}, {"float64": 60e12})


# --- Roofline ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "written", "expected"),
    [
        (100, 0, 4e12),  # reads only
        (50, 50, 3e12),  # a copy
        (75, 25, 3.5e12),  # half way between
        (10, 90, 3e12),  # mostly writes: no measured ceiling is better than that of a copy
        (0, 0, 4e12),
    ],
)
def test_bandwidth_mixes_read_and_copy(read: int, written: int, expected: float) -> None:
    assert roofline.bandwidth(Work(read, written, 0, "float64"), ROUND) == pytest.approx(expected)


def test_memory_bound() -> None:
    bound = roofline.time_bound(Work(4 * 10**12, 0, 30 * 10**12, "float64"), ROUND)
    assert (bound.limit, bound.seconds) == ("memory", 1.0)
    assert bound.parts == {"memory": 1.0, "arithmetic": 0.5}


def test_arithmetic_bound() -> None:
    bound = roofline.time_bound(Work(10**9, 0, 120 * 10**12, "complex128"), ROUND)
    assert (bound.limit, bound.seconds) == ("arithmetic", 2.0)


def test_flop_rate_takes_the_faster_unit() -> None:
    assert ROUND.flop_rate("float64") == ROUND.flop_rate("complex128") == 60e12
    assert replace(ROUND, tensor={}).flop_rate("float64") == 30e12
    assert replace(ROUND, tensor={}).flop_rate("complex64") == 60e12


# --- Occupancy and Little's law -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks"),
    [
        (256, 64, 0, 4),  # 65536 / (64 * 256)
        (256, 65, 0, 3),  # registers come in units of 8 per thread: 72
        (256, 32, 0, 8),  # 2048 threads
        (1024, 32, 0, 2),
        (1024, 64, 0, 1),
        (128, 255, 0, 2),
        (32, 16, 0, 32),  # no more blocks than 32
        (256, 32, 100 * 1024, 2),  # 228 KiB of shared memory, 1 KiB of it per block for the system
        (256, 32, 227 * 1024, 1),
        (256, 32, 228 * 1024, 0),
        (100, 64, 0, 8),  # 100 threads are four warps
    ],
)
def test_occupancy(threads: int, registers: int, shared: int, blocks: int) -> None:
    assert occupancy.blocks_per_multiprocessor(H200, threads, registers, shared) == blocks


def test_littles_law() -> None:
    # 4.4 TB/s for 600 ns over 132 multiprocessors: 20 000 bytes each must be under way
    assert occupancy.little_efficiency(20_000, 4.4e12, 600e-9, 132) == pytest.approx(1.0)
    assert occupancy.little_efficiency(5_000, 4.4e12, 600e-9, 132) == pytest.approx(0.25)
    assert occupancy.little_efficiency(10**6, 4.4e12, 600e-9, 132) == 1.0


# --- The stored machine ---------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def forget_machines() -> Iterator[None]:
    """Stored ceilings are read once per folder; tests change folders."""
    machine._load.cache_clear()
    yield
    machine._load.cache_clear()


def test_machine_survives_storing(own_cache: Path) -> None:
    curve = ((1 << 20, 9e12), (1 << 26, 4e12))
    measured = replace(ROUND, origin="measured 2026-01-01", cache_bandwidth=curve, details={"driver": "13.0"})
    assert machine.known(H200).origin.startswith("nominal")
    path = machine.save(measured, H200)
    assert path.is_relative_to(own_cache)
    assert machine.known(H200) == measured
    assert machine.known(replace(H200, multiprocessors=114)).origin.startswith("nominal"), "another device"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"device": "x"}', '{"cache_bandwidth": 3}', "\x00\xff"])
def test_damaged_store_is_ignored(own_cache: Path, text: str) -> None:
    path = machine.store_path(H200)
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("latin1"))
    assert machine.known(H200).origin.startswith("nominal")
    machine.save(ROUND, H200)
    assert machine.known(H200) == ROUND


# --- Commands -------------------------------------------------------------------------------------------------


def command(module: ModuleType, *arguments: str) -> int:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return int(module.run(parser.parse_args(arguments)))


def test_info_json(own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(info, "--no-measure", "--json", "--device", "cpu") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["libraries"]["NumPy"] == np.__version__
    assert facts["cache"] == {"folder": str(own_cache), "writable": True}
    assert all(one["origin"].startswith("nominal") for one in facts["machines"])


def test_info_shows_stored_ceilings(own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if cpu.unavailable():
        pytest.skip("needs a compiler")
    details: dict[str, Any] = {"probes": {"read": {"4 streams": {"value": 4e12, "spread": 0.01}}}, "stolen": 0.4}
    stored = replace(ROUND, origin="measured 2026-01-01", details=details, cache_bandwidth=((1 << 20, 9e12),))
    machine.save(stored, cpu.backend().device)
    assert command(info, "--device", "cpu", "--full") == 0
    text = capsys.readouterr().out
    for expected in ("measured 2026-01-01", "4 TB/s", "30 TFLOP/s", "4 streams", "1 MiB 9 TB/s", "40 % of the time"):
        assert expected in text


def test_info_without_gpu_says_so(own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if cuda.unavailable() is None:
        pytest.skip("there is a GPU")
    assert main(["info", "--device", "cuda", "--no-measure"]) == 1
    assert "mansard: error: no NVIDIA driver" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--m 16 --k 1000000 --arch sm_90a", ("NVIDIA H200", "VARIANT=", "256 MB in", "limit")),
        ("--m 3 --n 7 --k 1e5 --dtype complex64 --arch sm_80 --layout col", ("M=3 N=7", "layout_a=col", "A100")),
        ("--m 64 --k 1e5 --same --dtype complex128 --arch sm_90a", ("same=True", "102.4 MB in")),
        ("--m 4 --k 1e4 --device cpu", ("(cpu)", "VARIANT=simd")),
        ("--m 4 --k 1e4 --device emulated", ("emulated sm_90", "launch")),
        ("--m 400 --k 1e4 --arch sm_90a", ("the array library's own routine", "because  rule: ")),
        ("--m 4 --k 0 --arch sm_90a", ("nothing to multiply",)),
    ],
)
def test_explain(arguments: str, expected: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert command(explain_command, "gram", *arguments.split()) == 0
    text = capsys.readouterr().out
    for part in expected:
        assert part in text
    if nvrtc.available() is None and "VARIANT=" in text and "(cuda)" in text:
        assert "registers" in text


def test_explain_shows_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(explain_command, "gram", "--m", "4", "--k", "100", "--arch", "sm_90a", "--source") == 0
    assert "struct Params" in capsys.readouterr().out


def test_explain_refuses_nonsense(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "gram", "--m", "4", "--n", "5", "--k", "10", "--same"]) == 2
    with pytest.raises(SystemExit):
        command(explain_command, "gram", "--m", "-4", "--k", "10")


def test_a_plan_without_arrays_does_not_run() -> None:
    problem = gram.spec.problem("float64", 4, 4, 100)
    plan = explain.plan_without_arrays(problem, explain_command.backend_of("sm_90a", None))
    with pytest.raises(MansardError, match="without arrays"):
        plan(np.zeros((100, 4)), np.zeros((100, 4)))


def test_nominal_devices_describe_gpus() -> None:
    assert all(isinstance(device, Device) and device.capability >= 80 for device in explain.NOMINAL.values())
