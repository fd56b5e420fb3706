"""Checks of distributed sparse matrices that every rank of one launch runs: `mpiexec -n 2 python <this> <folder>`.

Each check is a function of the communicator; rank r writes what it found to <folder>/<r>.json, by name of the check.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from scipy import sparse

import mansard as ms
from mansard.distributed.communicator import Communicator
from mansard.sparse import io, matrices
from mansard.sparse.linalg import cg, expm_multiply, gmres, minres

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
matrix, powers = ms.distributed.matrix, ms.distributed.matrix_powers


def integers(shape: tuple[int, int], density: float, dtype: Any = np.float64, seed: int = 1) -> Any:
    """A random matrix of small integers: sums are exact in any order."""
    rng = np.random.default_rng(seed)
    A = sparse.random_array(shape, density=density, rng=rng, data_sampler=lambda size: rng.integers(-3, 4, size))
    A = A.astype(dtype) * (1 + 2j) if np.dtype(dtype).kind == "c" else A.astype(dtype)
    return A.tocsr()


def vector(count: int, dtype: Any = np.float64, columns: int = 0, seed: int = 2) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, (count, columns) if columns else count)
    return (x + 1j * x[::-1]).astype(dtype) if np.dtype(dtype).kind == "c" else x.astype(dtype)


def own(offsets: Any, x: Any, comm: Any) -> Any:
    return x[offsets[comm.rank] : offsets[comm.rank + 1]]


def raises_everywhere(comm: Any, call: Callable[[], object]) -> None:
    """The call raises on every rank, at the latest in its next message, and all ranks can go on together."""
    try:
        call()
        Communicator.of(comm).agree("next")
        found = ""
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    every = comm.allgather(found)
    assert all(every), every
    every = Communicator.of(comm).gather(np.array([comm.rank]), "after a failure").ravel()
    assert np.array_equal(every, np.arange(comm.size))


# ---- products ---------------------------------------------------------------------------------------------------


def products_of_every_kind(comm: Any) -> None:
    for shape in ((37, 37), (23, 41), (41, 23)):
        for dtype, columns in ((np.float64, 0), (np.float32, 3), (np.complex128, 0)):
            A = integers(shape, 0.15, dtype)
            M = matrix(A, comm)
            assert M.shape == shape and M.nnz == A.nnz and M.local.shape[0] == np.diff(M.offsets)[comm.rank]
            x, y = vector(shape[1], dtype, columns), vector(shape[0], dtype, columns)
            assert np.array_equal(M @ own(M.column_offsets, x, comm), own(M.offsets, A @ x, comm))
            assert np.array_equal(M.T @ own(M.offsets, y, comm), own(M.column_offsets, A.T @ y, comm))
            assert np.array_equal(M.H @ own(M.offsets, y, comm), own(M.column_offsets, A.conj().T @ y, comm))
            assert np.array_equal(M.H.T @ own(M.column_offsets, x, comm), own(M.offsets, A.conj() @ x, comm))
            assert M.T.T is M


def rows_are_summed_as_in_one_process(comm: Any) -> None:
    A = matrices.randomized(matrices.stencil(7, (6, 6, 8)), 3)
    x = np.random.default_rng(0).standard_normal(A.shape[0])
    M = matrix(A, comm)
    assert np.array_equal(M.whole(M @ M.part(x)), ms.sparse.matrix(A) @ x)


def a_product_sends_one_message_to_each_neighbour(comm: Any) -> None:
    A = matrices.stencil(7, (4, 4, 8))
    M = matrix(A, comm)
    x, one = M.part(vector(A.shape[0])), Communicator.of(comm)
    M @ x
    before = one.messages.copy()
    M @ x
    neighbours = (comm.rank > 0) + (comm.rank < comm.size - 1)
    assert one.messages - before == {"halo": neighbours, "bytes": neighbours * (16 * 8 + 8)}


def rows_are_divided_by_entries(comm: Any) -> None:
    lengths = np.where(np.arange(64) < 8, 50, 2)
    A = sparse.csr_array((np.ones(lengths.sum()), np.concatenate([np.arange(n) for n in lengths]),
                          np.concatenate(([0], np.cumsum(lengths)))), shape=(64, 64))  # fmt: skip
    M = matrix(A, comm)
    assert M.entries.max() < 1.5 * A.nnz / comm.size and M.offsets[1] < 64 // comm.size
    assert np.array_equal(M.whole(M @ M.part(vector(64))), A @ vector(64))


def empty_ranks(comm: Any) -> None:
    last = [0] * comm.size + [9]
    for A, offsets in ((integers((3, 3), 0.8), None), (integers((9, 9), 0.5), last), (integers((0, 0), 0.5), None)):
        M = matrix(A, comm, offsets=offsets)
        x = vector(A.shape[0])
        assert np.array_equal(M.whole(M @ M.part(x)), A @ x)
        assert np.array_equal(M.whole(M.T @ M.part(x)), A.T @ x)
        for exchanges in ("one", "each", None):
            V = powers(M, 3, exchanges=exchanges)(M.part(x))
            assert np.array_equal(M.whole(np.ascontiguousarray(V[3])), A @ (A @ (A @ x)))
    A = matrices.stencil(5, (2, 2)) + sparse.eye_array(4)
    M = matrix(A, comm, offsets=[0] * comm.size + [4])
    x, info = gmres(M, M.part(np.arange(4.0)), rtol=1e-12)
    assert info == 0 and np.allclose(A @ M.whole(x), np.arange(4.0))


# ---- where matrices come from -----------------------------------------------------------------------------------


def rows_that_ranks_bring(comm: Any) -> None:
    A = integers((29, 29), 0.2)
    cuts = [29 * r * r // comm.size**2 for r in range(comm.size + 1)]
    part = A[cuts[comm.rank] : cuts[comm.rank + 1]]
    M = matrix(part, comm, local=True)
    assert M.offsets.tolist() == cuts and abs(M.local - part).sum() == 0
    assert np.array_equal(M.whole(M @ M.part(vector(29))), A @ vector(29))
    even = [29 * r // comm.size for r in range(comm.size + 1)]
    moved = matrix(part, comm, local=True, offsets=even)
    assert moved.offsets.tolist() == even and abs(moved.local - A[even[comm.rank] : even[comm.rank + 1]]).sum() == 0


def files_read_in_parallel(comm: Any) -> None:
    general = integers((31, 31), 0.2)
    for name, A in (("general.mtx", general), ("symmetric.mtx", general + general.T), ("packed.mtx.gz", general)):
        path = FOLDER / name
        if comm.rank == 0:
            io.write(path, A)
        comm.barrier()
        M = matrix(path, comm)
        assert np.array_equal(M.whole(M @ M.part(vector(31))), A @ vector(31)), name


def orders(comm: Any) -> None:
    A = integers((60, 60), 0.05) + sparse.eye_array(60, format="csr")
    whole = comm.size == 1
    for order in ("auto", "levels"):
        for local in (False, True):
            cuts = [60 * r // comm.size for r in range(comm.size + 1)]
            M = matrix(own(cuts, A, comm) if local else A, comm, local=local, reorder=order)
            assert sorted(M.permutation) == list(range(60)) and (whole or len(M.offsets) == comm.size + 1)
            assert np.array_equal(M.whole(M @ M.part(vector(60))), A @ vector(60))


# ---- powers -----------------------------------------------------------------------------------------------------


def powers_of_every_basis(comm: Any) -> None:
    A = matrices.randomized(matrices.stencil(7, (4, 4, 9)), 3)
    M, rng = matrix(A, comm), np.random.default_rng(4)
    for basis in ("monomial", ("chebyshev", -2.0, 2.0), ("newton", [0.5, 1 + 1j, 1 - 1j])):
        x = rng.standard_normal(144)
        wanted = ms.matrix_powers(A, 3, basis)(x)
        for exchanges in ("one", "each"):
            found = powers(M, 3, basis, exchanges=exchanges)(M.part(x))
            for k in range(4):
                assert np.allclose(M.whole(np.ascontiguousarray(found[k])), wanted[k], rtol=1e-12, atol=1e-12)


def powers_take_one_message_for_p_products(comm: Any) -> None:
    A = matrices.stencil(7, (4, 4, 32))
    M, one = matrix(A, comm), Communicator.of(comm)
    x, neighbours = M.part(vector(A.shape[0])), (comm.rank > 0) + (comm.rank < comm.size - 1)
    found = {}
    for exchanges, count in (("one", neighbours), ("each", 4 * neighbours)):
        P = powers(M, 4, exchanges=exchanges)
        before = one.messages.copy()
        found[exchanges] = P(x)
        sent = one.messages - before
        assert sent["halo"] == count and sent["gather"] == 0, (exchanges, sent)
    assert np.array_equal(found["one"], found["each"])
    text = powers(M, 4, exchanges="one").explain()
    assert f"rows computed twice: {2 * (comm.size - 1) * 3 * 16} of 512" in text, text


def ghost_zones_that_are_too_large_are_left(comm: Any) -> None:
    A = integers((900, 900), 0.05)
    P = powers(matrix(A, comm), 4)
    text = P.explain()
    assert comm.size < 3 or (P.exchanges == "each" and "computed twice" in text), text
    x = vector(900)
    assert np.array_equal(P.matrix.whole(np.ascontiguousarray(P(P.matrix.part(x))[2])), A @ (A @ x))


# ---- solvers ----------------------------------------------------------------------------------------------------


def the_same_residuals_on_any_number_of_ranks(comm: Any) -> None:
    rng = np.random.default_rng(5)
    A, S = matrices.convection_diffusion((6, 6, 8), 1.5), matrices.stencil(7, (6, 6, 8))
    b = rng.standard_normal(288)
    for solve, system in ((gmres, A), (cg, S), (minres, S)):
        M, alone, told = matrix(system, comm), matrix(system, MPI.COMM_SELF), []
        x, info, run = solve(M, M.part(b), rtol=1e-10, report=True, callback=told.append)
        _, _, wanted = solve(alone, b, rtol=1e-10, report=True)
        assert info == 0 and len(told) == run.iterations == wanted.iterations
        assert np.allclose(run.residuals, wanted.residuals, rtol=1e-6, atol=1e-11 * np.linalg.norm(b))
        assert np.linalg.norm(system @ M.whole(x) - b) <= 1.01e-10 * np.linalg.norm(b)
        every = comm.allgather(run.residuals)
        assert all(one == every[0] for one in every)  # the same bits on every rank


def s_steps_take_fewer_messages(comm: Any) -> None:
    A = matrices.convection_diffusion((6, 6, 8), 0.5)
    M, one, counts = matrix(A, comm), Communicator.of(comm), {}
    b = M.part(np.random.default_rng(6).standard_normal(288))
    for s in (1, 5):
        before = one.messages.copy()
        _, _, run = gmres(M, b, rtol=1e-8, s=s, restart=10, report=True)  # the first cycle makes single steps
        counts[s] = (one.messages - before)["gather"] / run.iterations
    assert counts[5] < 0.75 * counts[1], counts


def exponentials(comm: Any) -> None:
    from scipy.sparse.linalg import expm_multiply as reference

    x = np.random.default_rng(7).standard_normal(288)
    for A, t in ((matrices.stencil(7, (6, 6, 8)), -0.2), (matrices.convection_diffusion((6, 6, 8), 0.5), 0.1)):
        M = matrix(A, comm)
        found, run = expm_multiply(M, M.part(x), t, report=True)
        wanted = reference(t * A, x)
        assert np.allclose(M.whole(found), wanted, rtol=1e-11, atol=1e-11 * abs(wanted).max()) and run.products


def hydrodynamics_over_ranks(comm: Any) -> None:
    from examples.hydrodynamics import ranks

    options = ranks.parser().parse_args(["--refine", "1", "--steps", "2", "--engine", "library"])
    found = ranks.run(options, Communicator.of(comm))
    wanted = ranks.run(options, Communicator.of(MPI.COMM_SELF))
    assert found["steps"] == wanted["steps"] and found["cg_iterations"] == wanted["cg_iterations"]
    for name in ("time", "dt", "energy_norm", "internal_energy", "kinetic_energy"):
        assert abs(found[name] / wanted[name] - 1) < 1e-13, (name, found[name], wanted[name])


# ---- faults -----------------------------------------------------------------------------------------------------


def matrices_that_differ_raise_everywhere(comm: Any) -> None:
    last = comm.rank == comm.size - 1
    raises_everywhere(comm, lambda: matrix(integers((9, 9), 0.5, np.float32 if last else np.float64), comm))
    raises_everywhere(comm, lambda: matrix(integers((9, 8 if last else 9), 0.5), comm))
    raises_everywhere(comm, lambda: matrix(integers((3, 8 if last else 9), 0.5), comm, local=True))
    raises_everywhere(comm, lambda: matrix("no such matrix" if last else integers((9, 9), 0.5), comm))
    raises_everywhere(comm, lambda: matrix(integers((9, 9), 0.5), comm, offsets=[0, 9] if last else None))
    raises_everywhere(comm, lambda: matrix(FOLDER / "missing.mtx", comm))


def vectors_that_are_wrong_raise_everywhere(comm: Any) -> None:
    A = matrices.stencil(7, (4, 4, 8))
    M, last = matrix(A, comm), comm.rank == comm.size - 1
    x = M.part(vector(128))
    P = powers(M, 2, exchanges="one")
    for wrong in (x[:-1], x.astype(np.complex128), np.stack([x, x], 1), [1.0], x.astype(np.int64)):
        raises_everywhere(comm, lambda wrong=wrong: M @ (wrong if last else x))
        assert np.array_equal(M @ x, own(M.offsets, A @ vector(128), comm))
        raises_everywhere(comm, lambda wrong=wrong: P(wrong if last else x))
        assert np.array_equal(P(x)[1], M @ x)
    raises_everywhere(comm, lambda: M.T @ (x[1:] if last else x))
    raises_everywhere(comm, lambda: gmres(M, x[1:] if last else x))
    raises_everywhere(comm, lambda: cg(M, x.astype(np.complex128) if last else x))
    raises_everywhere(comm, lambda: powers(M, 3 if last else 2))
    raises_everywhere(comm, lambda: powers(matrix(integers((5, 7), 0.5), comm), 2))
    assert cg(M, x)[1] == 0


CHECKS = [
    products_of_every_kind, rows_are_summed_as_in_one_process, a_product_sends_one_message_to_each_neighbour,
    rows_are_divided_by_entries, empty_ranks, rows_that_ranks_bring, files_read_in_parallel, orders,
    powers_of_every_basis, powers_take_one_message_for_p_products, ghost_zones_that_are_too_large_are_left,
    the_same_residuals_on_any_number_of_ranks, s_steps_take_fewer_messages, exponentials, hydrodynamics_over_ranks,
    matrices_that_differ_raise_everywhere, vectors_that_are_wrong_raise_everywhere,
]  # fmt: skip


def main() -> None:
    comm, found = MPI.COMM_WORLD, {}
    for check in CHECKS:
        begin = MPI.Wtime()
        try:
            check(comm)
            found[check.__name__] = "ok"
        except Exception:
            found[check.__name__] = traceback.format_exc()
        if len(sys.argv) > 2 and comm.rank == 0:
            print(f"{check.__name__}: {MPI.Wtime() - begin:.2f} s", found[check.__name__][-2000:], flush=True)
        (FOLDER / f"{comm.rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
