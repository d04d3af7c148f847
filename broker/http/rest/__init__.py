"""IBM MQ's REST API, `/ibmmq/rest/v1` to `v3`: messaging and administration by HTTP and JSON.

administration/  commands, and the resources that clients look at

application  `RestApplication`: versions, who asks, the CSRF header, the headers that all answers have
calls        a call as the parts are given it: its path is decoded behind routing
errors       the errors as JSON, and the status of each reason
login        /login: a session by a cookie
"""
