"""IBM MQ's REST API, `/ibmmq/rest/v1` to `v3`: messaging and administration by HTTP and JSON.

errors  the errors as JSON, and the status of each reason
"""
