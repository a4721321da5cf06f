"""Statistics, processes and a suite of its own: what every benchmark measures with."""
