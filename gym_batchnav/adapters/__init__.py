"""The batch under other interfaces; each module imports its library only when it is asked for."""
