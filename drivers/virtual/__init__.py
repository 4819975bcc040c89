"""Virtual robots: simulated plants behind controllers that speak the real wire protocols.

``process.VirtualUR10e`` starts one; ``python -m drivers.virtual.ur10e`` does so by hand. Other drivers and the
service know nothing of this package: to them a virtual robot is a robot at another address. What is true of a
simulated robot stays in ``plant_parameters`` and is compared with only through ``truth``.
"""
