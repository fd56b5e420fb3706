"""Polynomials on the reference zone [0, 1]^dim: bases, quadrature, and tables of values and derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import comb

import numpy as np
from numpy.polynomial import legendre


def gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of Gauss and Legendre's rule on [0, 1]."""
    points, weights = legendre.leggauss(count)
    return (points + 1) / 2, weights / 2


def gauss_lobatto(count: int) -> np.ndarray:
    """The end points of [0, 1] and the zeros between them of the derivative of P_{count - 1}."""
    slope = legendre.legder([0.0] * (count - 1) + [1.0])
    inner = np.sort(legendre.legroots(slope).real) if count > 2 else np.zeros(0)
    for _ in range(3):  # Newton's steps: eigenvalues of a companion matrix are not exact to the last digit
        inner = inner - legendre.legval(inner, slope) / legendre.legval(inner, legendre.legder(slope))
    inner = (inner - inner[::-1]) / 2
    return (np.concatenate(([-1.0], inner, [1.0])) + 1) / 2


def lagrange(nodes: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and derivatives of the polynomials that are one at one node: (points, nodes) each."""
    values, slopes = np.empty((2, len(points), len(nodes)))
    for i, node in enumerate(nodes):
        others = np.delete(nodes, i)
        scale = np.prod(node - others)
        apart = points[:, None] - others
        values[:, i] = np.prod(apart, axis=1) / scale
        slopes[:, i] = sum(np.prod(np.delete(apart, j, axis=1), axis=1) for j in range(len(others))) / scale
    return values, slopes


def bernstein(degree: int, points: np.ndarray) -> np.ndarray:
    """Values of Bernstein's polynomials: (points, degree + 1). They are positive and sum to one."""
    i, t = np.arange(degree + 1), points[:, None]
    return np.array([comb(degree, k) for k in i]) * t**i * (1 - t) ** (degree - i)


def tensor(factors: list[np.ndarray]) -> np.ndarray:
    """Table of a tensor product; the first factor belongs to x, the fastest index."""
    return reduce(lambda table, factor: np.kron(factor, table), factors)


@dataclass(frozen=True)
class Tables:
    """One rule of quadrature and two spaces on it. Points are rows, functions are columns."""

    weights: np.ndarray  # (points,), they sum to one
    kinematic: np.ndarray  # (points, nodes of a zone): values of Q_k
    gradients: np.ndarray  # (points dim, nodes): derivatives of Q_k, those of one point together
    thermal: np.ndarray  # (points, functions): values of Q_m
    to_points: np.ndarray  # (functions, nodes): Q_k at the points where initial energies and densities are taken
    to_bernstein: np.ndarray  # (functions, functions): from values at these points to coefficients
    centre: np.ndarray  # (nodes,): Q_k at the centre of the zone


def build(dim: int, order: int) -> Tables:
    """Q_k and Q_{k-1}, k = `order`, with Gauss points enough for the products of the method."""
    degree = order - 1
    points, weights = gauss((3 * order + degree - 1) // 2 + 1)
    lobatto, legendre_points = gauss_lobatto(order + 1), gauss(degree + 1)[0]
    values, slopes = lagrange(lobatto, points)
    along = [tensor([slopes if a == b else values for a in range(dim)]) for b in range(dim)]
    return Tables(
        weights=tensor([weights[:, None]] * dim)[:, 0],
        kinematic=tensor([values] * dim),
        gradients=np.stack(along, axis=1).reshape(-1, (order + 1) ** dim),
        thermal=tensor([bernstein(degree, points)] * dim),
        to_points=tensor([lagrange(lobatto, legendre_points)[0]] * dim),
        to_bernstein=np.linalg.inv(tensor([bernstein(degree, legendre_points)] * dim)),
        centre=tensor([lagrange(lobatto, np.array([0.5]))[0]] * dim)[0],
    )
