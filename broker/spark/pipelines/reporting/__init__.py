"""The parts of a report: `tables` by Spark, `depths` at each run, `axes` and `charts` as SVG, and the `page`."""
