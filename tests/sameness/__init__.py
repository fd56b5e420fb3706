"""Record what the library chooses and generates, and compare two recordings, before and after the code moves.

    cd tests
    python -m sameness record before.jsonl --jobs 2     # any number of times: goes on where it stopped
    python -m sameness compare before.jsonl after.jsonl # exit status 1 on any difference

`before.jsonl.gz` is the recording from before the package was laid out by stage and domain.

A recording holds, for every problem of `problems.jsonl.gz` and for the targets sm_90a, emulated and cpu, the chosen
configuration with its origin and route, the launch, and a digest of the code: of the machine code for sm_90a, of the
preprocessed text elsewhere. It also holds the number of Python calls that 40 public calls take once they are warm.

`adapter.py` is the only module that knows the library's internals. Problems are a family's name and plain values, so
that the same file of problems describes them to any later layout of the package.
"""
