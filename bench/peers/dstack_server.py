"""Starts dstack's own server with its address of the provider turned to a simulator. `dstack.ts` runs it in dstack's environment.

Nothing else is changed: its loops keep their intervals. `PEERS_URL` is the simulator's address.
"""

import os
import sys

from dstack._internal.cli.main import main
from dstack._internal.core.backends.runpod import api_client

url = os.environ["PEERS_URL"]
for name, path in (("API_BASE_URL", ""), ("API_GRAPHQL_URL", "/graphql"), ("API_V2_URL", "/v2")):
    if not hasattr(api_client, name):
        sys.exit(f"dstack's client has no {name} any more: say in this file how its address is turned now")
    setattr(api_client, name, url + path)
main()
