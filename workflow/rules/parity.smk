# Reads: every network's graph. Makes: results/parity/{network}.json, the certificate that
# the frameworks compute the same, and results/parity.csv. Run it as `snakemake parity`.


rule trace:
    output:
        "results/parity/{network}/{framework}-{precision}.npz",
    log:
        "results/logs/trace/{network}-{framework}-{precision}.log",
    conda:
        parity_environment
    threads: workflow.cores or 1
    params:
        spec=parity_digest,
        pins=parity_pins,
        code=parity_code,
    shell:
        "$TOUCHSTONE_PYTHON $TOUCHSTONE_SCRIPTS/trace.py {wildcards.network}"
        " {wildcards.framework} {wildcards.precision} --output {output} > {log} 2>&1"


rule compare_traces:
    input:
        expand(
            "results/parity/{{network}}/{framework}-{precision}.npz",
            framework=REFERENCE_FIRST,
            precision=STEPS,
        ),
    output:
        "results/parity/{network}.json",
    log:
        "results/logs/compare_traces/{network}.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        code=code.digest("compare_traces.py"),
    shell:
        "python $TOUCHSTONE_SCRIPTS/compare_traces.py {wildcards.network} {input}"
        " --output {output} > {log} 2>&1"


rule parity:
    input:
        expand("results/parity/{network}.json", network=networks.names()),
    output:
        "results/parity.csv",
    log:
        "results/logs/parity.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        code=code.digest("tabulate_parity.py"),
    shell:
        "python $TOUCHSTONE_SCRIPTS/tabulate_parity.py {input} --output {output} 2>&1"
        " | tee {log}"
