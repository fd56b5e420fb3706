"""Stage 5 of a call: binary -> running. One module per backend behind the small protocol of `base`."""
