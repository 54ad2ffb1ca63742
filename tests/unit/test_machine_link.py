"""A GPU's generation, and what its link to its host carries, as NVML reports them."""

from types import SimpleNamespace

from touchstone.measure.environment import generation, pcie_link


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


def test_the_generation_of_a_gpu_is_its_compute_capability():
    def refused(handle):
        raise ValueError

    known = SimpleNamespace(nvmlDeviceGetCudaComputeCapability=lambda handle: (9, 0))
    assert generation(known, None) == {"compute_capability": "9.0"}
    unknown = SimpleNamespace(NVMLError=ValueError, nvmlDeviceGetCudaComputeCapability=refused)
    assert generation(unknown, None) == {}
