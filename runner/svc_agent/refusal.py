"""What the agent answers in place of a result."""

from __future__ import annotations


class Refusal(Exception):
    """An answer that is no success; `kind` is for programs, the words for people."""

    def __init__(self, kind, why):
        Exception.__init__(self, why)
        self.kind = kind


class NoAnswer(Refusal):
    """The runner was called, and may still be about to do what it was called for."""
