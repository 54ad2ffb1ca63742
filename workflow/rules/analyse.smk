# Reads: the files of every run. Makes: results/records/, results/tables/, results/figures/
# and results/report/index.html.
FIGURES = (
    "throughput",
    "cpu_utilization",
    "host_memory",
    "test_accuracy",
    "training_loss",
    *(["operations"] if any(map(is_operation, PLAN.cells.values())) else []),
    *(["scaling"] if SCALING else []),
)


rule parse_run:
    input:
        OF_RUN,
    output:
        "results/records/{cell}/rep{repeat}.json",
    log:
        "results/logs/parse_run/{cell}-rep{repeat}.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        code=code.digest("parse_run.py", "../schemas/record.schema.json"),
    shell:
        "python $TOUCHSTONE_SCRIPTS/parse_run.py --output {output}"
        " results/runs/{wildcards.cell}/rep{wildcards.repeat} > {log} 2>&1"


rule gather:
    input:
        plan="results/plan.tsv",
        records=records,
        certificates=CERTIFICATES,
        max_batches=MAX_BATCHES,
    output:
        **({"scaling": "results/tables/scaling.csv"} if SCALING else {}),
        measurements="results/tables/measurements.csv",
        summary="results/tables/summary.csv",
        comparisons="results/tables/comparisons.csv",
        findings=expand(
            "results/tables/{name}.{kind}",
            name=("precision", "bottleneck", "trials"),
            kind=("csv", "md"),
        ),
    log:
        "results/logs/gather.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        code=code.digest("gather.py"),
        max_batches="--max-batches results/max_batch" if MAX_BATCHES else "",
        scaling="--scaling" if SCALING else "",
    shell:
        "python $TOUCHSTONE_SCRIPTS/gather.py --plan {input.plan} --records results/records"
        " --output results/tables --certificates {input.certificates} {params.max_batches}"
        " {params.scaling} > {log} 2>&1"


rule plot:
    input:
        plan="results/plan.tsv",
        summary="results/tables/summary.csv",
    output:
        expand("results/figures/{name}.{kind}", name=FIGURES, kind=("svg", "png")),
        "results/figures/captions.json",
    log:
        "results/logs/plot.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        code=code.digest("plot.py"),
    shell:
        "python $TOUCHSTONE_SCRIPTS/plot.py --plan {input.plan} --tables results/tables"
        " --records results/records --output results/figures > {log} 2>&1"


rule report:
    input:
        plan="results/plan.tsv",
        config="results/config.resolved.yaml",
        summary="results/tables/summary.csv",
        figures=expand("results/figures/{name}.svg", name=FIGURES),
        captions="results/figures/captions.json",
        certificates=CERTIFICATES,
        max_batches=MAX_BATCHES,
        machines=["results/machines/section.html"] if OTHERS else [],
        # Linked there, as are those of other studies that lie beside them.
        pages=STUDY_PAGES,
    output:
        "results/report/index.html",
    log:
        "results/logs/report.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        machines=lambda wildcards, input: (
            f"--machines {input.machines[0]}" if input.machines else ""
        ),
        code=code.digest(
            "report.py",
            "analyse/report.html.j2",
            "analyse/page.css",
            "analyse/sortable.js",
        ),
        max_batches="--max-batches results/max_batch" if MAX_BATCHES else "",
    shell:
        "python $TOUCHSTONE_SCRIPTS/report.py --plan {input.plan} --config {input.config}"
        " --tables results/tables --records results/records --figures results/figures"
        " --output {output} --certificates {input.certificates} {params.max_batches}"
        " {params.machines} > {log} 2>&1"
