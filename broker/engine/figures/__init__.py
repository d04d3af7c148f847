"""The queue manager in figures for Prometheus, as text.

A *family* is a figure by its name, with a value for each thing that has it; `sections` puts those of the same things
together, and `table` has them all. `scrape` takes the values down in steps, `exposition` writes them.
"""
