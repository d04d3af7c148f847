"""The limits of the machine, measured by themselves."""
