"""Test problems: initial density, velocity and energy as functions of the position, and what drives the flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log, pi

import numpy as np

from .mesh import UNIT

Field = Callable[[np.ndarray], np.ndarray]  # (..., dim) positions -> (...) values, or (..., dim) of a velocity


def _constant(value: float) -> Field:
    return lambda x: np.full(x.shape[:-1], value)


def _at_rest(x: np.ndarray) -> np.ndarray:
    return np.zeros_like(x)


_PLANE = {2: "square", 3: "cube"}  # meshes of problems that have a y
_ONE, _AIR, _MONATOMIC = _constant(1.0), _constant(1.4), _constant(5 / 3)


@dataclass(frozen=True)
class Problem:
    """A flow: its fields at the start and the terms of its equations."""

    name: str
    energy: Field  # specific internal energy
    density: Field = _ONE
    velocity: Field = _at_rest
    gamma: Field = _AIR  # ratio of specific heats; that of a zone is taken at its centre
    viscous: bool = True  # artificial viscosity, which shocks need
    damps_vortices: bool = True  # where the flow turns without being compressed, too
    blast: bool = False  # all energy is in the corner at the origin
    gravity: bool = False  # (0, -1)
    heated: bool = False  # by the source that keeps Taylor and Green's vortex steady, in two dimensions
    mesh: dict[int, str] | None = None  # by dimension, if not the unit square or cube
    final_time: float = 0.6

    def mesh_name(self, dim: int) -> str:
        """The mesh that the problem is usually run on."""
        name = (self.mesh or UNIT).get(dim)
        if name is None:
            raise ValueError(
                f"--dim {dim}: {self.name} is a problem in {' or '.join(map(str, self.mesh or UNIT))} dimensions"
            )
        return name


def _from_pressure(pressure: Field, density: Field, gamma: Field) -> Field:
    """Ideal gas: e = p / ((gamma - 1) rho)."""
    return lambda x: pressure(x) / density(x) / (gamma(x) - 1)


# ---- Taylor and Green's vortex ----------------------------------------------------------------------------


def _vortex(x: np.ndarray) -> np.ndarray:
    v = np.zeros_like(x)
    v[..., 0] = np.sin(pi * x[..., 0]) * np.cos(pi * x[..., 1])
    v[..., 1] = -np.cos(pi * x[..., 0]) * np.sin(pi * x[..., 1])
    return v if x.shape[-1] < 3 else v * np.cos(pi * x[..., 2:])


def _vortex_energy(x: np.ndarray) -> np.ndarray:
    waves = np.cos(2 * pi * x[..., 0]) + np.cos(2 * pi * x[..., 1])
    if x.shape[-1] == 2:
        return (1 + waves / 4) / (2 / 3)
    return (100 + ((np.cos(2 * pi * x[..., 2]) + 2) * waves - 2) / 16) / (2 / 3)


# ---- shock tubes, triple point, Riemann problems ----------------------------------------------------------


def _left(x: np.ndarray) -> np.ndarray:
    return np.where(x[..., 0] < 0.5, 1.0, 0.1)


def _triple_density(x: np.ndarray) -> np.ndarray:
    light = x[..., 1] > 1.5
    if x.shape[-1] == 3:
        light = (light & (x[..., 2] > 1.5)) | ((x[..., 1] < 1.5) & (x[..., 2] < 1.5))
    return np.where((x[..., 0] > 1) & light, 0.125, 1.0)


def _triple_pressure(x: np.ndarray) -> np.ndarray:
    return np.where(x[..., 0] > 1, 0.1, 1.0)


def _triple_gamma(x: np.ndarray) -> np.ndarray:
    return np.where((x[..., 0] > 1) & (x[..., 1] <= 1.5), 1.4, 1.5)


def _quadrants(right_top: float, left_top: float, left_bottom: float, right_bottom: float) -> Field:
    def values(x: np.ndarray) -> np.ndarray:
        right, top = x[..., 0] >= 0.5, x[..., 1] >= 0.5
        return np.where(top, np.where(right, right_top, left_top), np.where(right, right_bottom, left_bottom))

    return values


def _inside_walls(first: Field, second: Field) -> Field:
    """A velocity that vanishes at the walls of the unit square."""

    def velocity(x: np.ndarray) -> np.ndarray:
        v, X, Y = np.zeros_like(x), x[..., 0], x[..., 1]
        fade = np.maximum(16 * X * (1 - X) * Y * (1 - Y), 0) ** 0.4
        v[..., 0], v[..., 1] = first(x) * fade, second(x) * fade
        return v

    return velocity


# ---- Gresho's vortex, Rayleigh and Taylor's instability ---------------------------------------------------


def _gresho(x: np.ndarray) -> np.ndarray:
    r, v = np.hypot(x[..., 0], x[..., 1]), np.zeros_like(x)
    turn = np.where(r < 0.2, 5.0, np.where(r < 0.4, 2 / np.maximum(r, 0.1) - 5, 0.0))
    v[..., 0], v[..., 1] = turn * x[..., 1], -turn * x[..., 0]
    return v


def _gresho_pressure(x: np.ndarray) -> np.ndarray:
    r2 = x[..., 0] ** 2 + x[..., 1] ** 2
    r = np.sqrt(r2)
    between = 9 - 4 * log(0.2) + 12.5 * r2 - 20 * r + 4 * np.log(np.maximum(r, 0.1))
    return np.where(r < 0.2, 5 + 12.5 * r2, np.where(r < 0.4, between, 3 + 4 * log(2)))


def _ripple(x: np.ndarray) -> np.ndarray:
    v = np.zeros_like(x)
    v[..., 1] = 0.02 * np.exp(-2 * pi * x[..., 1] ** 2) * np.cos(2 * pi * x[..., 0])
    return v


def _heavy_above(x: np.ndarray) -> np.ndarray:
    return np.where(x[..., 1] >= 0, 2.0, 1.0)


_TWELVE = _quadrants(0.5313, 1.0, 0.8, 1.0)
_SIX = _quadrants(1.0, 2.0, 1.0, 3.0)

PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("taylor-green", _vortex_energy, velocity=_vortex, gamma=_MONATOMIC, viscous=False, heated=True,
                mesh=_PLANE, final_time=0.75),
        Problem("sedov", _constant(0.0), blast=True, final_time=0.8),
        Problem("sod", _from_pressure(_left, _left, _AIR), _left, final_time=0.2),
        Problem("triple-point", _from_pressure(_triple_pressure, _triple_density, _triple_gamma),
                _triple_density, gamma=_triple_gamma, mesh={2: "rectangle", 3: "box"}, final_time=3.0),
        Problem("gresho", _from_pressure(_gresho_pressure, _ONE, _MONATOMIC), velocity=_gresho,
                gamma=_MONATOMIC, viscous=False, mesh={2: "vortex", 3: "vortex-3d"}, final_time=0.62831853),
        Problem("riemann-12", _from_pressure(_quadrants(0.4, 1.0, 1.0, 1.0), _TWELVE, _AIR), _TWELVE,
                _inside_walls(_quadrants(0, 0.7276, 0, 0), _quadrants(0, 0, 0, 0.7276)), mesh=_PLANE),
        Problem("riemann-6", _from_pressure(_ONE, _SIX, _AIR), _SIX,
                _inside_walls(_quadrants(0.75, 0.75, -0.75, -0.75), _quadrants(-0.5, 0.5, 0.5, -0.5)), mesh=_PLANE),
        Problem("rayleigh-taylor", _from_pressure(lambda x: 6 - _heavy_above(x) * x[..., 1], _heavy_above, _MONATOMIC),
                _heavy_above, _ripple, _MONATOMIC, damps_vortices=False, gravity=True,
                mesh={2: "column", 3: "column-3d"}, final_time=4.0),
    )
}  # fmt: skip
