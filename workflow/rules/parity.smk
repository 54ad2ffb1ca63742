# Reads: graphs of networks. Makes: results/parity/{network}.json, the certificate that the
# frameworks of the configuration compute the same; as `snakemake parity` for every network,
# with results/parity.csv.


rule trace:
    output:
        "results/parity/{network}/{framework}{single}.npz",
    log:
        "results/logs/trace/{network}-{framework}{single}.log",
    wildcard_constraints:
        single="(-single)?",
    priority: BEFORE_RUNS
    conda:
        traced_environment
    # It computes on one core.
    threads: trace_threads
    resources:
        mem_mb=trace_mib,
    params:
        spec=traced,
        single=lambda wildcards: "--single" if wildcards.single else "",
        code=traced_code,
    shell:
        "$TOUCHSTONE_PYTHON $TOUCHSTONE_SCRIPTS/trace.py {wildcards.network}"
        " {wildcards.framework} {params.single} --output {output} > {log} 2>&1"


rule compare_traces:
    input:
        traces=expand("results/parity/{{network}}/{framework}.npz", framework=TRACED),
        # The reference once more, where a framework has single precision alone.
        single=(
            [f"results/parity/{{network}}/{REFERENCE}-single.npz"]
            if any(map(frameworks.single_precision_only, TRACED))
            else []
        ),
    output:
        "results/parity/{network}.json",
    log:
        "results/logs/compare_traces/{network}.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        single=lambda wildcards, input: (
            f"--single {input.single}" if input.single else ""
        ),
        code=code.digest("compare_traces.py"),
    shell:
        "python $TOUCHSTONE_SCRIPTS/compare_traces.py {wildcards.network}"
        " {input.traces} {params.single} --output {output} > {log} 2>&1"


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
