"""Planted bugs, and the tool that shows whether the tests find them: `make mutants`.

Every `AREA/NAME.patch` holds one bug: a header and a diff of a few lines.

    Bug: a purely imaginary beta is taken for zero
    Tests: tests/kernels/tall_skinny/test_gram.py::test_alpha_and_beta -k cpu

    --- mansard/kernels/tall_skinny/gram/kernel.hpp
    @@
     a line of context
    -the line as it is
    +the line with the bug

`Tests` is what is passed to pytest: the tests that claim the file, few enough to take seconds. A hunk is found by its
text, not by line numbers, and must occur once. More header lines are optional. `Order: greedy` names the order in which
the emulator runs threads. `Ends: crash` and `Ends: hang` are for bugs that end the process, or never do. `Cache: own`
keeps what a bug in cache keys compiles out of the shared cache.
"""
