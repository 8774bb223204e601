"""The functions that rows of the table name: a module of them is imported when a record needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

Functions = Mapping[str, Callable[..., Any]]


@cache
def function(name: str) -> Callable[..., Any]:
    """Return the function of a name such as `trainers.read_gym`."""
    module, _, member = name.partition(".")
    return _MODULES[module]()[member]


def _agents() -> Functions:
    from ruler_cli.formats import agents

    return {
        "is_atif": agents.is_atif,
        "is_autogen_history": agents.is_autogen_history,
        "is_langchain_history": agents.is_langchain_history,
        "is_mini_swe_agent": agents.is_mini_swe_agent,
        "read_atif": agents.read_atif,
        "read_autogen": agents.read_autogen,
        "read_langchain": agents.read_langchain,
        "read_openhands": agents.read_openhands,
        "read_prediction": agents.read_prediction,
        "read_session": agents.read_session,
        "read_swe_agent": agents.read_swe_agent,
        "read_trial": agents.read_trial,
    }


def _answers() -> Functions:
    from ruler_cli.formats import answers

    return {
        "is_code_sample": answers.is_code_sample,
        "is_group": answers.is_group,
        "is_pair": answers.is_pair,
        "is_preference": answers.is_preference,
        "lm_eval_key": answers.lm_eval_key,
        "read_group": answers.read_group,
        "read_pair": answers.read_pair,
        "read_preference": answers.read_preference,
        "read_turns": answers.read_turns,
        "refine_pair": answers.refine_pair,
        "turns_field": answers.turns_field,
        "with_member": answers.with_member,
    }


def _api_logs() -> Functions:
    from ruler_cli.formats import api_logs

    return {
        "is_exchange": api_logs.is_exchange,
        "is_sampled": api_logs.is_sampled,
        "read_exchange": api_logs.read_exchange,
        "read_samples": api_logs.read_samples,
    }


def _evaluations() -> Functions:
    from ruler_cli.formats import evaluations

    return {
        "is_bfcl": evaluations.is_bfcl,
        "promptfoo_key": evaluations.promptfoo_key,
        "read_bfcl": evaluations.read_bfcl,
        "read_inspect": evaluations.read_inspect,
        "read_mt_bench": evaluations.read_mt_bench,
        "read_promptfoo": evaluations.read_promptfoo,
        "read_steps": evaluations.read_steps,
        "steps_of": evaluations.steps_of,
        "with_results": evaluations.with_results,
    }


def _native() -> Functions:
    from ruler_cli.formats import native

    return {
        "is_native": native.is_native,
        "read_group": native.read_group,
        "read_row": native.read_row,
        "read_single": native.read_single,
    }


def _sessions() -> Functions:
    from ruler_cli.formats import sessions

    return {
        "is_claude": sessions.Claude.is_session,
        "read_claude": sessions.Claude.rollout,
        "is_codex": sessions.Codex.is_session,
        "read_codex": sessions.Codex.rollout,
        "is_copilot": sessions.Copilot.is_session,
        "read_copilot": sessions.Copilot.rollout,
        "is_gemini": sessions.Gemini.is_session,
        "read_gemini": sessions.Gemini.rollout,
        "is_opencode": sessions.OpenCode.is_session,
        "read_opencode": sessions.OpenCode.rollout,
        "is_pi": sessions.Pi.is_session,
        "read_pi": sessions.Pi.rollout,
    }


def _traces() -> Functions:
    from ruler_cli.formats import traces

    return {
        "is_langfuse": traces.is_langfuse,
        "is_spans": traces.is_spans,
        "item_key": traces.item_key,
        "read_trace": traces.read_trace,
    }


def _trainers() -> Functions:
    from ruler_cli.formats import trainers

    return {
        "gym_key": trainers.gym_key,
        "is_verl": trainers.is_verl,
        "is_verl_v1": trainers.is_verl_v1,
        "read_episode": trainers.read_episode,
        "read_gym": trainers.read_gym,
        "read_nemo_rl": trainers.read_nemo_rl,
        "read_rllm": trainers.read_rllm,
        "read_trace": trainers.read_trace,
        "refine_trace": trainers.refine_trace,
        "result_key": trainers.result_key,
        "rllm_key": trainers.rllm_key,
        "task_key": trainers.task_key,
        "verl_group": trainers.verl_group,
        "with_environment": trainers.with_environment,
        "with_metric": trainers.with_metric,
        "with_session": trainers.with_session,
        "with_transcript": trainers.with_transcript,
    }


_MODULES = {
    "agents": _agents,
    "answers": _answers,
    "api_logs": _api_logs,
    "evaluations": _evaluations,
    "native": _native,
    "sessions": _sessions,
    "traces": _traces,
    "trainers": _trainers,
}
