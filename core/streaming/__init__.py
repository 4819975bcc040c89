"""Live samples: their layout, and the shared-memory ring that carries them between processes."""
