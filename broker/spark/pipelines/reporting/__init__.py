"""What a report is made of: `tables` by Spark, `depths` at each run, `axes` and `charts` as SVG, and the `page`."""
