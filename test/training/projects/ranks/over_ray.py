"""Runs a task on each node with a GPU, at the same time; then ends as the argument says."""

import os
import sys
import time

import ray

ray.init(log_to_driver=True)


@ray.remote(num_gpus=1)
class Worker:
    def where(self, number):
        import svc

        svc.log({"worker": number}, step=0, all_ranks=True)
        return ray.util.get_node_ip_address()


workers = [Worker.remote() for _ in range(2)]
print("nodes: %d" % len(set(ray.get([worker.where.remote(n) for n, worker in enumerate(workers)]))), flush=True)
print("dedup %s, mode %s" % (os.environ.get("RAY_DEDUP_LOGS"), os.environ.get("RAY_AUTH_MODE")), flush=True)
if sys.argv[1] == "exit":
    sys.exit(5)
if sys.argv[1] == "wait":
    time.sleep(600)
