"""High-order Lagrangian hydrodynamics on batched kernels: the corner-force method on moving meshes of curved zones.

Positions x and velocities v are continuous, of degree k (Q_k, nodes at the Gauss-Lobatto points); the specific internal
energy e is discontinuous, of degree m = k - 1 (Q_m, Bernstein polynomials). With the matrix of corner forces F

    M_V dv/dt = -F 1,    M_E de/dt = F^T v,    dx/dt = v,

and M_V, M_E do not change with time (Dobrev, Kolev and Rieben, SIAM J. Sci. Comput. 34, 2012). Read the modules in this
order: `mesh`, `tables`, `problems`, `start`, `points`, `forces`, `steps`; `arrays` is the switch between libraries.
"""
