"""CNTK."""

import warnings

# It knows the Linux distributions of its time.
warnings.filterwarnings("ignore", category=UserWarning, module="cntk")
