"""Counts of papers' experiments: accesses in a trace of valgrind, products in a column, shares of a time line."""

from __future__ import annotations

import numpy as np

from papers.dong import counted, timeline
from papers.found import listed
from papers.masliah import cpu

TRACE = """==1== lackey
I  0023c790,2
 L 04222c00,32
I  0023c792,5
 L 04222c20,8
 L 04222c28,8
 L 04222c30,8
 L 04222c38,8
I  0023c797,4
 S 04222c40,32
I  0023c79b,7
 M 0421c7cc,4
I  0023c7a2,1
==1== done
"""


def test_an_instruction_that_loads_counts_once() -> None:
    """A move of a vector is one access in the trace, a fused multiply-add from memory four."""
    assert cpu.traced(TRACE.splitlines(keepends=True)) == {"loads": 3, "stores": 2, "bytes_loaded": 68}


def test_products_of_a_column_are_those_of_its_two_steps() -> None:
    """Each step has one product with the square rest and three with panels of as many rows as there were steps."""
    shapes = counted._products_of_column(40, 5)
    assert [shape for shape in shapes if min(shape) > 20] == [(34, 35), (34, 34)]
    assert [min(shape) for shape in shapes] == [10, 34, 10, 10, 11, 34, 11, 11]


def test_configurations_are_counted_for_every_dtype() -> None:
    found = counted.configurations()
    assert [cell[0] for cell in found.cells] == ["float32", "float64", "complex64", "complex128"]
    assert all(int(cell[2]) == sum(int(part.split()[1]) for part in cell[3].split(", ")) > 0 for cell in found.cells)


def test_shares_are_of_the_time_between_the_first_mark_and_the_last() -> None:
    parts = [("square", 0.0, 3.0), ("panel", 3.0, 4.0), ("square", 5.0, 8.0)]
    assert timeline.shares(parts, ("panel", "square")) == {"panel": 1 / 8, "square": 6 / 8}


def test_names_are_listed_as_in_a_sentence() -> None:
    assert [listed(range(count)) for count in range(4)] == ["none", "0", "0 and 1", "0, 1 and 2"]
    assert listed(np.array([4, 8])) == "4 and 8"
