"""Apps: what a program declares, puts and asks for."""
