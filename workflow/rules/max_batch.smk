# Reads: a setting and its data. Writes, if the study has `find_max_batch`,
# results/max_batch/{setting}.json: the largest batch that fits into memory, and all probes. The
# files of the last probe are in results/max_batch/{setting}/.
#
# A search is repeated only if a run of its setting would be, or if the method of searching has
# changed. It takes all cores, like a measured run, and has the lowest priority, so it comes last.


rule find_max_batch:
    input:
        INPUTS.search,
    output:
        "results/max_batch/{setting}.json",
    log:
        "results/logs/max_batch/{setting}.log",
    retries: RETRIES
    conda:
        PARAMS.search_environment
    threads: workflow.cores or 1
    resources:
        # Some 20 probes.
        runtime=240,
        gpu=lambda wildcards: int(INPUTS.searched(wildcards).device == "gpu"),
    params:
        search=PARAMS.search,
    shell:
        '"$TOUCHSTONE_PYTHON" "$TOUCHSTONE_SCRIPTS"/cli.py max-batch --cell {params.search[settings]:q}'
        " {params.search[environment]:q}"
        " --folder results/max_batch/{wildcards.setting} --output {output} 2>&1 | tee {log} >&2"
