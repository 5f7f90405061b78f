"""Supervises one run in one directory: starts the script, spools its output, samples the machine, writes its end.

docs/internals/runner.md tells the protocol; the rules below are cited by code and tests.

R1. One nonce starts at most once, whatever is repeated and whoever dies in between: the claim is on disk before the fork.
R2. A byte that the script wrote is never dropped and never written twice; without room for it, the script waits.
R3. `exited` is written only when no process of the run is left, and after the whole log.
R4. No process is signalled for its name or its bare number: it is a descendant, carries the nonce, or has the recorded
    start time of this boot.
R5. What cannot be measured is null, never 0.

Python 3.8 or newer and its standard library. Run with `python3 -I -S`; imports are few because they are most of the time
between `start` and the script's first instruction (`json` and `signal` alone would cost 9 ms).
"""
