"""The pure core of the queue manager: what MQ's rules say happens.

It decides and returns what should happen outside as values. It never awaits, reads a clock, draws a random number, logs
or touches a file; time and identifiers are given to it. On its hot path it works with plain ints.
"""
