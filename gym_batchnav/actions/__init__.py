"""The actions of agents: discrete, velocity, waypoint or holonomic, and the noise of their motors."""
