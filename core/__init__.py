"""Numerics of robot dynamic identification: models, estimators, excitation, streaming. No network, no vendor."""
