"""Stage 2 of a call: which. The problem, the choice of a kernel with its reason, and the plan that runs it."""
