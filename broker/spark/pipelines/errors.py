"""Errors of pipelines."""

from __future__ import annotations


class PipelineError(Exception):
    """A pipeline cannot do what it was asked. The message is one line: what was found, and what to do about it."""


class StoppedError(PipelineError):
    """A pipeline was told to stop, and has put away what it had begun. Run it again, and it goes on."""
