"""Touchstone: benchmark deep-learning frameworks on this machine."""


include: "workflow/Snakefile"
