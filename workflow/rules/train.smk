# Reads: the cell's settings, its data; where it predicts, the weights that the run of another cell
# has trained (docs/inference.md). Makes: results/runs/{cell}/rep{n}/ with spec.json,
# events.jsonl, telemetry.csv, env.json.
#
# A run is made again when, and only when, its spec, its environment, or code that can
# change its numbers has changed: `params` carry exactly these. It takes all the cores that
# Snakemake has, so that nothing else runs beside a measured run.
#
# A fault of machine or code is tried again at once; at the last attempt it is recorded as the
# outcome `error`, so that the tables go on, and the next execution makes the run again.


FILES = ("spec.json", "events.jsonl", "telemetry.csv", "env.json")
"""What a run leaves; without names in the rules, which Snakemake would set for every run."""
OF_RUN = [f"results/runs/{{cell}}/rep{{repeat}}/{file}" for file in FILES]


rule train:
    input:
        INPUTS.run,
    output:
        OF_RUN,
    log:
        "results/runs/{cell}/rep{repeat}/train.log",
    priority: RESOURCES.priority
    # A job of a cluster is tried again by the Snakemake that submitted it, not by the one in it.
    retries: attempts.ATTEMPTS - 1 if workflow.is_main_process else 0
    conda:
        PARAMS.environment
    threads: workflow.cores or 1
    resources:
        attempt=inspected(attempts.attempt),
        runtime=RESOURCES.minutes,
        gpu=RESOURCES.gpus,
        # Slurm would take the GPUs of a run from several nodes.
        nodes=RESOURCES.nodes,
        tasks=RESOURCES.tasks,
    params:
        run=PARAMS.run,
    shell:
        "$TOUCHSTONE_PYTHON $TOUCHSTONE_SCRIPTS/cli.py run --cell {params.run[settings]:q}"
        " --repeat {wildcards.repeat} --attempt {resources.attempt} --log {log}"
        " --run results/runs/{wildcards.cell}/rep{wildcards.repeat} {params.run[weights]}"
