"""Robots that stream frames over a socket and take servo points over another, described by a file, not by code.

What a file may say is in ``layout``; ``layouts/`` holds those that ship. ``frames`` and ``json_frames`` turn bytes
into frames and know no sockets; ``stream`` reads a controller, ``playback`` moves its robot.
"""
