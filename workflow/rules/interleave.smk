# Reads: the first run of each cell of a group. Writes: results/interleaved/{group}.json, and beside it
# the folder {group}/ with each set as soon as it is measured, so that a killed job loses one set.


rule interleave:
    input:
        INPUTS.turns,
    output:
        "results/interleaved/{group}.json",
    log:
        "results/logs/interleave/{group}.log",
    retries: RETRIES
    conda:
        "../../envs/base.yaml"
    threads: workflow.cores or 1
    resources:
        attempt=inspected(attempts.attempt),
        runtime=RESOURCES.turn_minutes,
        gpu=RESOURCES.turn_gpus,
    params:
        turns=PARAMS.turns,
    shell:
        '"$TOUCHSTONE_PYTHON" "$TOUCHSTONE_SCRIPTS"/cli.py interleave --group {wildcards.group}'
        " --cells {params.turns[cells]} --options {params.turns[options]:q}"
        " {params.turns[environments]:q}"
        " --attempt {resources.attempt} --identity {params.turns[identity]} --log {log} --output {output}"
