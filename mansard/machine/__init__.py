"""Beside the families: what a device can do (measured) and what a kernel should reach (predicted)."""
