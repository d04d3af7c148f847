"""The dead letters of all queues that take them, for the console: read in a bounded way, gathered by what they died of.

gathering  all letters, read once: groups of the same death, and the letters of one of them
deaths     the reasons in words
acting     letters put back, or removed
"""
