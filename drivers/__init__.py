"""Hardware drivers and the virtual controllers that stand in for hardware."""
