"""Benchmark cases, peers, tables and pictures of batched products."""
