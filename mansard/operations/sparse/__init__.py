"""Sparse matrices: how they are stored (`storage`, `convert`, `operand`, `matrix`), products with vectors (`spmv_call`,
`spmv_run`), and powers (`powers/`)."""
