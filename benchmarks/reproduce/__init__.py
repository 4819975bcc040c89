"""Published methods on virtual robots of their kind and on the recorded UR10e, beside the published figures."""
