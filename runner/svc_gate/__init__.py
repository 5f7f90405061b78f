"""Tests a machine while files are sent to it: one program, started by the agent, that prints one line of JSON for each probe.

docs/internals/gate.md tells what is tested and what a finding means. This program measures; the control plane judges.

H1. Each probe is a process with a timeout. A probe that fails, hangs or crashes gives a line with `error` or
    `late`, and does not affect the others.
H2. The gate ends by itself after `seconds`, and at once when no process reads its output any more.
H3. It leaves no file on the machine.

Python 3.8 or newer and its standard library; the torch probe uses the image's own Python and torch.
"""
