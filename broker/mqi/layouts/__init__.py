"""Structures as bytes, and the codings of text."""
