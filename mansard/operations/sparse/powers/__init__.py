"""Powers of a sparse matrix in three steps: order, plan, execution.

1. `order/` finds levels (rows whose entries lie in neighbouring levels), an order of the rows by level, and groups of
   levels that pass through a cache.
2. `plan.py` chooses, by the pattern and a model, and says why: plain products, level groups, or one persistent launch.
   Nothing is stored or compiled until then.
3. `execution/` runs it: `plain` by the kernels of `A @ x`, `groups` launch by launch, `persistent` at once.

`task.py` is what a caller asks for, `call.py` is `ms.matrix_powers`, and `run.py` the object that it returns.
"""
