"""Security between hosts: a network of the test's own, and a daemon that serves another machine on it.

namespaces    hosts with addresses of their own, on one machine
"""
