"""Stage 1 of a call: what. Functions users call, on the arrays they have."""
