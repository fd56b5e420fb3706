"""Kernel families for tall and skinny matrices."""
