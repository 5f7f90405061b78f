"""Ranks that communicate through gloo; the last one ends as its argument says."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

mode = sys.argv[1]
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
value = torch.ones(1) * rank
dist.all_reduce(value)
if mode == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
# One write: `print` writes text and line end separately, and lines of several ranks would mix.
os.write(1, b"rank %d of %d: %d; pid %d\n" % (rank, ranks, value.item(), os.getpid()))
if rank == ranks - 1:
    if mode == "exit":
        os._exit(7)
    if mode == "raise":
        raise RuntimeError("this rank went wrong")
    if mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
if mode in ("deaf", "wait"):
    time.sleep(600)
if mode != "ok":
    for _ in range(1000):  # the others notice at once that one is missing
        dist.all_reduce(value)
    time.sleep(600)
dist.destroy_process_group()
