"""The array boundary: one module per array library. Nobody else asks which library an array belongs to."""
