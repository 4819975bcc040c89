"""Rigid-body dynamics of serial chains: Numba kernels, and the reduction to base parameters."""
