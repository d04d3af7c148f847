"""The benchmarks of EverMQ, and the limits of the machine that they are measured against: what `evermq bench` runs.

Each end of a measurement is a process of its own. The package uses the public names.
"""
