"""What was measured, as dispatch reads it: trials, findings about matrices, and which of them speaks for a problem."""
