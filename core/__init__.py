"""Numerics of robot dynamic identification: models, estimators, excitation, streaming; no network."""
