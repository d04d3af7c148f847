"""The benchmarks of EverMQ, and the limits of the machine that they are measured against: what `evermq bench` runs.

The wheel carries this package under another name, next to the command; so it imports its own modules relatively, and of
everything else only what the distribution installs. Each end of a measurement is a process of its own.
"""
