# Reads: config/datasets/*.yaml. Makes: results/downloads/{dataset}/ with the sources, and
# results/data/{dataset}/{format}/ with the records and their manifest.json.


rule download_dataset:
    output:
        touch("results/downloads/{dataset}.done"),
    log:
        "results/logs/download_dataset/{dataset}.log",
    priority: BEFORE_RUNS
    conda:
        "../../envs/base.yaml"
    params:
        dataset=dataset_digest,
    shell:
        "python $TOUCHSTONE_SCRIPTS/download_dataset.py {wildcards.dataset}"
        " --output results/downloads/{wildcards.dataset} 2>&1 | tee {log} >&2"


rule convert_dataset:
    input:
        "results/downloads/{dataset}.done",
    output:
        "results/data/{dataset}/{format}/manifest.json",
    log:
        "results/logs/convert_dataset/{dataset}-{format}.log",
    priority: BEFORE_RUNS
    conda:
        "../../envs/base.yaml"
    params:
        dataset=dataset_digest,
        code=code.digest("convert_dataset.py"),
    shell:
        "python $TOUCHSTONE_SCRIPTS/convert_dataset.py {wildcards.dataset}"
        " --source results/downloads/{wildcards.dataset} --format {wildcards.format}"
        " --output results/data/{wildcards.dataset}/{wildcards.format} > {log} 2>&1"
