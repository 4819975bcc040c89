"""The demonstration: the whole way from a robot to a feedforward table, on a virtual one."""
