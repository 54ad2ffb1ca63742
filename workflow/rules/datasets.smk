# Reads: config/datasets/*.yaml, and files that the user provides. Writes:
# results/downloads/{dataset}/ with the sources, and results/data/{dataset}/{format}/ with the
# records and their manifest.json. `snakemake verify` checks all these files again, `make verify
# REPAIR=1` also deletes what is damaged.


rule download_dataset:
    output:
        touch("results/downloads/{dataset}.done"),
    log:
        "results/logs/download_dataset/{dataset}.log",
    priority: BEFORE_RUNS
    # The nodes of a cluster often have no network.
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        dataset=PARAMS.dataset,
    shell:
        'python "$TOUCHSTONE_SCRIPTS"/cli.py download {wildcards.dataset}'
        " --output results/downloads/{wildcards.dataset} 2>&1 | tee {log} >&2"


rule convert_dataset:
    input:
        "results/downloads/{dataset}.done",
    output:
        "results/data/{dataset}/{format}/manifest.json",
    log:
        "results/logs/convert_dataset/{dataset}-{format}.log",
    wildcard_constraints:
        format="|".join(
            path.stem
            for path in (ROOT / "workflow/scripts/touchstone/datasets/formats").glob(
                "[a-z]*.py"
            )
        ),
    priority: BEFORE_RUNS
    conda:
        "../../envs/base.yaml"
    # One process per shard, up to the number of cores.
    threads: lambda wildcards: catalogue.most_shards(wildcards.dataset)
    params:
        dataset=PARAMS.dataset,
        code=PARAMS.conversion,
    shell:
        'python "$TOUCHSTONE_SCRIPTS"/cli.py convert {wildcards.dataset}'
        " --source results/downloads/{wildcards.dataset} --format {wildcards.format}"
        " --output results/data/{wildcards.dataset}/{wildcards.format}"
        " --processes {threads} 2>&1 | tee {log} >&2"


rule verify:
    log:
        "results/logs/verify.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    shell:
        'python "$TOUCHSTONE_SCRIPTS"/cli.py verify results/data 2>&1 | tee {log}'
