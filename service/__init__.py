"""The service: processes, jobs, storage, REST, command line."""
