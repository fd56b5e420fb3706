"""Batched factorizations, and systems solved by them."""
