"""Tools of the tests: models, and what stands between a test and the world outside."""
