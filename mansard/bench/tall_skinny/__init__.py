"""Benchmark cases, tables and pictures of tall and skinny products."""
