"""What the kernel counts of threads: their switches, and which of them ran."""

import os
import threading
import time

import pytest

from calibration.calm import repeated
from touchstone.measure.sensors import Watched, context_switches
from touchstone.measure.sensors import threads as thread_sensor

pytestmark = pytest.mark.alone

HERE = Watched(os.getpid(), "cpu", processes=[os.getpid()])


@repeated
def test_context_switches_of_all_threads():
    lasting = threading.Event()

    def nap():
        for _ in range(100):
            time.sleep(0.001)
        lasting.wait()  # a thread that has ended is not counted

    def work():
        threads = [threading.Thread(target=nap) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        gained.append(sensor.sample()["context_switches"] - start)
        lasting.set()
        for thread in threads:
            thread.join()

    sensor, gained = context_switches.Sensor(HERE), []
    start = sensor.sample()["context_switches"]
    work()
    assert 300 <= gained[0] < 600
    # The threads have ended; what they were seen to do stays.
    assert sensor.sample()["context_switches"] >= start + gained[0]


@repeated
def test_threads_that_ran_since_the_last_sample(monkeypatch):
    stop, resting = threading.Event(), threading.Event()

    def spin():
        while not stop.is_set():
            pass

    def work(seconds):
        time.sleep(seconds)
        return sensor.sample()["busy_threads"]

    assert thread_sensor.unavailable(HERE) is None
    sensor = thread_sensor.Sensor(HERE)
    started = [threading.Thread(target=resting.wait) for _ in range(4)]
    for thread in started:
        thread.start()
    try:
        assert sensor.sample() == {"busy_threads": None}
        assert work(0.3) == 0
        started += [threading.Thread(target=spin) for _ in range(3)]
        for thread in started[4:]:
            thread.start()
        # The interpreter's lock lets one run at a time, and all three in turn.
        assert work(0.6) == 3
        with monkeypatch.context() as patch:
            patch.setattr(thread_sensor, "LEAST", 60.0)
            assert sensor.sample() == {"busy_threads": None}  # too soon
        assert work(0.6) == 3
    finally:
        stop.set()
        resting.set()
        for thread in started:
            thread.join()
    sensor.sample()
    assert work(0.3) == 0
