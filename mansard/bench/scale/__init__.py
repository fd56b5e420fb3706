"""Scaling over the ranks of MPI: what runs, how long its messages take, and a model that is drawn to 4096 ranks."""
