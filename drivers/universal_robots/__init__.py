"""Universal Robots e-Series: acquisition over RTDE, motion through ur_rtde, the rest over the dashboard."""
