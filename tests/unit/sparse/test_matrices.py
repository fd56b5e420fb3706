"""Generated matrices: entries by formula, against definitions written out in loops, symmetries, devices."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from mansard.sparse import matrices
from mansard.testing import array_module


def dense_grid(shape: tuple[int, ...], entry: Any, periodic: bool = False) -> Any:
    """A matrix by its definition: entry(place, step) for every pair of points."""
    places = [place[::-1] for place in product(*(range(extent) for extent in reversed(shape)))]
    A = np.zeros((len(places), len(places)))
    for (i, here), (j, there) in product(enumerate(places), enumerate(places)):
        step = tuple(b - a for a, b in zip(here, there, strict=True))
        if periodic:
            step = tuple((s + n // 2) % n - n // 2 if n > 2 else s for s, n in zip(step, shape, strict=True))
        A[i, j] = entry(here, step)
    return A


SMALL = {
    "band": lambda **k: matrices.band(40, 7, **k),
    "5pt": lambda **k: matrices.stencil(5, (6, 7), **k),
    "7pt": lambda **k: matrices.stencil(7, (4, 5, 6), **k),
    "9pt": lambda **k: matrices.stencil(9, (6, 7), **k),
    "27pt": lambda **k: matrices.stencil(27, (4, 5, 6), **k),
    "27pt periodic": lambda **k: matrices.stencil(27, (3, 4, 5), periodic=True, **k),
    "125pt": lambda **k: matrices.stencil(125, (6, 4, 5), **k),
    "125pt periodic": lambda **k: matrices.stencil(125, (5, 6, 5), periodic=True, **k),
    "elasticity": lambda **k: matrices.elasticity((4, 3, 5), **k),
    "convection": lambda **k: matrices.convection_diffusion((4, 5, 3), **k),
    "graphene": lambda **k: matrices.graphene(7, 8, disorder=0.5, **k),
    "anderson": lambda **k: matrices.anderson((4, 5, 6), **k),
    "anderson periodic": lambda **k: matrices.anderson((4, 3, 5), periodic=True, **k),
    "insulator": lambda **k: matrices.topological_insulator((3, 4, 2), mass=2.0, disorder=0.3, **k),
    "spins": lambda **k: matrices.spin_chain(9, 4, **k),
    "channel": lambda **k: matrices.channel((5, 4, 3), **k),
    "delaunay": lambda **k: matrices.delaunay(200, **k),
    "kronecker": lambda **k: matrices.kronecker(7, **k),
    "roads": lambda **k: matrices.roads(9, **k),
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_form(name: str, dtype: str) -> None:
    A = SMALL[name](dtype=dtype)
    assert A.dtype == dtype and A.indices.dtype == A.indptr.dtype == np.int32 and A.shape[0] == A.shape[1]
    again = sparse.csr_array((A.data, A.indices, A.indptr), shape=A.shape)
    again.has_canonical_format = False
    again.check_format(full_check=True)
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    keys = rows.astype(np.int64) * A.shape[1] + A.indices
    assert (np.diff(keys) > 0).all()  # ascending, each once
    if name != "convection":
        assert abs(A - A.conj().T).max() == 0


@pytest.mark.gpu
@pytest.mark.parametrize("name", SMALL)
def test_the_same_on_a_gpu(name: str) -> None:
    from conftest import usable

    cupy = array_module(usable("cuda"))
    here, there = SMALL[name](), SMALL[name](xp=cupy).get()
    for part in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(here, part), getattr(there, part))


# --- Entries -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (1, 7), (3, 7), (20, 1), (20, 7), (30, 27)])
def test_band(rows: int, width: int) -> None:
    A = matrices.band(rows, width)
    i, j = np.indices((rows, rows))
    inside = abs(i - j) <= width // 2
    assert np.array_equal(A.toarray(), np.where(inside, np.where(i == j, width - 1.0, -1.0), 0.0))
    assert A.nnz == matrices.band_entries(rows, width) == inside.sum()


@pytest.mark.parametrize(
    ("points", "shape"),
    [
        (3, (7,)),
        (5, (4, 5)),
        (9, (5, 3)),
        (7, (3, 4, 5)),
        (27, (4, 3, 2)),
        (27, (1, 3, 2)),
        (125, (5, 2, 3)),
        (125, (1, 7, 1)),
    ],
)
def test_stencil(points: int, shape: tuple[int, ...]) -> None:
    box, reach = points in (9, 27, 125), 2 if points == 125 else 1

    def entry(_: Any, step: tuple[int, ...]) -> float:
        near = max(map(abs, step)) <= reach if box else sum(map(abs, step)) <= 1
        return (-1.0 if any(step) else points - 1.0) if near else 0.0

    A = matrices.stencil(points, shape)
    assert np.array_equal(A.toarray(), dense_grid(shape, entry))
    assert A.nnz == matrices.stencil_entries(points, shape)


def test_periodic_stencil() -> None:
    A = matrices.stencil(7, (3, 4, 5), periodic=True)
    expected = dense_grid((3, 4, 5), lambda _, step: [6.0, -1.0, 0.0][min(2, sum(map(abs, step)))], periodic=True)
    assert np.array_equal(A.toarray(), expected)
    assert A.nnz == 7 * 60


def test_periodic_stencil_of_two_steps() -> None:
    A = matrices.stencil(125, (5, 6, 7), periodic=True)
    assert (np.diff(A.indptr) == 125).all() and (A.diagonal() == 124).all() and abs(A.sum(axis=1)).max() == 0


def element_stiffness(poisson: float) -> Any:
    """Stiffness of a unit cube of eight nodes, x fastest: B^T D B at two Gauss points per axis."""
    D = np.zeros((6, 6))
    D[:3, :3] = poisson / ((1 + poisson) * (1 - 2 * poisson))
    D[np.diag_indices(6)] += np.repeat([1 / (1 + poisson), 0.5 / (1 + poisson)], 3)
    K = np.zeros((24, 24))
    for point in product((0.5 - 12**-0.5, 0.5 + 12**-0.5), repeat=3):
        B = np.zeros((6, 24))
        for node, corner in enumerate(product((0, 1), repeat=3)):
            along = [t if c else 1 - t for c, t in zip(corner[::-1], point, strict=True)]
            x, y, z = (
                (1 if corner[::-1][axis] else -1) * np.prod([along[other] for other in range(3) if other != axis])
                for axis in range(3)
            )
            B[:, 3 * node : 3 * node + 3] = [[x, 0, 0], [0, y, 0], [0, 0, z], [y, x, 0], [0, z, y], [z, 0, x]]
        K += B.T @ D @ B / 8
    return K


@pytest.mark.parametrize(("shape", "poisson"), [((2, 2, 2), 0.3), ((2, 4, 3), 0.25), ((3, 3, 3), -0.5)])
def test_elasticity_is_assembled_from_its_elements(shape: tuple[int, ...], poisson: float) -> None:
    nodes = np.arange(np.prod(shape)).reshape(shape[::-1])
    expected, K = np.zeros((3 * nodes.size, 3 * nodes.size)), element_stiffness(poisson)
    for z, y, x in product(*(range(extent - 1) for extent in reversed(shape))):
        own = (3 * nodes[z : z + 2, y : y + 2, x : x + 2].ravel()[:, None] + np.arange(3)).ravel()
        expected[np.ix_(own, own)] += K
    A = matrices.elasticity(shape, poisson=poisson)
    assert abs(A.toarray() - expected).max() <= 1e-15 * 24 * abs(expected).max()
    assert A.nnz == matrices.elasticity_entries(shape)


def test_elasticity_has_six_rigid_modes() -> None:
    """81 entries in a row inside, symmetric, and zero for translations and rotations alone."""
    shape = (4, 3, 5)
    A = matrices.elasticity(shape)
    assert np.diff(A.indptr).max() == 81 and abs(A - A.T).max() == 0
    z, y, x = (axis.ravel().astype(float) for axis in np.indices(shape[::-1]))
    none, one = np.zeros_like(x), np.ones_like(x)
    moves = [(one, none, none), (none, one, none), (none, none, one), (-y, x, none), (none, -z, y), (z, none, -x)]
    modes = np.array([np.stack(move, axis=1).ravel() for move in moves]).T
    values = np.linalg.eigvalsh(A.toarray())
    assert abs(A @ modes).max() <= 81 * 1e-16 * abs(A).max() * abs(modes).max()
    assert abs(values[:6]).max() <= 1e-13 * values[-1] and values[6] > 1e-3 * values[-1]


def test_hpcg() -> None:
    A, b, x = matrices.hpcg((4, 5, 6))
    assert A.nnz == 10 * 13 * 16
    assert np.array_equal(A @ x, b)
    assert b[0] == 26 - 7 and b.min() == 0.0


@pytest.mark.parametrize(("length", "width"), [(1, 1), (2, 3), (3, 2), (4, 4), (5, 7), (6, 5)])
def test_graphene(length: int, width: int) -> None:
    t1, t2, t3 = -1.0, -0.1 / 2.78, -0.095 / 2.78

    def entry(place: tuple[int, ...], step: tuple[int, ...]) -> float:
        odd = sum(place) & 1
        w, l = step
        if l == 0:
            return {0: 3 * t3, 1: t1, 2: t2}.get(abs(w), 0.0)
        if abs(l) > 1 or abs(w) > 2:
            return 0.0
        if abs(w) == 1:
            return t2
        towards = l == (1 if odd else -1)
        return (t1 if towards else t3) if w == 0 else (t3 if towards else 0.0)

    A = matrices.graphene(length, width)
    assert np.allclose(A.toarray(), dense_grid((width, length), entry), rtol=1e-15)
    assert A.nnz == matrices.graphene_entries(length, width)


def test_topological_insulator() -> None:
    A = matrices.topological_insulator((3, 4, 5))
    assert A.nnz == matrices.topological_insulator_entries((3, 4, 5)) == 16 * (2 * 20 + 3 * 15 + 4 * 12)
    real = matrices.topological_insulator((3, 4, 5), dtype=np.float64)
    assert np.array_equal(real.indices, A.indices) and np.array_equal(real.indptr, A.indptr)
    site = matrices.topological_insulator((1, 1, 1), mass=2.0)
    assert np.allclose(np.linalg.eigvalsh(site.toarray()), [-2, -2, 2, 2])
    for shape in ((2, 1, 1), (1, 2, 1), (1, 1, 2)):
        hop = matrices.topological_insulator(shape).toarray()[4:, :4]
        # matrices that anticommute: (G1 - i G)^2 = 0, and (G1 - i G)(G1 + i G) / 4 is a projector of rank two
        assert np.count_nonzero(hop) == 8 and np.allclose(hop @ hop, 0)
        projector = hop @ hop.conj().T
        assert np.allclose(projector @ projector, projector) and np.isclose(np.trace(projector), 2)


def test_anderson() -> None:
    A = matrices.anderson((5, 5, 5), disorder=4.0, hop=0.5, periodic=True, seed=7)
    assert A.nnz == 7 * 125
    diagonal = A.diagonal()
    assert abs(diagonal).max() <= 4.0 and diagonal.std() > 1.5 and len(np.unique(diagonal)) == 125
    assert np.array_equal(np.unique((A - sparse.diags_array(diagonal)).tocoo().data), [-0.5])
    assert matrices.anderson((5, 5, 5)).nnz == 7 * 125 - 6 * 25
    assert not np.array_equal(diagonal, matrices.anderson((5, 5, 5), disorder=4.0, seed=8).diagonal())


@pytest.mark.parametrize(("sites", "up"), [(1, 0), (2, 1), (4, 2), (5, 1), (6, 6)])
def test_spin_chain(sites: int, up: int) -> None:
    plus = np.array([[0.0, 1.0], [0.0, 0.0]])
    total = np.zeros((2**sites, 2**sites))

    def at(site: int, operator: Any) -> Any:
        return np.kron(np.kron(np.eye(2 ** (sites - site - 1)), operator), np.eye(2**site))

    z = np.diag([-0.5, 0.5])  # bit set: up
    for bond in range(sites - 1):
        flip = at(bond, plus.T) @ at(bond + 1, plus)
        total += 1.5 * (0.5 * (flip + flip.T) + 0.7 * at(bond, z) @ at(bond + 1, z))
    chosen = [state for state in range(2**sites) if state.bit_count() == up]
    A = matrices.spin_chain(sites, up, coupling=1.5, anisotropy=0.7)
    assert np.allclose(A.toarray(), total[np.ix_(chosen, chosen)], atol=1e-15)
    assert A.nnz == matrices.spin_chain_entries(sites, up)


def test_channel() -> None:
    A = matrices.channel((4, 3, 5))

    def entry(_: Any, step: tuple[int, ...]) -> float:
        return float(max(map(abs, step)) == 1 and sum(map(abs, step)) <= 2)

    assert np.array_equal(A.toarray(), dense_grid((4, 3, 5), entry))
    assert A.nnz == matrices.channel_entries((4, 3, 5))


def test_delaunay() -> None:
    A = matrices.delaunay(1000, seed=1)
    corners = (2 * (3 * 1000 - 3) - A.nnz) // 2  # Euler: 2 (3 n - 3 - h) entries for a hull of h points
    assert 8 <= corners <= 40
    assert sparse.csgraph.connected_components(A)[0] == 1 and A.diagonal().max() == 0


def test_kronecker_and_roads() -> None:
    A = matrices.kronecker(10, 8)
    lengths = np.diff(A.indptr)
    assert A.shape[0] == 1024 and A.nnz <= 2 * 8 * 1024 and A.diagonal().max() == 0
    assert lengths.max() > 8 * lengths.mean()
    roads = matrices.roads(60)
    assert sparse.csgraph.connected_components(roads)[0] == 1
    assert 2.2 < roads.nnz / roads.shape[0] < 2.3


def test_entries_of_published_matrices() -> None:
    assert matrices.band_entries(256**3, 7) == 117_440_500
    assert matrices.band_entries(4_194_304, 27) == 113_246_026
    assert matrices.stencil_entries(7, (256, 256, 256)) == 117_047_296
    assert matrices.stencil_entries(27, (128, 128, 256)) == 111_777_784
    assert matrices.stencil_entries(27, (128, 128, 128)) == 55_742_968
    assert matrices.graphene_entries(8192, 8192) == 872_235_016
    assert matrices.topological_insulator_entries((256, 256, 256)) == 802_160_640
    assert matrices.channel_entries((500, 98, 98)) == 85_362_744
    assert matrices.spin_chain_entries(26, 13) - 10_400_600 == 25 * 2 * 2_704_156


def test_slabs_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    from mansard.sparse import matrices_grid

    whole = matrices.topological_insulator((5, 4, 3), disorder=1.0)
    monkeypatch.setitem(matrices_grid._SLAB, "numpy", 500)
    pieces = matrices.topological_insulator((5, 4, 3), disorder=1.0)
    assert np.array_equal(whole.data, pieces.data) and np.array_equal(whole.indices, pieces.indices)


def test_randomized_values() -> None:
    A = matrices.stencil(27, (6, 6, 6))
    B = matrices.randomized(A, seed=3)
    assert np.array_equal(A.indices, B.indices) and A.data[0] == 26 and len(np.unique(B.data)) == B.nnz
    assert 0.5 < abs(np.linalg.eigvals(B.toarray())).max() < 1.0
    assert matrices.randomized(A.astype(complex)).data.imag.std() > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: matrices.band(10, 4), "odd number"),
        (lambda: matrices.stencil(6, (3, 3)), "points=6"),
        (lambda: matrices.stencil(27, (3, 3)), "3 dimensions"),
        (lambda: matrices.stencil(5, (0, 3)), "at least 1"),
        (lambda: matrices.stencil(5, (2, 3), periodic=True), "at least 3 points"),
        (lambda: matrices.stencil(125, (4, 5, 6), periodic=True), "at least 5 points"),
        (lambda: matrices.elasticity((3, 1, 3)), "two nodes"),
        (lambda: matrices.elasticity((3, 3, 3), poisson=0.5), "poisson=0.5"),
        (lambda: matrices.delaunay(2), "three points"),
        (lambda: matrices.topological_insulator((3, 3)), "three dimensions"),
        (lambda: matrices.spin_chain(4, 5), "up=5"),
    ],
)
def test_bad_arguments_are_named(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
