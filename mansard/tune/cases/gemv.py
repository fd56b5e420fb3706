"""Batches of matrices times vectors."""

from __future__ import annotations

from .gemm import GemmCase


class GemvCase(GemmCase):
    """A x for every matrix of a batch: products whose B has one column; results are the entries of all y."""
