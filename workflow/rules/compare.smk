# Reads: two results folders (`snakemake compare --config against=OLD_RESULTS [tolerance=5%]`). Prints
# a verdict, and writes results/compare/. The job fails if a cell is slower, cannot be compared, or with
# a tolerance is not known; the files are no output, because Snakemake would delete them then.


rule compare:
    input:
        "results/tables/measurements.csv",
    log:
        "results/logs/compare.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        old=GATE_OPTIONS[0],
        options=GATE_OPTIONS[1:],
    shell:
        'python "$TOUCHSTONE_SCRIPTS"/cli.py compare {params.old:q} results {params.options:q}'
        " --output results/compare/changes.csv 2>&1 | tee {log}"
