"""What a GPU's link to its host carries, as NVML tells it."""

from types import SimpleNamespace

from touchstone.measure.environment import pcie_link


def nvml(generation, lanes=16):
    def told(handle):
        if generation is None:
            raise ValueError
        return generation

    return SimpleNamespace(
        NVMLError=ValueError,
        nvmlDeviceGetMaxPcieLinkGeneration=told,
        nvmlDeviceGetMaxPcieLinkWidth=lambda handle: lanes,
    )


def test_sixteen_lanes_of_the_fourth_generation_carry_31_gigabytes_a_second():
    assert pcie_link(nvml(4), None) == {"pcie_mb_per_s": 31504}


def test_a_link_that_nobody_tells_or_knows_is_not_there():
    assert pcie_link(nvml(None), None) == pcie_link(nvml(99), None) == {}
