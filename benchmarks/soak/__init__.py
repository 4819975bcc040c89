"""The service under load: two robots acquired at full rate, an identification, and everybody who polls."""
