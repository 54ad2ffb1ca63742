"""Touchstone: benchmark deep-learning frameworks on this machine."""


include: "workflow/rules/setup.smk"


configfile: "config/config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/plan.smk"
include: "workflow/rules/datasets.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/interleave.smk"
include: "workflow/rules/max_batch.smk"
include: "workflow/rules/machines.smk"
include: "workflow/rules/analyse.smk"
include: "workflow/rules/studies.smk"
include: "workflow/rules/parity.smk"
include: "workflow/rules/compare.smk"


rule all:
    default_target: True
    input:
        "results/config.resolved.yaml",
        "results/report/index.html",
        f"{STUDY.report}/index.html",
        INPUTS.runs,
