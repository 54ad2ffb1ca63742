# Reads: graphs of networks. Writes: results/parity/{network}.json, the certificate that the
# frameworks of the study compute the same. `snakemake parity` does this for every network, and
# writes results/parity.csv.


rule parity_steps:
    output:
        "results/parity/{network}/{stack}{single}.npz",
    log:
        "results/logs/parity_steps/{network}-{stack}{single}.log",
    wildcard_constraints:
        single="(-single)?",
    priority: BEFORE_RUNS
    conda:
        PARAMS.parity_environment
    # It computes on one core.
    threads: RESOURCES.parity_threads
    resources:
        mem_mb=RESOURCES.parity_mib,
    params:
        steps=PARAMS.parity,
    # The installation of an environment is announced on descriptor 3, the terminal.
    shell:
        "TOUCHSTONE_TERMINAL=3"
        ' "$TOUCHSTONE_PYTHON" "$TOUCHSTONE_SCRIPTS"/cli.py parity {wildcards.network}'
        " {params.steps[framework]} --style {params.steps[style]} {params.steps[single]}"
        " {params.steps[environment]:q}"
        " --output {output} 3>&2 > {log} 2>&1"


rule certificate:
    input:
        steps=expand("results/parity/{{network}}/{stack}.npz", stack=STUDY.compared),
        # The reference in single precision too, if a framework has only that.
        single=(
            [f"results/parity/{{network}}/{REFERENCE}-single.npz"]
            if STUDY.single
            else []
        ),
    output:
        "results/parity/{network}.json",
    log:
        "results/logs/certificate/{network}.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        single=lambda wildcards, input: (
            f"--single {input.single}" if input.single else ""
        ),
        code=code_digest.digest("commands/compare_parity.py"),
    shell:
        'python "$TOUCHSTONE_SCRIPTS"/cli.py compare-parity {wildcards.network}'
        " {input.steps} {params.single} --output {output} > {log} 2>&1"


rule parity:
    input:
        expand("results/parity/{network}.json", network=networks.names()),
    # The table is no output: Snakemake would delete it if the job fails because of a difference.
    log:
        "results/logs/parity.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    shell:
        'python "$TOUCHSTONE_SCRIPTS"/cli.py tabulate-parity {input} --output results/parity.csv 2>&1'
        " | tee {log}"
