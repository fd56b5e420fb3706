"""One self-contained page over all results of a device: overview, roofline, curves, configurations, energy, changes."""
