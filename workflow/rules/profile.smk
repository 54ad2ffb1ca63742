# Reads: the first run of a cell, and its data. Writes, if the study has `profile`,
# results/profiles/{cell}.json: the time of each layer in some steps under the framework's profiler.
# They are steps of a process of its own, so that no measured run is profiled. It takes all cores,
# like a measured run, and comes after the runs.


rule profile:
    input:
        INPUTS.profiled,
    output:
        "results/profiles/{cell}.json",
    log:
        "results/logs/profile/{cell}.log",
    retries: RETRIES
    conda:
        PARAMS.environment
    threads: workflow.cores or 1
    resources:
        runtime=RESOURCES.minutes,
        gpu=RESOURCES.gpus,
    params:
        profile=PARAMS.profile,
    shell:
        '"$TOUCHSTONE_PYTHON" "$TOUCHSTONE_SCRIPTS"/cli.py profile'
        " --run results/runs/{wildcards.cell}/rep1 {params.profile[environment]:q}"
        " --log {log} --output {output}"
