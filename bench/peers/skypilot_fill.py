"""Puts clusters into SkyPilot's state by SkyPilot's own function: `skypilot_fill.py ROWS`. `skypilot.ts` calls it.

SkyPilot lists clusters, not runs, so a row is a cluster that is up, with one GPU.
"""

import sys

import sky
from sky import global_user_state
from sky.backends import CloudVmRayResourceHandle

resources = sky.Resources(infra="runpod/US/US-TX-3", accelerators="RTX4090:1", instance_type="1x_RTX4090_SECURE")
have = len(global_user_state.get_cluster_names_start_with("c"))
for n in range(have, int(sys.argv[1])):
    handle = CloudVmRayResourceHandle(
        cluster_name=f"c{n}",
        cluster_name_on_cloud=f"c{n}-user",
        cluster_yaml=None,
        launched_nodes=1,
        launched_resources=resources,
        stable_internal_external_ips=[("10.0.0.2", "127.0.0.2")],
        stable_ssh_ports=[22],
    )
    global_user_state.add_or_update_cluster(f"c{n}", handle, requested_resources={resources}, ready=True)
