"""The version of Mansard, which records and reports state."""

__version__ = "0.1.0"
