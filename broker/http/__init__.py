"""The HTTP server: one ASGI application over the public names of `broker`, and the lines that it is reached by.

openapi/         /openapi.json
rest/            IBM MQ's REST API
entrance/        who calls: credentials, sessions, roles, and the connections of callers

application      the routes, and the parts that are mounted beside them
probes           /livez, /readyz, /startupz
jobs             /jobs: what has become of a message
metrics          /metrics: one scrape at a time
exposition       its text in pieces, and as OpenMetrics has it
process_figures  the figures of the process, by prometheus-client
refusals         the refusals in plain text
served_manager   the queue manager that it serves: in this process, or by a URL
line             a line of HTTP: uvicorn's protocol with the limits that it lacks
lines            the lines of an address, which are bounded together
console          web pages for people, mounted at /console

Needs the extra `http`; nothing here is imported without it. The sockets are those of `broker.server.http_server`.
"""
