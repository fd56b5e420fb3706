"""Two-sided factorizations of batches: eigenvalues of Hermitian matrices, and singular values."""
