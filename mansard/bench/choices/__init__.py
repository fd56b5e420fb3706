"""How good choices are that nothing was recorded for: random problems, the choice against a search (`bench model`)."""
