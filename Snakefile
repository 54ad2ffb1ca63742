"""Touchstone: benchmark deep-learning frameworks on this machine."""


include: "workflow/Snakefile"


# The default target of an included file does not count.
workflow.default_target = "all"
