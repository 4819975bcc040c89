"""A virtual Universal Robots e-Series controller: RTDE, dashboard and script ports on loopback.

``wire`` and ``session`` know bytes but no sockets; ``controller`` knows the robot but no bytes; ``server``
joins them on an asyncio loop. Behaviour that is not part of a real UR (fault injection) lives in ``faults``.
"""
