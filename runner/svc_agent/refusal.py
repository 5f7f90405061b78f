"""The agent's error answers."""

from __future__ import annotations


class Refusal(Exception):
    """An unsuccessful answer; `kind` is for programs, the text for people."""

    def __init__(self, kind: str, why: str) -> None:
        Exception.__init__(self, why)
        self.kind = kind


class NoAnswer(Refusal):
    """The runner was called, and may still do the work."""
