# Reads: a setting, its data. Makes, where the study has `find_max_batch`,
# results/max_batch/{setting}.json, the largest batch that fits into memory with all its probes;
# the last probe's own files lie in results/max_batch/{setting}/.
#
# A search is made again when, and only when, a run of its setting would be, or the way to search
# has changed. It takes all cores, like a measured run; and after those, for its priority is least.


rule find_max_batch:
    input:
        searched_manifest,
    output:
        "results/max_batch/{setting}.json",
    log:
        "results/logs/max_batch/{setting}.log",
    conda:
        searched_environment
    threads: workflow.cores or 1
    resources:
        # Some 20 probes.
        runtime=240,
        gpu=lambda wildcards: int(searched(wildcards).device == "gpu"),
    params:
        settings=lambda wildcards: canonical(
            searched(wildcards).model_dump(exclude_defaults=True)
        ),
        spec=lambda wildcards: digest(probe_spec(searched(wildcards), 1, None, ROOT)),
        pins=lambda wildcards: installed(searched_environment(wildcards)),
        code=searched_code,
        errors=lambda wildcards: attempts.faults(
            f"results/max_batch/{wildcards.setting}"
        ),
    shell:
        "$TOUCHSTONE_PYTHON $TOUCHSTONE_SCRIPTS/find_max_batch.py --cell {params.settings:q}"
        " --folder results/max_batch/{wildcards.setting} --output {output} 2>&1 | tee {log} >&2"
