"""Common parts of all benchmarks: statistics, processes and a suite of its own."""
