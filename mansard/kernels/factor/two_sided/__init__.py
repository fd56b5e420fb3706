"""Parts that the families of two-sided factorizations share: reductions to tridiagonal and bidiagonal form."""
