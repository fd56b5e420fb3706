"""Above the operations: search, verify, measure, remember. `data/` holds the records shipped for known devices."""
