"""Suggestions for a mistyped word: a table of what people type, then spelling.

A wrong suggestion is worse than none, so spelling suggests only what is nearly the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

_MOST = 5000
"""Names to compare at most: a record may hold any number, and an error must not take long."""
_LIKE = 0.8
"""Likeness of a suggestion, from 0 to 1: `passs` and `passes` have 0.91."""
_SHORT = 4
_LIKE_SHORT = 0.7
"""Letters of a short word, and the likeness of its suggestion: `tsak` and `task` have 0.75."""


_INSTEAD = """
temperature top_p top_k max_tokens max_completion_tokens: it is a parameter of the judge call: -p temperature=0
reasoning_effort frequency_penalty presence_penalty stop: it is a parameter of the judge call: -p temperature=0
output out o output_file output_path outfile save: OUTPUT is the second argument: `ruler score INPUT OUTPUT`
input i in input_file input_path file data dataset: INPUT is the first argument: `ruler score INPUT OUTPUT`
resume continue restart: run the same command again, it resumes
overwrite replace: use --force
json format_json as_json: `ruler report SCORED --json` prints the figures of a scored file
diff: `ruler compare A B` compares two scored files
html page: `ruler report SCORED -o PAGE.html` writes a page
key api_key token openai_api_key: a key never stands on a command line: name its variable with --api-key-env VAR
base_url api_url url endpoint host server base: use --api-base URL
parallel workers threads jobs j num_workers max_workers n_jobs: use --concurrency N
max_concurrency max_concurrent max_connections num_concurrent batch_size: use --concurrency N
verbose v log_level: use --debug, or --progress log
cache cache_dir: use --ledger PATH
no_ledger no_cache: use --ledger none
judge judge_name judge_model model_name grader evaluator scorer llm: use -m NAME
provider: it is the first word of the judge's name: -m openai/o3
budget max_budget cost_limit max_spend: use --max-cost USD
samples max_samples num_samples n max_groups head: use --limit N
num_passes repeats num_repeats epochs votes k: use --passes K
criteria system_prompt judge_prompt prompt_file rubric_file template instructions system: use --rubric @FILE
retry retry_errors: use --retry-failed, or --set retries=N
max_retries num_retries: use --set retries=N
skip_errors ignore_errors fail_fast: use --max-failures N
label: use `ruler label SCORED --pairs N -o PAGE`
labels_file: use --people FILE
fallback: use --escalate NAME, which scores what the first judge refuses
quiet silent: use --progress none, or -q
min_score max_score threshold top filter: `ruler select SCORED OUTPUT --where score=0.7..` chooses by score
group_key group_field key_field id_field task_id: use --group-by PATH
estimate dry dry_run cost validate lint: use `ruler check INPUT`, which takes the same options
run eval evaluate grade rate: `ruler score INPUT OUTPUT` scores
show view stats summarize: `ruler report SCORED` shows a scored file
help: `ruler --help` lists the commands
version: `ruler --version` prints it
init settings: `ruler config` prints the settings
list: `ruler batch status` lists batches
render: use `ruler batch export INPUT REQUESTS`
import: use `ruler batch import REPLIES`
"""
"""Words that people know from elsewhere, without dashes, and what `ruler` has for them."""


def instead_of(word: str) -> str | None:
    """Return the remedy for an option or command that people know from elsewhere, None for any other word."""
    name = word.lstrip("-").replace("-", "_").lower()
    for line in _INSTEAD.strip().splitlines():
        words, _, remedy = line.partition(": ")
        if name in words.split():
            return remedy
    return None


def suggestion_for(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice nearest in spelling, None if none is near."""
    import difflib  # of a mistake alone

    names = [*islice(choices, _MOST)]
    like = _LIKE_SHORT if len(word) <= _SHORT else _LIKE
    near = difflib.get_close_matches(word, names, n=1, cutoff=like)
    return near[0] if near else None


def question(suggestion: str | None) -> str:
    """Return the end of a sentence that asks about a suggestion; empty for None."""
    return f"; did you mean {suggestion}?" if suggestion else ""
