"""What the kernel counts per process: switches, faults, disk and network bytes."""

import mmap
import os
import socket
import threading
import time
from types import SimpleNamespace

import psutil
import pytest

from touchstone.measure import processes
from touchstone.measure.sensors import Watched, disk, memory, network, page_faults

HERE = Watched(os.getpid(), "cpu", processes=[os.getpid()])


def increase(module, work):
    """What a sensor's columns gain while `work` is done in this process."""
    assert module.unavailable(HERE) is None
    sensor = module.Sensor(HERE)
    before = sensor.sample()
    assert list(before) == list(module.COLUMNS)
    work()
    after = sensor.sample()
    return {column: after[column] - before[column] for column in before}


def test_page_faults():
    pages = 2048

    def touch():
        with mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE) as area:
            area.madvise(mmap.MADV_NOHUGEPAGE)
            for page in range(pages):
                area[page * mmap.PAGESIZE] = 1

    gained = increase(page_faults, touch)
    assert pages <= gained["minor_page_faults"] < pages * 1.2


def test_bytes_written_to_disk(tmp_path):
    size = 4 << 20
    kinds = {part.mountpoint: part.fstype for part in psutil.disk_partitions(all=True)}
    place = next(str(path) for path in (tmp_path, *tmp_path.parents) if str(path) in kinds)
    if kinds[place] == "tmpfs":
        pytest.skip(f"{place} lies in memory")

    def write():
        with open(tmp_path / "data", "wb") as file:
            file.write(os.urandom(size))
            os.fsync(file.fileno())

    gained = increase(disk, write)
    assert size <= gained["disk_written"] < size * 1.5


def test_memory_that_is_dear_to_read_is_read_less_often(monkeypatch):
    now = 100.0  # on a clock that the test moves, as a busy machine may take its time
    clock = SimpleNamespace(monotonic=lambda: now, thread_time=time.thread_time)
    monkeypatch.setattr(memory, "time", clock)
    sensor = memory.Sensor(HERE)
    first = sensor.sample()
    rest = sensor.rests_until
    with mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        for page in range(0, len(area), mmap.PAGESIZE):
            area[page] = 1
        second = sensor.sample()
        assert sensor.rests_until == rest > now
        assert second["host_memory"] - first["host_memory"] == pytest.approx(64, abs=2)
        assert second["host_memory_high_water"] >= second["host_memory"]
        now = rest
        assert sensor.sample()["host_memory"] == pytest.approx(second["host_memory"], abs=2)
        assert sensor.rests_until > rest


def test_memory_against_a_limit():
    sensor = memory.Sensor(HERE)
    resident, shared_out = sensor.used(1e9), sensor.used(0.0)
    assert (
        0 < shared_out < resident == pytest.approx(psutil.Process().memory_info().rss / 2**20, 0.1)
    )


def test_network_bytes_leave_loopback_out():
    def talk():
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            with socket.create_connection(server.getsockname()) as client:
                taken, _ = server.accept()
                sender = threading.Thread(target=client.sendall, args=(bytes(8 << 20),))
                sender.start()
                left = 8 << 20
                while left:
                    left -= len(taken.recv(1 << 20))
                sender.join()
                taken.close()

    def others():
        counters = psutil.net_io_counters(pernic=True)
        found = [counter for name, counter in counters.items() if name != "lo"]
        return sum(c.bytes_recv for c in found), sum(c.bytes_sent for c in found)

    before = others()
    read = network.Sensor(HERE).sample()
    after = others()
    assert before[0] <= read["network_received"] <= after[0]
    assert before[1] <= read["network_sent"] <= after[1]
    assert increase(network, talk)["network_sent"] < 8 << 20


def test_a_process_that_has_gone_gives_nothing():
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    gone = Watched(pid, "cpu", processes=[pid])
    assert processes.account(pid) is None and processes.fields(pid, "status") is None
    assert processes.children(pid) == [] and processes.threads(pid) == []
    assert network.Sensor(gone).sample() == dict.fromkeys(network.COLUMNS)


def test_a_tree_lists_parents_before_their_children():
    read, write = os.pipe()
    child = os.fork()
    if not child:
        if os.fork():
            os.wait()
        else:
            os.write(write, b".")
            time.sleep(3600)
        os._exit(0)
    os.read(read, 1)
    try:
        tree = processes.tree(child)
        assert tree[0] == child and len(tree) == 2
        assert psutil.Process(tree[1]).ppid() == child
    finally:
        for pid in reversed(tree):
            os.kill(pid, 9)
        os.waitpid(child, 0)
