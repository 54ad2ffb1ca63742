# Reads: the tables of a repeated published study, its published figures and claims, and the bundles
# of other machines that `compare_with` names. Writes:
# results/studies/{study}/ with tables, figures and claims.csv, and the page
# results/report/{study}/study.html. `snakemake check_published` checks all published tables, and fails if one
# contradicts itself.


rule judge_study:
    input:
        INPUTS.study_files,
        others=PLAN.study.compare_with,
        interleaved=STUDY.interleaved,
        plan="results/plan.tsv",
        config="results/config.resolved.yaml",
        tables=["results/tables/measurements.csv", "results/tables/summary.csv"],
    output:
        folder=directory("results/studies/{study}"),
        page=report(
            "results/report/{study}/study.html",
            caption="../report/study.rst",
            category="Answer",
            labels={"page": "published study"},
        ),
    log:
        "results/logs/judge_study/{study}.log",
    wildcard_constraints:
        study=re.escape(PLAN.study.study),
    localrule: True
    conda:
        "../../envs/base.yaml"
    params:
        code=code_digest.digest(
            "commands/judge.py",
            "published/page.html.j2",
            "report/templates/",
            "report/static/",
        ),
    shell:
        'python "$TOUCHSTONE_SCRIPTS"/cli.py judge --plan {input.plan} --config {input.config}'
        " --tables results/tables --records results/records --output {output.folder}"
        " --page {output.page} --interleaved {input.interleaved} > {log} 2>&1"


rule check_published:
    input:
        sorted(map(str, (ROOT / "config/published").glob("*.csv"))),
    # The findings are no output: Snakemake would delete them if a table contradicts itself, which
    # fails the job.
    log:
        "results/logs/check_published.log",
    localrule: True
    conda:
        "../../envs/base.yaml"
    shell:
        'python "$TOUCHSTONE_SCRIPTS"/cli.py check-published {input:q}'
        " --output results/studies/findings.csv 2>&1 | tee {log}"
