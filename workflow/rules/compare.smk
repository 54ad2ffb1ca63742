# Reads: two results folders (`snakemake compare --config against=OLD_RESULTS`). Prints a verdict, and
# writes results/tables/changes.csv. The job fails if a cell is slower or cannot be compared; the
# table is no output, because Snakemake would delete it then.


rule compare:
    input:
        "results/tables/measurements.csv",
    log:
        "results/logs/compare.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        against=AGAINST or "",
    shell:
        "python $TOUCHSTONE_SCRIPTS/cli.py compare {params.against:q} results"
        " --output results/tables/changes.csv 2>&1 | tee {log}"
