"""PyTorch's and JAX's transformations of Mansard's functions: derivatives, tracing, vectorisation.

`operations/transformable.py` brings calls here whose operands are traced or want a derivative. Other calls never load
these modules. What NumPy's functions take beyond arrays of one dtype is in `numpy.py`.
"""
