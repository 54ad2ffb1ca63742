# Reads: graphs of networks. Makes: results/parity/{network}.json, the certificate that the
# frameworks of the configuration compute the same; as `snakemake parity` for every network,
# with results/parity.csv.


rule trace:
    output:
        "results/parity/{network}/{framework}.npz",
    log:
        "results/logs/trace/{network}-{framework}.log",
    priority: BEFORE_RUNS
    conda:
        traced_environment
    params:
        spec=traced,
        code=traced_code,
    shell:
        "$TOUCHSTONE_PYTHON $TOUCHSTONE_SCRIPTS/trace.py {wildcards.network}"
        " {wildcards.framework} --output {output} > {log} 2>&1"


rule compare_traces:
    input:
        expand("results/parity/{{network}}/{framework}.npz", framework=TRACED),
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
