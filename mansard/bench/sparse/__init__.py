"""Benchmark cases, peers, tables and pictures of sparse products and powers."""
