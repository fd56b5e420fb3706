"""Checkpoints and pictures."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from .start import Flow, State
from .steps import Progress

_FIELDS = ("x", "v", "e")


def save(path: Path, progress: Progress, flow: Flow, settings: str) -> None:
    """A checkpoint, in one step: whoever is interrupted has the one before or this one."""
    beside = path.with_name(path.name + ".part")
    arrays = {name: flow.arrays.numpy(one) for name, one in zip(_FIELDS, progress.state, strict=True)}
    with beside.open("wb") as file:
        np.savez(file, time=progress.time, step=progress.step, dt=progress.dt, settings=settings, **arrays)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def load(path: Path, flow: Flow, settings: str) -> Progress:
    """The progress of a checkpoint that was written with the same settings."""
    try:
        with np.load(path, allow_pickle=False) as held:
            found = {name: held[name] for name in (*_FIELDS, "time", "step", "dt", "settings")}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is no whole checkpoint of this program: {error}") from None
    if str(found["settings"]) != settings:
        raise ValueError(f"{path} is of another run ({found['settings']}); this one is {settings}")
    for name, one in zip(_FIELDS, flow.state, strict=True):
        if (
            found[name].shape != tuple(one.shape)
            or found[name].dtype != np.float64
            or not np.isfinite(found[name]).all()
        ):
            raise ValueError(f"{path}: {name} is not {tuple(one.shape)} finite numbers")
    state = State(*(flow.arrays.array(found[name]) for name in _FIELDS))
    return Progress(state, float(found["time"]), int(found["step"]), float(found["dt"]))


def density(flow: Flow, state: State, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions (zones, samples, dim) and densities (zones, samples) at points (samples, dim) of the reference zone."""
    from . import tables as spaces

    dim, order = flow.dim, flow.order
    lobatto = spaces.gauss_lobatto(order + 1)
    tables = [spaces.lagrange(lobatto, points[:, axis]) for axis in range(dim)]

    def together(slope: int) -> np.ndarray:  # values, or derivatives along one axis
        out = np.ones((len(points), 1))
        for axis, (values, slopes) in enumerate(tables):
            out = np.einsum("pi,pj->pij", slopes if axis == slope else values, out).reshape(len(points), -1)
        return out

    now, start = (one[flow.mesh.zones] for one in (flow.arrays.numpy(state.x), flow.mesh.nodes))
    volumes = [
        np.linalg.det(np.stack([together(axis) @ nodes for axis in range(dim)], axis=-1)) for nodes in (start, now)
    ]
    return together(-1) @ now, flow.problem.density(together(-1) @ start) * volumes[0] / volumes[1]


def plot(path: Path, flow: Flow, progress: Progress, samples: int = 9) -> None:
    """Density and mesh; of three dimensions the face z = 0, of one a curve."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    t = np.linspace(0, 1, samples)
    figure, axes = plt.subplots(figsize=(7, 6), layout="constrained")
    title = f"{flow.problem.name}, Q{flow.order}-Q{flow.order - 1}, t = {progress.time:.3g}, {progress.step} steps"
    if flow.dim == 1:
        x, rho = density(flow, progress.state, t[:, None])
        axes.plot(x[..., 0].T, rho.T, color="tab:blue", linewidth=1.2)
        axes.set(xlabel="x", ylabel="density", title=title)
    else:
        X, Y = np.meshgrid(t, t)
        points = np.stack([X.ravel(), Y.ravel()] + [np.zeros(X.size)] * (flow.dim - 2), axis=1)
        x, rho = density(flow, progress.state, points)
        shown = np.arange(len(x)) if flow.dim == 2 else np.flatnonzero(_at_bottom(flow))
        _draw_zones(axes, x[shown], rho[shown], samples)
        axes.set(xlabel="x", ylabel="y", aspect="equal", title=title)
        figure.colorbar(axes.collections[0], ax=axes, label="density", shrink=0.8)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _at_bottom(flow: Flow) -> np.ndarray:
    counts = flow.mesh.counts
    return np.arange(int(np.prod(counts))) < counts[0] * counts[1]


def _draw_zones(axes: Any, x: np.ndarray, rho: np.ndarray, samples: int) -> None:
    low, high = float(rho.min()), float(rho.max())
    if high - low < 1e-12:
        low, high = low - 0.5, high + 0.5
    edge = np.arange(samples)
    border = np.concatenate(
        [edge, edge * samples + samples - 1, (samples - 1) * samples + edge[::-1], edge[::-1] * samples]
    )
    for zone, values in zip(x, rho, strict=True):
        X, Y = (zone[:, axis].reshape(samples, samples) for axis in (0, 1))
        axes.pcolormesh(X, Y, values.reshape(samples, samples), shading="gouraud", cmap="viridis", vmin=low, vmax=high)
        axes.plot(zone[border, 0], zone[border, 1], color="white", linewidth=0.35, alpha=0.8)
