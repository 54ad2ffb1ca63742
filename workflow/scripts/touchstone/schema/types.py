"""Names of types; the oldest NumPy and the frameworks have none."""

from typing import Any, Dict

Array = Any
"""A NumPy array, or one of the framework."""
Arrays = Dict[str, Any]
"""Arrays by name."""
