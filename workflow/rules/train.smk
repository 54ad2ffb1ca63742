# Reads: the cell's settings, its data. Makes: results/runs/{cell}/rep{n}/ with spec.json,
# events.jsonl, telemetry.csv, env.json.
#
# A run is made again when, and only when, its spec, its environment, or code that can
# change its numbers has changed: `params` carry exactly these. It takes all the cores that
# Snakemake has, so that nothing else runs beside a measured run.


rule train:
    input:
        manifest,
    output:
        spec="results/runs/{cell}/rep{repeat}/spec.json",
        events="results/runs/{cell}/rep{repeat}/events.jsonl",
        telemetry="results/runs/{cell}/rep{repeat}/telemetry.csv",
        env="results/runs/{cell}/rep{repeat}/env.json",
    log:
        "results/runs/{cell}/rep{repeat}/train.log",
    priority: priority
    conda:
        environment
    threads: workflow.cores or 1
    params:
        settings=settings,
        spec=spec_digest,
        pins=pins,
        code=train_code,
    shell:
        "$TOUCHSTONE_PYTHON $TOUCHSTONE_SCRIPTS/train.py --cell {params.settings:q}"
        " --repeat {wildcards.repeat} --log {log}"
        " --run results/runs/{wildcards.cell}/rep{wildcards.repeat}"
