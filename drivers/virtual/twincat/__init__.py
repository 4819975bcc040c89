"""A virtual TwinCAT controller: the AMS router and PLC runtime of a Beckhoff computer, on loopback.

``ams`` and ``device`` know bytes but no sockets, ``symbols`` the memory, ``program`` what the PLC does in its cycle;
``server`` joins them on an asyncio loop. Behaviour that is not part of TwinCAT (fault injection) lives in ``faults``.
"""
