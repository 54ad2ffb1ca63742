# Reads: the records of this machine, and bundles of others. Writes:
# - results/bundle.zip, this machine's results in one file (`snakemake bundle`)
# - results/merged/, a comparison of bundles (`snakemake merge --config bundles=ONE.zip,OTHER.zip`)
# - results/machines/, a comparison of this machine with those of the study's `compare_with`, for
#   the report
from shlex import quote

OTHERS = PLAN.study.compare_with
if MACHINE is not None and not 0 < len(str(MACHINE).strip()) <= 60:
    sys.exit("error: machine: give a name of 1 to 60 characters")
if workflow.is_main_process and OTHERS + BUNDLES:
    # This import takes half a second.
    from touchstone.results.bundle import read_manifest
    from touchstone.results.files import InputError

    try:
        for other in OTHERS + BUNDLES:
            read_manifest(Path(other))
    except InputError as fault:
        sys.exit(f"error: {fault}")
NAMED = f"--machine {quote(str(MACHINE).strip())}" if MACHINE is not None else ""
PAGES = ("index.html", "section.html", "machines.csv", "machines.svg", "machines.png")


# Neither a bundle nor a comparison is an output: Snakemake would delete the one that is there before it
# knows whether the other can be made.
rule bundle:
    input:
        plan="results/plan.tsv",
        config="results/config.resolved.yaml",
        missing=INPUTS.not_there_to_pack,
    log:
        "results/logs/bundle.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        name=NAMED,
        hostname="--hostname" if HOSTNAME else "",
    shell:
        'python "$TOUCHSTONE_SCRIPTS"/cli.py bundle results --output results/bundle.zip {params.name}'
        " {params.hostname} 2>&1 | tee {log}"


rule machines:
    input:
        plan="results/plan.tsv",
        config="results/config.resolved.yaml",
        records=INPUTS.records,
        environments=INPUTS.environments,
        manifests=INPUTS.manifests,
        certificates=STUDY.certificates,
        others=OTHERS,
    output:
        expand("results/machines/{page}", page=PAGES),
    log:
        "results/logs/machines.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        name=NAMED,
        code=code_digest.digest(
            "commands/merge.py",
            "report/templates/",
            "report/static/",
        ),
    shell:
        'python "$TOUCHSTONE_SCRIPTS"/cli.py merge {input.others:q} --own results'
        " {params.name} --output results/machines > {log} 2>&1"


rule merge:
    input:
        BUNDLES,
    log:
        "results/logs/merge.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    shell:
        'python "$TOUCHSTONE_SCRIPTS"/cli.py merge {input:q} --output results/merged 2>&1'
        " | tee {log}"
