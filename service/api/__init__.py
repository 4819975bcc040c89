"""REST: thin routes over jobs, storage, devices and motion."""
