# Reads: two results folders, `snakemake compare --config against=OLD_RESULTS`. Makes: its
# verdict on stdout, and results/tables/changes.csv. It fails where a cell is slower or cannot
# be compared, so the table is no output, which Snakemake would delete then.


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
