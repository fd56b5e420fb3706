"""A program for compute-sanitizer: powers of a small matrix by a persistent launch, compared with products.

Warps of a block wait for words in shared memory. A race checker cannot know that these are meant to be read while they
are written, so here they are read and written atomically (MANSARD_RACECHECK, mansard/gpu/relaxed.cuh)."""

import cupy as cp
import numpy as np

import mansard as ms
from mansard.compile import nvrtc
from mansard.sparse import matrices


def main() -> None:
    nvrtc.FLAGS = (*nvrtc.FLAGS, "-DMANSARD_RACECHECK")
    stencil = matrices.stencil(27, (10, 10, 40), dtype=np.dtype("float64"), xp=cp)
    A = matrices.randomized(stencil, seed=3)
    x = cp.random.default_rng(1).standard_normal(A.shape[0])
    want = ms.matrix_powers(A, 3, execution="plain", order="none")(x)
    same = bool((ms.matrix_powers(A, 3, execution="persistent")(x) == want).all())
    print("equal to products" if same else "different from products")


if __name__ == "__main__":
    main()
