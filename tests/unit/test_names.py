"""How reports spell frameworks, modes and settings."""

import pytest

from touchstone.plan import frameworks, names
from touchstone.schema.spec import PLAIN, TUNED


@pytest.mark.parametrize("framework", frameworks.adapters())
def test_every_framework_has_a_name_and_names_only_its_own_modes(framework):
    known = frameworks.constants(frameworks.FOLDER / framework / "names.py")
    assert known.keys() <= {"NAME", "MODES", "TESTED"} and known["NAME"] == names.framework_name(
        framework
    )
    modes = {mode for style in (TUNED, PLAIN) for mode in frameworks.modes(framework, style, "gpu")}
    assert known.get("MODES", {}).keys() <= modes


@pytest.mark.parametrize(
    ("factor", "value", "text"),
    [
        ("framework", "tensorflow", "TensorFlow"), ("framework", "../evil", "../evil"),
        ("mode", "eager_channels_last", "eager, channels last"), ("mode", "my_mode", "my mode"),
        ("device", "gpu", "GPU"), ("threads", "1", "1 thread"), ("threads", "4", "4 threads"),
        ("threads", "", "all threads"), ("precision", "bf16", "bf16"),
        ("batch_size", "64", "batch size 64"), ("input", "memory", "input from memory"),
        ("steps", "", "all steps"), ("steps", "9", "steps 9"),
        ("training_accuracy", "True", "training accuracy"), ("flip", "False", "no flip"),
        ("target_accuracy", "", "no target accuracy"),
        ("deterministic", "False", "not deterministic"),
    ],
)  # fmt: skip
def test_settings_in_words(factor, value, text):
    assert names.setting_name(factor, value, "pytorch") == text
