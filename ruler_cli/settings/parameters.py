"""Parameters of a judge's calls: those that are refused, that only litellm knows, or that a found file may set.

A parameter with a new name needs no release: it is sent, unless its name is of a kind that moves or replaces a call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlencode

from ruler_cli.settings.fields import SettingError
from ruler_cli.settings.keys import is_key_name, snake_case
from ruler_cli.types import words_of

_REFUSED = {
    r"(.*_)?(api_base|base_url|endpoint|host|url|uri)(_url)?": "name the endpoint with --api-base URL",
    r"""
    (?!allow_|disable_|max_)(.*_)?fallbacks?(_.*)?|mock_.*|.*router.*|routing_strategy|(.*_)?callbacks?|(.*_)?client
    |logger_fn|litellm_(params|credential_name|system_prompt)|shared_session|(silent|fallback)_models?
    |model_(list|alias_map|config|group.*)|custom_llm_provider|azure|use_litellm_proxy|use_xai_oauth
    |prompt_(id|integration|label|variables|version)|custom_prompt_dict|.*_continue_message|cache|caching
    |(preset_)?cache_key|(.*_)?transport|(.*_)?prox(y|ies)|fastest_response
    """: "it may send the call elsewhere, or answer in its place; leave it out",
    "models?|model_id|deployment_id|engine": "name the model with -m NAME",
    "messages|n|stream|stream_options|system|system_instruction|instructions|contents|input|prompt|state|questions": (
        "ruler writes the prompt and reads one reply; leave it out"
    ),
}
"""Patterns of names, in snake case, of parameters that change the judge or the question, and the advice."""
_OF_LITELLM = r"""
additional_drop_params|allowed_model_region|allowed_openai_params|api_version|assistant_continue_message|async_call
|azure_ad_token|azure_ad_token_provider|azure_password|azure_scope|azure_username|base_model|budget_duration
|caching_groups|client_id|client_secret|client_side_timeout|complete_response|configurable_clientside_auth_params
|cooldown_time|data_residency|disable_add_transform_inline_image_block|drop_params|enable_json_schema_validation
|ensure_alternating_roles|fallback_depth|force_timeout|headers_to_forward|hf_model_name
|include_server_side_tool_invocations|itpm|keepalive_seconds|litellm_.*|log_client_error_tracebacks|max_agentic_loops
|max_budget|max_fallbacks|max_file_size_mb|max_parallel_requests|max_retries|merge_reasoning_content_in_choices
|model_info|no_log|num_retries|organization|otpm|provider_affinity_header|provider_specific_header
|proxy_server_request|region_name|request_timeout|retry_policy|retry_strategy|rpm|secret_fields|ssl_verify
|stream_(chunk_size|response|timeout.*)|supports_system_message|tenant_id|text_completion|timeout.*|tpm
|turn_off_message_logging|use_chat_completions_api|use_client|use_in_pass_through|.*_cost_per_.*|.*headers
"""
"""Names of parameters that litellm, or a client of a provider, acts on and does not send."""
KNOWN = words_of("""
allowed_openai_params api_version bad_words cache_control_injection_points chat_template_kwargs
do_sample drop_params enable_thinking frequency_penalty guided_choice guided_decoding_backend guided_grammar
guided_json guided_regex ignore_eos include_reasoning keep_alive length_penalty logit_bias logprobs
max_completion_tokens max_new_tokens max_output_tokens max_tokens metadata min_p min_tokens mirostat modalities n
num_ctx num_predict parallel_tool_calls presence_penalty prompt_cache_key prompt_cache_retention reasoning
reasoning_budget reasoning_effort repetition_penalty response_format safety_identifier safety_settings
seed separate_reasoning service_tier skip_special_tokens stop stop_token_ids store
structured_outputs temperature think thinking thinking_budget thinking_config tool_choice tools top_a top_k
top_logprobs top_n_sigma top_p typical_p use_beam_search user verbosity vertex_project
""")
"""Parameters that a file which the user did not name may set."""


_PARTS = ("headers", "extra_headers", "extra_query", "extra_body")
"""Parameters that are objects, and no part of the body by their own names."""


def params_of(value: Any) -> Any:
    """Return the parameters of a call, from a table or from texts `KEY=VALUE`; a VALUE that is JSON is read as JSON.

    UsageError for a key, or for a parameter that changes the judge or the question.
    """
    if isinstance(value, str):
        value = value.split()
    if isinstance(value, list | tuple):
        params = {}
        for text in map(str, value):
            key, equals, content = text.partition("=")
            if not (key and equals):
                shown = "its value" if "header" in text.lower() else repr(text)
                problem = f"{shown} is not KEY=VALUE"
                raise SettingError("params", problem, "e.g. -p temperature=0.2")
            params[key] = content
            with suppress(ValueError, RecursionError):
                params[key] = json.loads(content)
        value = params
    if isinstance(value, Mapping):
        for name in _PARTS:
            if not isinstance(value.get(name), Mapping | None):
                remedy = 'write {"NAME": "VALUE"}'
                raise SettingError("params", "is not an object", remedy, name)
        headers_of(value)
        for name, content in value.items():
            _refuse(name, content)
            if is_key_name(name):
                problem = "a key is not a parameter"
                remedy = (
                    "name the variable that holds it with --api-key-env VAR"
                )
                raise SettingError("params", problem, remedy, name)
        for name, content in (value.get("extra_body") or {}).items():
            _refuse(name, content)
    return value


def _refuse(name: str, content: Any) -> None:
    """Raise UsageError for a parameter that moves or replaces a call."""
    if (name, content) == ("n", 1):
        return
    for pattern, remedy in _REFUSED.items():
        if _is(name, pattern):
            raise SettingError("params", remedy, value=name)


def _is(name: str, pattern: str) -> bool:
    """Return whether a name, in snake case, is one of those of a pattern."""
    match = re.fullmatch(pattern, snake_case(str(name)), re.VERBOSE)
    return match is not None


class Wire(NamedTuple):
    """The parts of a direct call that parameters make; `query` is that of its address, with its `?`, or empty."""

    body: dict[str, Any]
    headers: dict[str, str]
    query: str


def body_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that stand in the body of a call."""
    plain = {
        name: value for name, value in params.items() if name not in _PARTS
    }
    return plain | (params.get("extra_body") or {})


