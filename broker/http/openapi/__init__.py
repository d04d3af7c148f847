"""/openapi.json: what the server answers, as OpenAPI 3.0 has it, for programs that make clients and tests of it.

document    the whole text, and its route
operations  what operations have in common: answers, headers, parameters
paths       login, administration, jobs, health and figures
messaging   messaging
"""
