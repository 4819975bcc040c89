"""Beckhoff TwinCAT over ADS: acquisition from a ring buffer in the PLC, motion by a player in the PLC.

The PLC's variables are described in ``drivers.twincat_layout``. ADS has no security of its own: whoever can reach
the router's port can write every variable, so the PLC's network is one that nothing else is on.
"""
