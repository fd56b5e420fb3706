"""The experiments of TSM2X (Rivera et al.): its four steps (figure 6), small and rectangular
operands (4 and 12), and its model's choice against a grid."""

from __future__ import annotations

from itertools import product
from typing import Any

from mansard.bench.cases import Case, Size, gpu_only
from mansard.bench.tall_skinny.skinny_cases import DTYPES, sides, square
from mansard.kernels.tall_skinny.tsm2r import spec, work
from mansard.kernels.tall_skinny.tsm2r.space import Steps, illegal
from mansard.machine import machine
from mansard.machine.tsm2 import Parameters, Shape, Tsm2Model
from mansard.machine.tsm2_search import optimise
from mansard.plan.explain import NOMINAL

_STEPS = ("inner", "outer", "shared", "prefetch")
_T1, _T3 = (64, 128, 256), (2, 4, 8, 16, 32)
_SPLITS = (1, 2, 4, 8, 16)
_SIDE, _INNER, _PARTS = 15360, (16, 32, 64, 128, 256, 1024, 4096, 15360), (1, 2, 4, 8, 16)


@gpu_only
def steps(size: Size) -> list[Case]:
    """TSM2's figure 6: inner product, outer product, shared memory, prefetch; beside them tensor cores and cuBLAS."""
    cases = []
    for dtype in DTYPES:
        for side, n, step in product(sides(size, dtype, (10240, 20480)), (2, 4, 8, 16), (*_STEPS, "tensor")):
            pins: dict[str, Any] = {"VARIANT": "tensor"}
            if step in _STEPS:
                t2, t3 = {"inner": (1, 1), "outer": (n, 1)}.get(step, (min(n, 8), 4))
                pins = {"VARIANT": "steps", "STEP": step, "T1": 128, "T2": t2, "T3": t3}
            options = {"pins": tuple(pins.items()), "peers": step == "tensor"}  # what others are compared with
            cases.append(square("steps", dtype, side, n, "col", **options))
    return cases


@gpu_only
def smallk(size: Size) -> list[Case]:
    """TSM2X's figure 4: the step with prefetching as the inner dimension becomes very small, m = 15360 and n = 16."""
    pins = tuple({"VARIANT": "steps", "STEP": "prefetch", "T1": 128, "T2": 8, "T3": 4}.items())
    (rows,) = sides(size, "float64", (_SIDE,))
    return [Case("smallk", "float64", rows, 16, k, "col", operation="tsm2r", pins=pins, peers=False)
            for k in _INNER if k <= rows]  # fmt: skip


@gpu_only
def rectangles(size: Size) -> list[Case]:
    """TSM2X's figure 12: rectangular A, m = 15360 and k = m to m / 16, n = 16, beside cuBLAS."""
    (rows,) = sides(size, "float64", (_SIDE,))
    return [Case("rectangles", "float64", rows, 16, rows // part, "col", operation="tsm2r") for part in _PARTS]


@gpu_only
def tsm2model(size: Size) -> list[Case]:
    """How good TSM2's model is: its choice of t1, t2, t3 and split against all of a grid, kernel `prefetch`.

    A is read once, twice or four times; more is out of the question. The grid has the choice's split; other splits are
    tried with the choice's t1, t2 and t3. Each is compiled for as many blocks per multiprocessor as the model plans
    with: a compiler that is not told takes twice the registers, and there are two waves where one was planned.
    """
    device = size.device if size.device and size.device.capability else NOMINAL["sm_90a"]
    model = Tsm2Model(device, machine.known(device), setup_registers=work.STEPS_REGISTERS)
    cases = []
    for dtype in DTYPES:
        for side, n in product(sides(size, dtype, (10240, 20480, 30720)), (2, 4, 8, 16)):
            first = choice(model, dtype, side, n)
            grid = [first, *((*first[:3], split) for split in _SPLITS)]
            grid += [(*each, first[3]) for each in product(_T1, sorted({n, n // 2, max(1, n // 4)}), _T3)]
            for number, parameters in enumerate(dict.fromkeys(grid)):
                pins = _pins(model, Shape(side, side, n, dtype), parameters)
                options = {"pins": pins, "peers": False, "role": "" if number else "model"}
                cases.append(square("tsm2model", dtype, side, n, "col", **options))
    return cases


def choice(model: Tsm2Model, dtype: str, side: int, n: int) -> tuple[int, int, int, int]:
    """The model's t1, t2, t3 and split; t3 is one that divides t1, and rounded down where the kernel's own estimate of
    its registers, another than the model's, forbids it."""
    shape = Shape(side, side, n, dtype)
    best = optimise(model, shape, ladder=_T3).parameters
    for t3 in range(best.t3, 0, -1):
        found = (best.t1, best.t2, t3, best.split)
        if _is_legal(model, shape, found, planned(model, shape, found)):
            return found
    return best.t1, best.t2, best.t3, best.split  # its case will say why not


def planned(model: Tsm2Model, shape: Shape, parameters: tuple[int, int, int, int]) -> int:
    """Blocks per multiprocessor to compile for: those that the model plans with, or the most that are legal."""
    t1, t2, t3, split = parameters
    plan = model.planned(shape, Parameters(t1, t2, t3, split=split))
    return next((count for count in range(plan, 1, -1) if _is_legal(model, shape, parameters, count)), 1)


def _is_legal(model: Tsm2Model, shape: Shape, parameters: tuple[int, int, int, int], blocks: int) -> bool:
    problem = spec.problem(shape.dtype, shape.m, shape.n, shape.k, layout_a="col")
    return illegal(problem, Steps("prefetch", *parameters, blocks), model.device) is None


def _pins(model: Tsm2Model, shape: Shape, parameters: tuple[int, int, int, int]) -> tuple[tuple[str, Any], ...]:
    t1, t2, t3, split = parameters
    chosen = {"VARIANT": "steps", "STEP": "prefetch", "T1": t1, "T2": t2, "T3": t3, "SPLIT": split}
    return tuple({**chosen, "BLOCKS_PER_SM": planned(model, shape, parameters)}.items())
