"""When a test that measures is tried again."""

import pytest

from calibration import calm


@pytest.fixture
def tries(monkeypatch):
    """How often a test ran, and its end, by whether each try passes and the share of others; the
    cores stay where they are."""
    monkeypatch.setattr(calm, "core_latency", lambda cores: 150.0)

    def run(*outcomes):
        left = list(outcomes)
        made = []

        class Others:
            def share(self):
                return made[-1][1]

        @calm.repeated
        def test():
            made.append(left.pop(0))
            assert made[-1][0]

        monkeypatch.setattr(calm, "Others", Others)
        monkeypatch.setattr(calm, "_wait", lambda: None)
        try:
            test()
        except (AssertionError, pytest.skip.Exception) as ended:
            return len(made), type(ended)
        return len(made), None

    return run


def test_the_second_failure_on_a_calm_machine_is_a_failure(tries):
    assert tries((False, 0.01), (False, 0.01)) == (2, AssertionError)
    assert tries((False, 0.01), (True, 0.01)) == (2, None)


def test_a_failure_on_a_disturbed_machine_is_tried_again(tries):
    assert tries((False, 0.5), (False, 0.2), (True, 0.5)) == (3, None)
    assert tries((False, 0.01), (False, 0.5), (False, 0.01)) == (3, AssertionError)


def test_a_failure_while_the_cores_moved_is_tried_again(tries, monkeypatch):
    readings = iter([150.0, 300.0, *[300.0, 350.0] * 2])
    monkeypatch.setattr(calm, "core_latency", lambda cores: next(readings))
    assert tries(*[(False, 0.01)] * 3) == (3, AssertionError)


def test_on_a_machine_that_never_rests_it_is_skipped(tries):
    assert tries(*[(False, 0.5)] * calm.TRIES) == (calm.TRIES, pytest.skip.Exception)
