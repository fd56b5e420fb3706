"""Beside dispatch: search, verify, measure, remember. `data/` holds the records shipped for known devices."""
