"""Jobs: calls that take more than one step, and what they wait for."""
