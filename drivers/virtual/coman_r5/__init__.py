"""A virtual COMAN R5: an arm of that class behind a controller that speaks the placeholder protocol of this
repository (no public one was found), frames at 1 kHz on one port, JSON lines on another.

``robot`` is what is simulated; ``controller`` knows the robot but no bytes, ``wire`` bytes but no robot, ``server``
joins them. It shares no code with the driver that reads it.
"""
