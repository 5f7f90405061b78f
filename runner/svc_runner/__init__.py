"""Supervises one run in one directory: starts the script, spools its output, samples the machine, writes its end.

docs/internals/runner.md describes the protocol; the rules below are cited by code and tests.

R1. One nonce starts at most once, in spite of repeats and crashes: the claim is on disk before the fork.
R2. A byte that the script wrote is never dropped and never written twice; without disk space, the script waits.
R3. `exited` is written only when no process of the run is left, and after the whole log.
R4. No process is signalled by its name or its number alone: it is a descendant, carries the nonce, or has the
    recorded start time of this boot.
R5. An unmeasurable value is null, never 0.

Python 3.8 or newer and its standard library. Run with `python3 -I -S`; imports are few because they are most of the time
between `start` and the script's first instruction (`json` and `signal` alone would cost 9 ms).
"""
