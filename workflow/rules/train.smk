# Reads: the cell's settings and data; for inference also the weights that a run of another cell
# trained (docs/inference.md). Writes: results/runs/{cell}/rep{n}/ with spec.json, events.jsonl,
# telemetry.csv, env.json.
#
# A run is repeated only if its spec, its environment, or code that can change its numbers has
# changed; `params` has exactly these. A run takes all the cores that Snakemake has, so that no
# other job runs at the same time.
#
# If a run fails because of the machine or the code, Snakemake retries it at once. The last attempt
# records the outcome `error`, so that the tables can be written; the next execution repeats the run.


FILES = ("spec.json", "events.jsonl", "telemetry.csv", "env.json")
"""What a run writes. They have no names in the rule, which would cost Snakemake time for every run."""
OF_RUN = [f"results/runs/{{cell}}/rep{{repeat}}/{file}" for file in FILES]


rule train:
    input:
        INPUTS.run,
    output:
        OF_RUN,
    log:
        "results/runs/{cell}/rep{repeat}/train.log",
    priority: RESOURCES.priority
    retries: RETRIES
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
        '"$TOUCHSTONE_PYTHON" "$TOUCHSTONE_SCRIPTS"/cli.py run --cell {params.run[settings]:q}'
        " --repeat {wildcards.repeat} --attempt {resources.attempt} --log {log}"
        " --run results/runs/{wildcards.cell}/rep{wildcards.repeat} {params.run[weights]}"
        " {params.run[environment]:q}"
