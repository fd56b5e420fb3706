"""Orders of a sparse matrix: levels, searches that make them narrow, and groups of them that fit a cache."""
