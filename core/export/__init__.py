"""Results for other programs: URDF, model files, C, CSV."""
