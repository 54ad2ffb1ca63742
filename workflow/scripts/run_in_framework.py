"""Starts a run in a framework's environment: run_in_framework.py SPEC.json OUTPUT"""

from touchstone.runner.main import main

main()
