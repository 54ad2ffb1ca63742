"""What the adapter of this framework can do."""

from touchstone.schema.capabilities import Capabilities

CAPABILITIES = Capabilities(
    modes=("arrays",),
    modules={"scipy": "scipy", "numpy": "numpy"},
    record_format="lmdb",
    only="operations",
)
