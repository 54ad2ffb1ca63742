# Reads: the files of every run. Writes: results/records/, results/tables/, results/findings.json,
# results/figures/, results/report/{study}/ and results/report/index.html, the list of all studies.
# The figures that have a version for a phone.
NARROW = (
    "throughput",
    "cpu_utilization",
    "host_memory",
    "memory_speed",
    "phases",
    "test_accuracy",
    "training_loss",
    *(["evaluations"] if STUDY.evaluates else []),
)
FIGURES = (
    *NARROW,
    "speed",
    *(
        ["operations"]
        if any(cell.kind == OPERATION for cell in PLAN.cells.values())
        else []
    ),
    *(["scaling"] if STUDY.scaling else []),
    *(["profile"] if STUDY.profiles else []),
)
PROFILES = "--profiles results/profiles" if STUDY.profiles else ""
# What `snakemake --report` shows of the tables and figures.
TABLE = {"caption": "../report/table.rst", "category": "Tables"}
FIGURE = {"caption": "../report/figure.rst", "category": "Figures"}


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
        code=code_digest.digest("commands/parse.py", "../../schemas/record.schema.json"),
    shell:
        'python "$TOUCHSTONE_SCRIPTS"/cli.py parse --output {output}'
        " results/runs/{wildcards.cell}/rep{wildcards.repeat} > {log} 2>&1"


rule gather:
    input:
        plan="results/plan.tsv",
        records=INPUTS.records,
        certificates=STUDY.certificates,
        max_batches=STUDY.max_batches,
        interleaved=STUDY.interleaved,
        profiles=STUDY.profiles,
        data=STUDY.data_reports,
    output:
        **({"scaling": "results/tables/scaling.csv"} if STUDY.scaling else {}),
        **({"profile": "results/tables/profile.csv"} if STUDY.profiles else {}),
        measurements=report(
            "results/tables/measurements.csv", labels={"table": "every run"}, **TABLE
        ),
        summary=report(
            "results/tables/summary.csv",
            labels={"table": "every configuration"},
            **TABLE,
        ),
        comparisons=report(
            "results/tables/comparisons.csv", labels={"table": "ratios"}, **TABLE
        ),
        findings="results/findings.json",
        answers=expand(
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
        code=code_digest.digest("commands/gather.py"),
        max_batches="--max-batches results/max_batch" if STUDY.max_batches else "",
        scaling="--scaling" if STUDY.scaling else "",
        profiles=PROFILES,
    shell:
        'python "$TOUCHSTONE_SCRIPTS"/cli.py gather --plan {input.plan} --records results/records'
        " --output results/tables --findings {output.findings}"
        " --certificates {input.certificates} --interleaved {input.interleaved} {params.max_batches} {params.scaling}"
        " {params.profiles} --data {input.data:q} > {log} 2>&1"


rule plot:
    input:
        plan="results/plan.tsv",
        summary="results/tables/summary.csv",
        findings="results/findings.json",
        interleaved=STUDY.interleaved,
        profiles=STUDY.profiles,
    output:
        [
            report(
                f"results/figures/{name}.svg",
                labels={"figure": name.replace("_", " ")},
                **FIGURE,
            )
            for name in FIGURES
        ],
        expand("results/figures/{name}.png", name=FIGURES),
        expand("results/figures/{name}-narrow.svg", name=NARROW),
        "results/figures/captions.json",
    log:
        "results/logs/plot.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        code=code_digest.digest("commands/plot.py"),
        profiles=PROFILES,
    shell:
        'python "$TOUCHSTONE_SCRIPTS"/cli.py plot --plan {input.plan} --tables results/tables'
        " --records results/records --findings {input.findings} --output results/figures"
        " --interleaved {input.interleaved} {params.profiles} > {log} 2>&1"


rule report:
    input:
        config="results/config.resolved.yaml",
        findings="results/findings.json",
        figures=expand("results/figures/{name}.svg", name=FIGURES),
        captions="results/figures/captions.json",
        machines=["results/machines/section.html"] if OTHERS else [],
        # The report links to the page of a published study.
        pages=STUDY.pages,
        # It compares them with their digests.
        sources=STUDY.shared,
    output:
        list="results/report/index.html",
        page=report(
            f"{STUDY.report}/index.html",
            caption="../report/page.rst",
            category="Answer",
            labels={"page": "report"},
        ),
        answer=f"{STUDY.report}/answer.json",
        config=f"{STUDY.report}/config.yaml",
    log:
        "results/logs/report.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        machines=lambda wildcards, input: (
            f"--machines {input.machines[0]}" if input.machines else ""
        ),
        code=code_digest.digest(
            "commands/report.py",
            "report/templates/",
            "report/static/",
        ),
    shell:
        'python "$TOUCHSTONE_SCRIPTS"/cli.py report --findings {input.findings}'
        " --config {input.config} --figures results/figures --output {output.page} --list {output.list}"
        " --sources {input.sources} {params.machines} > {log} 2>&1"
