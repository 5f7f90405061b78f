"""``python -m svc``: the same as the command ``svc``, for where the folder of console scripts is not on the PATH."""

import sys

from svc._launcher import main

sys.exit(main())