def wire_of(params: Mapping[str, Any]) -> Wire:
    """Return where a direct call has each parameter, as OpenAI's client sends it; UsageError for litellm's own."""
    for name in params:
        if name not in _PARTS and _is(name, _OF_LITELLM):
            problem = "is not a parameter of the endpoint but of litellm, or of a client"
            remedy = "leave it out, or use --set via=litellm; for time and tries use --timeout and --set retries=N"
            raise SettingError("params", problem, remedy, name)
    query = {}
    for name, value in (params.get("extra_query") or {}).items():
        if value is not None:
            text = str(value)
            query[name] = text.lower() if isinstance(value, bool) else text
    text = f"?{urlencode(query)}" if query else ""
    return Wire(body_of(params), headers_of(params), text)


_HEADER = re.compile(
    r"(?!(?:host|content-length|transfer-encoding|connection):)[\w!#$%&'*+.^`|~-]+: [\t\x20-\x7e\x80-\xff]*",
    re.IGNORECASE | re.ASCII,
)
"""A header that can be sent, and does not frame the request."""


def headers_of(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the further headers of a call; UsageError, which shows no value, for one that cannot be sent."""
    headers = {}
    for part in ("headers", "extra_headers"):
        for name, value in (params.get(part) or {}).items():
            text = isinstance(value, str | int | float)
            if not text or not _HEADER.fullmatch(f"{name}: {value}"):
                problem = f"has a header that cannot be sent: {name!r}"
                remedy = "correct it, or leave it out"
                raise SettingError("params", problem, remedy, "extra_headers")
            headers[str(name)] = str(value)
    return headers
