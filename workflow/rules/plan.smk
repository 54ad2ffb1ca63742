# Reads: the configuration. Writes: results/plan.tsv, results/config.resolved.yaml.


rule plan:
    output:
        plan="results/plan.tsv",
        config="results/config.resolved.yaml",
    log:
        "results/logs/plan.log",
    priority: BEFORE_RUNS
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        # Braces of the configuration are no wildcards.
        config=lambda wildcards: canonical(PLAN.resolved()),
        cells=digest(sorted(PLAN.cells)),
        code=code_digest.digest("commands/plan.py"),
    shell:
        'python "$TOUCHSTONE_SCRIPTS"/cli.py plan --config {params.config:q}'
        " --plan {output.plan} --resolved {output.config} > {log} 2>&1"
