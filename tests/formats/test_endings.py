"""Endings of rollouts, as each framework writes them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.formats.endings import ending
from ruler_cli.settings.models import RecordPaths
from ruler_cli.types import ENDINGS
from tests.formats.changes import sample
from tests.formats.test_particular import put
from tests.values import read, talk

ENDED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("slime", {"status": "truncated"}, "truncated"),
    ("slime", {"status": "aborted"}, "aborted"),
    ("slime", {"status": "failed"}, "error"),
    ("slime", {"status": "pending"}, ""),
    ("skyrl", {"truncated": "0"}, ""),
    ("skyrl", {"truncated": "N"}, ""),
    ("skyrl", {"truncated": "1"}, "truncated"),
    ("skyrl", {"truncated": float("nan")}, ""),
    ("skyrl", {"stop_reason": "completed without errors"}, ""),
    ("skyrl", {"stop_reason": "no_errors"}, ""),
    ("verifiers_results", {"error": "n/a"}, ""),
    ("slime_buffer", {"extra_info.finish_reason": {"type": "length"}}, "truncated"),
    ("miles", {"status": "aborted"}, "aborted"),
    ("verl", {"is_truncated": True}, "truncated"),
    ("verl", {"is_truncated": 0.0}, ""),
    # in the buffer of long answers, not cut off
    ("verl", {"overlong": True, "overlong_reward": -0.2}, ""),
    ("skyrl", {"stop_reason": "length"}, "truncated"),
    ("skyrl", {"stop_reason": "agent_timeout"}, "truncated"),
    ("skyrl", {"stop_reason": "complete"}, ""),
    ("rllm", {"termination_reason": "max_turns_exceeded"}, "truncated"),
    ("rllm", {"termination_reason": "max_response_length_exceeded"}, "truncated"),
    ("rllm", {"termination_reason": "error"}, "error"),
    ("rllm", {"termination_reason": "unknown"}, ""),
    (
        "art_trajectories",
        {"messages_and_choices.-1.finish_reason": "length"},
        "truncated",
    ),
    ("art_trajectories", {"metadata.truncated": True}, "truncated"),
    ("art_trajectories", {"metadata.stop_reason": "max_turns"}, "truncated"),
    ("art_trajectories", {"metadata.stop_reason": "answered"}, ""),
    ("verifiers_results", {"is_truncated": True}, "truncated"),
    ("verifiers_results", {"stop_condition": "max_turns_reached"}, "truncated"),
    ("verifiers_results", {"stop_condition": "has_error"}, "error"),
    (
        "verifiers_results",
        {"error": {"error": "SandboxError", "message": "gone"}},
        "error",
    ),
    ("verifiers_results", {"stop_condition": "solved"}, ""),
    ("verifiers_traces", {"stop_condition": "max_total_tokens"}, "truncated"),
    ("verifiers_traces", {"errors": [{"type": "Boom"}], "ok": False}, "error"),
    # of an attempt before
    ("verifiers_traces", {"errors": [{"type": "Boom"}], "ok": True}, ""),
    ("prime_rl_traces", {"calls": [{"finish_reason": "length"}]}, "truncated"),
    ("inspect", {"limit": {"type": "message", "limit": 10}}, "truncated"),
    ("inspect", {"limit": {"type": "custom", "limit": 1}}, "truncated"),
    ("inspect", {"limit": {"type": "operator", "limit": 1}}, "aborted"),
    ("inspect", {"error": {"message": "gone", "traceback": "…"}}, "error"),
    ("inspect", {"output": {"choices": [{"stop_reason": "max_tokens"}]}}, "truncated"),
    ("tau2", {"termination_reason": "max_steps"}, "truncated"),
    ("tau2", {"termination_reason": "too_many_errors"}, "error"),
    ("tau2", {"termination_reason": "agent_stop"}, ""),
    ("eval_protocol", {"rollout_status": {"code": 13}}, "error"),
    ("eval_protocol", {"rollout_status": {"code": 10}}, "aborted"),
    (
        "eval_protocol",
        {"rollout_status.details": [{"metadata": {"termination_reason": "max_steps"}}]},
        "truncated",
    ),
    ("nemo_gym", {"response.status": "incomplete"}, "truncated"),
    (
        "nemo_gym",
        {"response.incomplete_details": {"reason": "max_output_tokens"}},
        "truncated",
    ),
    ("nemo_gym", {"response.error": {"code": "server_error"}}, "error"),
    ("swe_agent", {"info.exit_status": "submitted (exit_cost)"}, "truncated"),
    ("swe_agent", {"info.exit_status": "exit_context"}, "truncated"),
    ("swe_agent", {"info.exit_status": "submitted (exit_format)"}, "error"),
    ("swe_agent", {"info.exit_status": "exit_forfeit"}, ""),
    ("mini_swe_agent", {"info.exit_status": "LimitsExceeded"}, "truncated"),
    ("mini_swe_agent", {"info.exit_status": "TimeExceeded"}, "truncated"),
    ("mini_swe_agent", {"info.exit_status": "UserInterruption"}, "aborted"),
    ("mini_swe_agent", {"info.exit_status": "RepeatedFormatError"}, "error"),
    (
        "openhands",
        {"error": "RuntimeError: Agent reached maximum iteration. Current: 30"},
        "truncated",
    ),
    ("openhands", {"error": "AgentStuckInLoopError: stuck in a loop"}, "error"),
    (
        "harbor_trials",
        {"result.exception_info": {"exception_type": "AgentTimeoutError"}},
        "truncated",
    ),
    (
        "harbor_trials",
        {"result.exception_info": {"exception_type": "VerifierTimeoutError"}},
        "",
    ),
    ("autogen", {"stop_reason": "Maximum number of turns 2 reached."}, "truncated"),
    ("tinker", {"error": "rollout raised ValueError"}, "error"),
    ("bfcl", {"error": ["Wrong number of functions."]}, ""),
    ("api_logs", {"response.choices.-1.finish_reason": "length"}, "truncated"),
    ("trl", {"finish_reason": "length"}, "truncated"),
    (
        "prompt_completion",
        {"response": {"choices": [{"finish_reason": "length"}]}},
        "truncated",
    ),
    ("nemo_gym", {"result": {"termination_reason": "max_steps"}}, "truncated"),
    ("promptfoo", {"error": "Expected output to contain 4", "success": False}, ""),
)
"""The format, what differs in its first record, and how the rollout ended."""


def test_endings(subtests: pytest.Subtests) -> None:
    """A rollout ended as its framework says, and one of which it says no early end did not."""
    for name, changes, ended in ENDED:
        with subtests.test(name, changes=changes):
            record = sample(name)[0]
            (before,) = read(record)
            assert {rollout.ended for rollout in before.rollouts} == {""}
            (after,) = read(put(record, changes))
            assert {rollout.ended for rollout in after.rollouts} == {ended}


def test_each_of_a_group() -> None:
    """In a record with several rollouts each has its own ending, in lists and in objects."""
    native = {
        "trajectories": [
            {"messages": talk("4"), "is_truncated": True},
            {"messages": talk("5"), "is_truncated": False},
            {"messages": [*talk("6")[:-1], {"message": talk("6")[-1], "finish_reason": "length"}]},
            {"messages": talk("7"), "ended": "aborted"},
        ]
    }  # fmt: skip
    steps = sample("ms_swift")[0]
    listed = {**steps, "finish_reason": ["length", *["stop"] * 10][: len(steps["completion"])]}  # fmt: skip
    answers = sample("api_logs_samples")[0]
    answers["response"]["body"]["choices"][1]["finish_reason"] = "length"
    for record, ended in (
        (native, ["truncated", "", "truncated", "aborted"]),
        (listed, ["truncated", ""]),
        (answers, ["", "truncated"]),
    ):
        found = [each.ended for part in read(record) for each in part.rollouts]
        assert found[: len(ended)] == ended


def test_own_format() -> None:
    """A format of the user's names the places of its endings, of which the first that says one counts."""
    row = RecordPaths(messages="talk", ended="how.it|how.is_truncated")
    told: tuple[Any, ...] = (
        ({"it": "odd", "is_truncated": False}, ""),
        ({"it": "odd", "is_truncated": True}, "truncated"),
        ({"it": "cancelled", "is_truncated": True}, "aborted"),
        (None, ""),
    )
    for how, ended in told:
        (record,) = read({"id": 1, "talk": talk("4"), "how": how}, format=row)
        assert record.rollouts[0].ended == ended


@given(
    st.sampled_from(("error", "limit", "status", "a.is_truncated", "code", "")),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
)
def test_any_value(path: str, value: Any) -> None:
    """Any value is one of the known endings, or none."""
    assert ending(path, value) in ("", *ENDINGS)
