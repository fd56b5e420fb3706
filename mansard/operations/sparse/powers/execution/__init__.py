"""Executions of powers: plain products, groups of rows that pass through a cache, one persistent launch."""
