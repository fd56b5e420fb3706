"""What runs, why, and what the limit is: a plan explains itself and shows its source. Pins make experiments."""

import numpy as np

import mansard as ms

A = np.ones((100_000, 8))
plan = ms.plan("gram", A)
print(plan.explain(), "\n")
print("\n".join(plan.source().splitlines()[:12]), "\n  ...\n")

with ms.pin(ROWS=256):
    print(ms.plan("gram", A).choice.reason)

# The GPU's kernel runs here too, on the emulator, one thread at a time: slow, and exact.
small = A[:100]
print(ms.gram(small, backend="emulated")[0, 0] == 100)
