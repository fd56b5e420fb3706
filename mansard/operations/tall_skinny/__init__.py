"""Products with tall and skinny matrices."""
