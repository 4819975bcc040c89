"""Side-by-side performance runs against peers: ``python -m benchmarks``. Never part of the test command."""
