"""Stands in for a runner whose environment this machine cannot make, and says why.

absent.py EVENTS.jsonl REASON
"""

import json
import os
import sys
import time


def main(path: str, reason: str) -> None:
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    start = {"t": time.monotonic(), "date": date, "pid": os.getpid()}
    start["python"] = sys.version.split()[0]
    events = [
        {"event": "start", **start},
        {"event": "result", "status": "unsupported", "reason": reason},
    ]
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


if __name__ == "__main__":
    main(*sys.argv[1:])
