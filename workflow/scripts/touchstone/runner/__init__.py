"""What runs in a framework's environment: training, inference, operations, parity steps.

It parses as Python 3.6, and imports only the standard library, NumPy and the framework.
"""

import time

BEGIN = time.monotonic()
"""When the process began, before it imported anything that takes time, s, CLOCK_MONOTONIC."""
