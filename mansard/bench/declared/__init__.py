"""Operations whose benchmark is one entry of `table.py`; what the entry does not say comes from the registry."""
