"""Training on two nodes: here they are two host names of one machine, and `srun` a script.

`tests/slurm` has the same on a real Slurm.
"""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from touchstone.commands.run import Fault, run_on_all_nodes
from touchstone.measure import nodes, order
from touchstone.measure.sampler import Sampler
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.spec import make_spec
from touchstone.results.record import build_record

SRUN = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do
    case $1 in --nodelist=*) nodes=${1#*=} ;; esac
    shift
done
for node in $(echo "$nodes" | tr , ' '); do
    SLURMD_NODENAME=$node unshare --uts --mount sh -c '
        hostname "$SLURMD_NODENAME" && mount --bind HOSTS /etc/hosts && exec "$@"' sh "$@" &
done
wait
"""
ABLE = [name for name in frameworks.names() if frameworks.why_no_nodes(name) is None]
LOSS = 1e-5
"""As in test_replicas.py."""
CELL = {
    "network": "lenet5", "dataset": "mnist-5k", "epochs": 1,
    "batch_size": 64, "learning_rate": 0.01, "weight_decay": 0.001, "warmup_seconds": 0.0,
}  # fmt: skip

pytestmark = pytest.mark.skipif(
    subprocess.run(["unshare", "--uts", "--mount", "true"], capture_output=True).returncode != 0,
    reason="this machine lets us make no namespace with a host name of its own",
)


def events_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def losses_of(events):
    assert events[-1]["status"] == "ok", events[-1]
    return np.array([x for e in events if e["event"] == "chunk" for x in e["losses"]])[:10]


def ranks(folder):
    """The processes that train in a folder now, by rank."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = " ".join(process.cmdline())
            if "run_in_framework.py" in command and str(folder) in command:
                found[int(process.environ().get("TOUCHSTONE_REPLICA", 0))] = process
    return found


@pytest.fixture
def reference(framework, study):
    """The losses of one process, which runs before `on_two_nodes` changes PATH."""
    same = {key: value for key, value in CELL.items() if key not in ("network", "dataset")}
    return losses_of(events_of(study(framework, ".jsonl", **same)))


@pytest.fixture
def on_two_nodes(study, root, tmp_path, python_of, monkeypatch):
    """Make a run on two nodes, of which rank `end[0]` gets signal `end[1]` once it trains; its
    folder."""
    srun = tmp_path / "bin/srun"
    srun.parent.mkdir()
    hosts = tmp_path / "hosts"
    hosts.write_text(Path("/etc/hosts").read_text() + "127.0.0.1 far\n")
    srun.write_text(SRUN.replace("HOSTS", str(hosts)))
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{srun.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(nodes, "names", lambda count: ["localhost", "far"][:count])
    monkeypatch.setattr(order, "_last", lambda: tmp_path / "last")
    monkeypatch.chdir(study.folder)
    folder = tmp_path / "run"

    def wait_and_signal(rank, number):
        path = folder / "events.jsonl"
        while not path.exists() or '"chunk"' not in path.read_text():
            time.sleep(0.05)
        ranks(folder)[rank].send_signal(number)

    def run(end=None, framework="pytorch", **settings):
        if end:
            threading.Thread(target=wait_and_signal, args=end, daemon=True).start()
        own = {"framework": framework, "mode": frameworks.modes(framework)[0]}
        cell = Cell(**{**CELL, "nodes": 2, "sampling_interval": 0.1, **settings, **own})
        spec = make_spec(cell, 1, root)
        run_on_all_nodes(spec, python_of(framework), folder, tmp_path / "log", final=True)
        assert ranks(folder) == {}
        return folder

    return run


SEVERAL = {"replicas": 2, "batch_split": "per_replica", "batch_size": 16}


@pytest.mark.long
@pytest.mark.parametrize(
    "framework, settings",
    [
        pytest.param(name, settings, id=f"{name}-{what}")
        for name in ABLE
        for what, settings in {"effective": {}, "two replicas on each": SEVERAL}.items()
    ],
)
def test_two_nodes_have_the_losses_of_one_process(framework, settings, reference, on_two_nodes):
    folder = on_two_nodes(framework=framework, **settings)
    events = events_of(folder / "events.jsonl")
    worst = np.abs(losses_of(events) - reference).max()
    print(framework, settings, worst)
    assert worst <= LOSS
    found = next(e for e in events if e["event"] == "settings")
    asked = {key: value for key, value in found["requested"].items() if value is not None}
    effective = found["effective"]
    assert {key: effective[key] for key in asked} == pytest.approx(asked)
    count = settings.get("replicas", 1)
    assert (effective["nodes"], effective["replicas"]) == (2, 2 * count)
    assert effective["batch_size"] == 64
    record = build_record(folder)
    assert record["status"] == "ok"
    there = record["provenance"]["nodes"]
    assert there[0]["machine"] == record["provenance"]["machine"]
    assert there[1]["machine"]["hostname"] == "far"
    measured = next(e for e in events if e.get("name") == "measured")
    assert there[1]["clock_uncertainty"] < (measured["end"] - measured["begin"]) / 10
    assert watched(record, "host_memory")
    alone = record_of_the_first(folder)
    for metric in ("cpu_cores", "host_memory_peak"):
        ratio = record["metrics"][metric]["value"] / alone["metrics"][metric]["value"]
        assert 1.2 < ratio < 5, (metric, ratio)


def watched(record, *more):
    """Whether the sensors of all nodes saw the measured phase from edge to edge."""
    found = [record["metrics"][name] for name in ("cpu_cores", "context_switch_rate", *more)]
    return all((metric["value"] or 0) > 0 for metric in found) or pytest.fail(str(found))


@pytest.mark.long
@pytest.mark.framework("pytorch")
def test_a_node_is_watched_until_late_sensors_of_the_first_have_seen_the_end(
    on_two_nodes, monkeypatch
):
    def late(sampler, sample=Sampler.sample):
        time.sleep(0.4)
        sample(sampler)

    monkeypatch.setattr(Sampler, "sample", late)
    # On a fast machine no late sample falls within the measured phase, so memory has no mean.
    assert watched(build_record(on_two_nodes()))


def record_of_the_first(folder):
    """The record as it were if nothing were known of the other node."""
    spec = json.loads((folder / "spec.json").read_text())
    spec["execution"]["nodes"] = 1
    (folder / "spec.json").write_text(json.dumps(spec))
    (folder / "nodes").rename(folder / "elsewhere")
    return build_record(folder)


@pytest.mark.long
@pytest.mark.framework("pytorch")
@pytest.mark.parametrize(
    "end, status, said",
    [
        (
            (1, signal.SIGKILL), "error",
            "node far: the runner ended with signal SIGKILL and no result",
        ),
        ((0, signal.SIGKILL), "error", "the runner ended with signal SIGKILL and no result"),
        (None, "timeout", "it ran longer than the limit of 8 s"),
        (
            (1, signal.SIGSTOP), "error",
            "node far: all stood still for 1 s: the processes were stopped, or this machine was "
            "paused",
        ),
    ],
    ids=["killed", "the first is killed", "too long", "stopped"],
)  # fmt: skip
def test_the_end_of_a_replica_on_any_node_is_that_of_the_run(end, status, said, on_two_nodes):
    limit = 8.0 if status == "timeout" else 800.0
    folder = on_two_nodes(end, epochs=1000, time_limit=limit, warmup_steps=10**6)
    record = build_record(folder)
    assert (record["status"], record["reason"].replace("node far: it", "it")) == (status, said)
    assert [one["machine"]["hostname"] for one in record["provenance"]["nodes"]][1:] == ["far"]


@pytest.mark.framework("pytorch")
def test_a_node_that_is_not_reached_ends_the_run(on_two_nodes, tmp_path):
    (tmp_path / "bin/srun").write_text("#!/bin/sh\nexit 3\n")
    record = build_record(on_two_nodes())
    assert record["status"] == "error"
    assert record["reason"] == "node far: srun ended with exit status 3 before it was heard of"


def test_where_there_is_no_slurm_job_the_fault_says_so(root, tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    spec = make_spec(Cell(**CELL, framework="pytorch", mode="eager", nodes=2), 1, root)
    with pytest.raises(Fault, match="nodes: 2 are asked for outside of a Slurm job"):
        run_on_all_nodes(spec, "python", tmp_path, tmp_path / "log", final=True)
