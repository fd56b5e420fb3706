"""Checkpoints and pictures."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from .start import Flow, State
from .steps import Progress

_FIELDS = ("x", "v", "e")
_CONTENT = (*_FIELDS, "time", "step", "dt", "settings")


def save(path: Path, progress: Progress, flow: Flow, settings: str) -> None:
    """A checkpoint, in one step: whoever is interrupted has the one before or this one."""
    beside = path.with_name(path.name + ".part")
    found: dict[str, Any] = {name: flow.arrays.numpy(one) for name, one in zip(_FIELDS, progress.state, strict=True)}
    found |= {"time": progress.time, "step": progress.step, "dt": progress.dt, "settings": settings}
    with beside.open("wb") as file:
        np.savez(file, **found, digest=_digest(found))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _digest(found: dict[str, Any]) -> str:
    """SHA-256 of all that a checkpoint holds: NumPy does not look at the sums of the archive."""
    total = hashlib.sha256()
    for name in _CONTENT:
        one = np.asarray(found[name])
        total.update(f"{name} {one.dtype} {one.shape}".encode() + np.ascontiguousarray(one).tobytes())
    return total.hexdigest()


def load(path: Path, flow: Flow, settings: str) -> Progress:
    """The progress of a checkpoint that was written with the same settings."""
    try:
        with np.load(path, allow_pickle=False) as held:
            found = {name: held[name] for name in (*_CONTENT, "digest")}
            if str(found["digest"]) != _digest(found):
                raise ValueError("its content is not what was written")
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
    progress = Progress(state, float(found["time"]), int(found["step"]), float(found["dt"]))
    if not (0 <= progress.time < float("inf") and 0 < progress.dt < float("inf") and progress.step >= 0):
        raise ValueError(f"{path}: time {progress.time}, step {progress.step} and dt {progress.dt} are of no run")
    return progress


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
    wide, high = ([*np.ptp(flow.mesh.nodes, axis=0), 1.0])[:2]
    size = (6.2, 5.0) if flow.dim == 1 else (1.8 + 6 * min(1, wide / high), 0.9 + 6 * min(1, high / wide))
    figure, axes = plt.subplots(figsize=size, layout="constrained")
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
