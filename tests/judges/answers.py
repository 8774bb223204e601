"""Error responses of providers, servers and gateways, each with its meaning."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

Meaning = tuple[str, str]
RUN, GROUP, LONG = ("refused", "run"), ("refused", "group"), ("too_long", "group")
RATE, CALL = ("transport", "rate"), ("transport", "call")
"""Kind and scope of a call error."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The sender, the status, the expected meaning, and the body."""

    sender: str
    status: int
    meaning: Meaning
    body: bytes


def _json(body: Any) -> bytes:
    return json.dumps(body).encode()


def _openai(
    message: str, code: Any = None, kind: str = "invalid_request_error", **more: Any
) -> bytes:
    return _json(
        {
            "error": {
                "message": message,
                "type": kind,
                "param": None,
                "code": code,
                **more,
            }
        }
    )


def _anthropic(kind: str, message: str) -> bytes:
    return _json({"type": "error", "error": {"type": kind, "message": message}})


def _google(
    code: int, status: str, message: str, *quotas: str, wait: str | None = None
) -> bytes:
    details: list[Any] = [
        {"violations": [{"quotaId": quota, "quotaMetric": "m"} for quota in quotas]}
    ]
    if wait:
        details.append(
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": wait}
        )
    return _json(
        [
            {
                "error": {
                    "code": code,
                    "message": message,
                    "status": status,
                    "details": details,
                }
            }
        ]
    )


def _vllm(message: str, kind: str = "BadRequestError", code: int = 400) -> bytes:
    return _json(
        {
            "object": "error",
            "message": message,
            "type": kind,
            "param": None,
            "code": code,
        }
    )


def _proxy(
    code: int, message: str, kind: str = "invalid_request_error", **more: Any
) -> bytes:
    return _json(
        {
            "error": {
                "message": message,
                "type": kind,
                "param": None,
                "code": str(code),
                **more,
            }
        }
    )


def _routed(name: str) -> str:
    """The text about its own routing that a litellm proxy appends."""
    routing = f"\n\nLiteLLM: model group '{name}' failed with the error above"
    return f"{routing} and no fallback model group was found for it, so it was not retried on another model."


def _router(code: int, message: str, **metadata: Any) -> bytes:
    return _json(
        {
            "error": {"message": message, "code": code, "metadata": metadata},
            "user_id": "user_1",
        }
    )


def _page(title: str) -> bytes:
    return f"<html>\r\n<head><title>{title}</title></head>\r\n<body><h1>{title}</h1></body></html>".encode()


ANSWERS = [
    # OpenAI
    Answer("openai", 401, RUN, _openai("Incorrect API key provided: sk-ab***cd.", "invalid_api_key")),
    Answer("openai", 403, RUN,
        _openai("Country, region, or territory not supported", "unsupported_country_region_territory",
        "request_forbidden")),
    Answer("openai", 404, RUN,
        _openai("The model `gpt-9` does not exist or you do not have access to it.", "model_not_found")),
    Answer("openai", 429, RUN,
        _openai("You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota", "insufficient_quota")),
    Answer("openai, no code", 429, RUN,
        _openai("You exceeded your current quota, please check your plan and billing details.")),
    Answer("openai", 429, RUN,
        _openai("Your account is not active, please check your billing details.", "billing_not_active",
        "billing_not_active")),
    Answer("openai", 400, RUN, _openai("Billing hard limit has been reached", "billing_hard_limit_reached")),
    Answer("openai", 429, RUN, _openai("Your access was terminated due to violation of our policies")),
    Answer("openai", 429, RATE,
        _openai("Rate limit reached for gpt-4o in organization org-1 on tokens per min (TPM): Limit "
        "30000, Used 29000, Requested 2000. Please try again in 2s.", "rate_limit_exceeded", "tokens")),
    Answer("openai", 429, RATE,
        _openai("Rate limit reached for o3 on requests per day (RPD): Limit 10000, Used 10000, Requested "
        "1. Please try again in 8.64s.", "rate_limit_exceeded", "requests")),
    Answer("openai", 429, LONG,
        _openai("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389. The "
        "input or output tokens must be reduced.", "rate_limit_exceeded", "tokens")),
    Answer("openai", 400, LONG,
        _openai("This model's maximum context length is 4096 tokens. However, your messages resulted in "
        "5000 tokens.", "context_length_exceeded")),
    Answer("openai", 400, LONG,
        _openai("Invalid 'messages[1].content': string too long. Expected a string with maximum length "
        "10485760", "string_above_max_length")),
    Answer("openai", 400, GROUP,
        _openai("Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
        "invalid_prompt")),
    Answer("openai", 400, GROUP,
        _openai("Unsupported value: 'temperature' does not support 0.2 with this model.")),
    Answer("openai", 500, CALL,
        _openai("The server had an error while processing your request.", None, "server_error")),
    Answer("openai", 503, RATE, _openai("The engine is currently overloaded, please try again later")),
    Answer("openai", 409, CALL, _openai("Request conflicts with another")),
    # Anthropic
    Answer("anthropic", 401, RUN, _anthropic("authentication_error", "invalid x-api-key")),
    Answer("anthropic", 403, RUN, _anthropic("permission_error", "no permission to use the resource")),
    Answer("anthropic", 404, RUN, _anthropic("not_found_error", "model: claude-9")),
    Answer("anthropic", 400, RUN,
        _anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API. "
        "Please go to Plans & Billing.")),
    Answer("anthropic", 400, RUN,
        _anthropic("invalid_request_error", "You have reached your specified API usage limits. You will "
        "regain access on 2026-04-01 at 00:00 UTC.")),
    Answer("anthropic", 400, LONG,
        _anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")),
    Answer("anthropic", 400, LONG,
        _anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit: 86888 + "
        "119866 > 204648")),
    Answer("anthropic", 400, GROUP,
        _anthropic("invalid_request_error", "Output blocked by content filtering policy")),
    Answer("anthropic", 413, LONG, _anthropic("request_too_large", "Request exceeds the maximum size")),
    Answer("anthropic", 429, RATE,
        _anthropic("rate_limit_error", "This request would exceed your account's rate limit")),
    Answer("anthropic", 429, LONG,
        _anthropic("rate_limit_error", "Extra usage is required for long context requests.")),
    Answer("anthropic", 529, RATE, _anthropic("overloaded_error", "Overloaded")),
    Answer("litellm of 529", 500, RATE, _anthropic("overloaded_error", "Overloaded")),
    Answer("anthropic", 504, CALL, _anthropic("timeout_error", "Request timed out")),
    # Azure
    Answer("azure", 404, RUN,
        _json({"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource "
        "does not exist."}})),
    Answer("azure", 400, GROUP,
        _openai("The response was filtered due to the prompt triggering Azure OpenAI's content management "
        "policy.", "content_filter", innererror={"code": "ResponsibleAIPolicyViolation"})),
    Answer("azure, inner code", 400, GROUP,
        _openai("Filtered.", None, innererror={"code": "ResponsibleAIPolicyViolation"})),
    Answer("azure", 429, RATE,
        _json({"error": {"code": "429", "message": "Requests to the ChatCompletions_Create Operation have "

               "exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 26 "
        "seconds."}})),
    Answer("azure", 401, RUN,
        _json({"error": {"code": "401", "message": "Access denied due to invalid subscription key or "
        "wrong API endpoint."}})),
    # Google
    Answer("gemini", 400, RUN,
        _google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.")),
    Answer("gemini", 400, RUN,
        _google(400, "FAILED_PRECONDITION", "User location is not supported for the API use.")),
    Answer("gemini", 429, RATE,
        _google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and "
        "billing details.", "GenerateRequestsPerMinutePerProjectPerModel", wait="34s")),
    Answer("gemini", 429, RUN,
        _google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and "
        "billing details.", "GenerateRequestsPerDayPerProjectPerModel", wait="34s")),
    Answer("gemini", 429, RUN,
        _google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and "
        "billing details.\n* Quota exceeded for metric: x, limit: 0, model: gemini-2.5-pro\nPlease retry "
        "in 20.04466179s.")),
    Answer("vertex", 429, RATE,
        _google(429, "RESOURCE_EXHAUSTED", "Resource exhausted. Please try again later.")),
    Answer("gemini", 400, LONG,
        _google(400, "INVALID_ARGUMENT", "The input token count (1200293) exceeds the maximum number of "
        "tokens allowed (1048576).")),
    Answer("gemini", 403, RUN,
        _google(403, "PERMISSION_DENIED", "Generative Language API has not been used in project 1 before "
        "or it is disabled.")),
    Answer("gemini", 503, RATE,
        _google(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")),
    # Bedrock
    Answer("bedrock", 429, RATE, _json({"message": "Too many tokens, please wait before trying again."})),
    Answer("bedrock", 400, RATE, _json({"__type": "ThrottlingException", "message": "Rate exceeded"})),
    Answer("bedrock", 429, RUN,
        _json({"message": "Too many tokens per day, please wait before trying again."})),
    Answer("bedrock", 400, LONG, _json({"message": "Input is too long for requested model."})),
    Answer("bedrock", 400, RUN, _json({"message": "The provided model identifier is invalid."})),
    Answer("bedrock", 400, RUN,
        _json({"message": "Invocation of model ID x with on-demand throughput isn\u2019t supported."})),
    Answer("bedrock", 403, RUN, _json({"message": "The security token included in the request is expired"})),
    Answer("bedrock", 424, CALL, _json({"message": "The model failed"})),
    # OpenRouter, xAI, DeepSeek, Qwen
    Answer("openrouter", 402, RUN,
        _router(402, "This request requires more credits, or fewer max_tokens. You requested up to 65536 "
        "tokens, but can only afford 3395.")),
    Answer("openrouter", 403, GROUP,
        _router(403, 'openai/x requires moderation on OpenAI. Your input was flagged for "self-harm". No '
        'credits were charged.', reasons=["self-harm"], flagged_input="...")),
    Answer("openrouter", 403, RUN, _router(403, "Key limit exceeded (monthly limit).")),
    Answer("openrouter", 429, RUN,
        _router(429, "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model "
        "requests per day")),
    Answer("openrouter", 429, RATE,
        _router(429, "Provider returned error", raw="x is temporarily rate-limited upstream")),
    Answer("openrouter", 400, LONG,
        _router(400, "Provider returned error", raw="{\"error\":{\"message\":\"This endpoint's maximum "
        "context length is 100 tokens. However, you requested about 200 tokens\"}}")),
    Answer("openrouter", 400, RUN, _router(400, "x/y is not a valid model ID")),
    Answer("xai", 403, GROUP,
        _json({"code": "The caller does not have permission to execute the specified operation",
        "error": "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"})),
    Answer("deepseek", 402, RUN, _openai("Insufficient Balance", "invalid_request_error", "unknown_error")),
    Answer("deepseek", 400, RUN, _openai("Model Not Exist")),
    Answer("deepseek", 400, GROUP, _openai("Content Exists Risk")),
    Answer("qwen", 400, GROUP,
        _openai("Input data may contain inappropriate content.", "data_inspection_failed")),
    Answer("moonshot", 429, RUN,
        _openai("Your account org-1 is suspended, check your plan", None, "exceeded_current_quota_error")),
    # Groq, Together, Mistral, Cloudflare's models
    Answer("groq", 413, LONG,
        _openai("Request too large for model `x` in organization `org_01` service tier `on_demand` on "
        "tokens per minute (TPM): Limit 6000, Requested 14368, please reduce your message size and try "
        "again. Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing",
        "rate_limit_exceeded", "tokens")),
    Answer("groq", 429, RATE,
        _openai("Rate limit reached for model `x` in organization `org_01` service tier `on_demand` on "
        "tokens per minute (TPM): Limit 6000, Used 5034, Requested 1443. Please try again in 4.77s. Need "
        "more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing",
        "rate_limit_exceeded", "tokens")),
    Answer("groq", 429, RATE,
        _openai("Rate limit reached for model `x` on tokens per day (TPD): Limit 100000, Used 97050, "
        "Requested 3619. Please try again in 9m38.016s. Need more tokens? Upgrade to Dev Tier today at "
        "https://console.groq.com/settings/billing", "rate_limit_exceeded")),
    Answer("groq", 400, RUN, _openai("The model `x` has been decommissioned", "model_decommissioned")),
    Answer("together", 422, LONG,
        _openai("Input validation error: `inputs` must have less than 8192 tokens. Given: 9000")),
    Answer("together", 402, RUN, _openai("Credit limit exceeded")),
    Answer("mistral", 400, LONG,
        _json({"object": "error", "message": "Prompt contains 40000 tokens and 0 draft tokens, too large "
        "for model with 32768 maximum context length"})),
    Answer("mistral", 422, GROUP,
        _json({"detail": [{"type": "missing", "loc": ["body", "x"], "msg": "Field required",
        "input": {"messages": "insufficient_quota prompt is too long"}}]})),
    Answer("workers ai", 429, RUN, _openai("you have used up your daily free allocation")),
    # self-hosted servers
    Answer("vllm", 400, LONG,
        _vllm("This model's maximum context length is 4096 tokens. However, you requested 5096 tokens "
        "(5000 in the messages, 96 in the completion).")),
    Answer("vllm", 400, LONG,
        _vllm("You passed 5001 input tokens and requested 1 output tokens. However, the model's context "
        "length is only 4096 tokens")),
    Answer("vllm", 400, LONG,
        _vllm("The decoder prompt (length 5000) is longer than the maximum model length of 4096.")),
    Answer("vllm", 404, RUN, _vllm("The model `x` does not exist.", "NotFoundError", 404)),
    Answer("vllm", 500, CALL, _vllm("EngineCore encountered an issue.", "InternalServerError", 500)),
    Answer("vllm", 503, CALL, b""),
    Answer("sglang", 400, LONG,
        _vllm("The input (61709 tokens) is longer than the model's context length (40960 tokens).")),
    Answer("sglang", 503, RATE, _vllm("The request queue is full.", "abort", 503)),
    Answer("ollama", 404, RUN, _openai('model "x" not found, try pulling it first', None, "api_error")),
    Answer("ollama", 503, RATE,
        _json({"error": "server busy, please try again.  maximum pending requests exceeded"})),
    Answer("ollama", 500, RUN,
        _json({"error": "model requires more system memory (5.3 GiB) than is available"})),
    Answer("ollama", 400, LONG, _json({"error": "the input length exceeds the context length"})),
    Answer("llama.cpp", 400, LONG,
        _openai("request (5000 tokens) exceeds the available context size (4096 tokens)", 400,
        "exceed_context_size_error")),
    Answer("lm studio", 200, RUN,
        _json({"error": "Unexpected endpoint or method. (POST /chat/completions)"})),
    Answer("tgi", 424, CALL,
        _json({"error": "Request failed during generation", "error_type": "generation"})),
    Answer("one-api", 503, RUN, _openai("No available channel for model x", "model_not_found")),
    # a litellm proxy's own answers, and those of its backends
    Answer("litellm proxy", 400, RUN,
        _proxy(400, "/chat/completions: Invalid model name passed in model=x. Call `/v1/models` to view "
        "available models for your key.")),
    Answer("litellm proxy", 401, RUN,
        _proxy(401, "Authentication Error, No api key passed in.", "auth_error")),
    Answer("litellm proxy, no database, wrong key", 400, RUN,
        _proxy(400, "No connected db.", "no_db_connection")),
    Answer("litellm proxy", 422, RUN,
        _proxy(422, "Budget has been exceeded! Key=sk-...2345 Current cost: 0.02, Max budget: 0.01",
        "budget_exceeded")),
    Answer("litellm proxy", 400, RUN,
        _json({"error": {"message": "ExceededBudget: End User=x over budget. Spend=2, Budget=1"}})),
    Answer("litellm proxy, by its type", 429, RUN, _proxy(429, "x", "budget_exceeded")),
    Answer("litellm proxy, of a provider", 429, RUN,
        _proxy(429, "No deployments available - crossed budget: Exceeded budget for provider openai: "
        "0.000596 >= 0.0001\n", "internal_server_error")),
    Answer("litellm proxy, of a key", 429, RATE,
        _proxy(429, "Rate limit exceeded for api_key: 0a1b. Limit type: requests. Current limit: 6, "
        "Remaining: 0. Limit resets at: 2026-11-22 15:12:19 UTC", "throttling_error")),
    Answer("litellm proxy, of a model named daily", 429, RATE,
        _proxy(429, "litellm.RateLimitError: Model rate limit exceeded. RPM limit=6, current usage=7"
        + _routed("daily"), "throttling_error")),
    Answer("litellm proxy", 429, RATE,
        _proxy(429, "No deployments available for selected model, Try again in 5 seconds. All deployments "
        "for selected model are in cooldown. Passed model=daily. pre-call-checks=False, "
        "cooldown_list=['0a1b']", "throttling_error")),
    Answer("litellm proxy, by usage", 429, RATE,
        _proxy(429, "litellm.RateLimitError: No deployments available for selected model. Passed "
        "model=daily. Deployments={'0a1b': {'current_rpm': 5, 'rpm_limit': 6}}", "throttling_error")),
    Answer("litellm proxy, without a key of its own", 500, RUN,
        _proxy(500, "litellm.InternalServerError: InternalServerError: OpenAIException - Missing "
        "credentials. Please pass an `api_key`, or set the `OPENAI_API_KEY` environment variable."
        + _routed("x"), "internal_server_error")),
    Answer("litellm proxy, its backend is away", 500, CALL,
        _proxy(500, "litellm.InternalServerError: InternalServerError: OpenAIException - Connection error."
        + _routed("x"), "internal_server_error")),
    Answer("litellm proxy", 408, CALL,
        _proxy(408, "litellm.Timeout: APITimeoutError - Request timed out. Error_str: Request timed out. - "
        "timeout value=0.5, time taken=0.51 seconds" + _routed("x"))),
    Answer("litellm proxy", 400, LONG,
        _proxy(400, "litellm.ContextWindowExceededError: litellm.BadRequestError: "
        "ContextWindowExceededError: OpenAIException - This model's maximum context length is 4096 tokens. "
        "However, your messages resulted in 5000 tokens.\nmodel=x. context_window_fallbacks=None. "
        "fallbacks=None.\n\nSet 'context_window_fallback'" + _routed("x"))),
    Answer("litellm proxy, for a 413", 429, LONG,
        _proxy(429, "litellm.RateLimitError: RateLimitError: OpenAIException - Request too large for model "
        "`x` on tokens per minute (TPM): Limit 6000, Requested 14368" + _routed("x"), "throttling_error")),
    Answer("litellm proxy", 400, GROUP,
        _proxy(400, "litellm.BadRequestError: Hosted_vllmException - {\"error\": {\"message\": \"Filtered.\""
        ", \"code\": \"content_filter\"}}" + _routed("x"))),
    Answer("litellm proxy", 400, GROUP,
        _proxy(400, "litellm.BadRequestError: OpenAIException - We could not parse your request."
        + _routed("unknown model"))),
    Answer("litellm", 400, GROUP, b"litellm.ContentPolicyViolationError: AzureException - filtered"),
    Answer("litellm", 400, LONG, b"litellm.ContextWindowExceededError: OpenAIException"),
    Answer("anthropic, more than 20 pictures", 400, LONG,
        _anthropic("invalid_request_error", "messages.0.content.27.image.source.base64.data: At least one of the "
        "image dimensions exceed max allowed size for many-image requests: 2000 pixels")),
    Answer("anthropic", 400, GROUP,
        _anthropic("invalid_request_error", "At least one of the image dimensions exceed max allowed size: "
        "8000 pixels")),
    Answer("groq", 400, LONG, _openai("Too many images provided. This model supports up to 5 images",
        "too_many_images")),
    Answer("vllm, of text alone", 400, GROUP,
        _openai("At most 0 image(s) may be provided in one prompt.", 400, "BadRequestError")),
    # gateways
    Answer("nginx", 413, LONG, _page("413 Request Entity Too Large")),
    Answer("nginx", 405, RUN, _page("405 Not Allowed")),
    Answer("nginx", 502, CALL, _page("502 Bad Gateway")),
    Answer("nginx", 504, CALL, _page("504 Gateway Time-out")),
    Answer("nginx", 308, RUN, _page("308 Permanent Redirect")),
    Answer("cloudflare", 522, CALL, _page("example.com | 522: Connection timed out")),
    Answer("cloudflare", 429, RATE, b"error code: 1015"),
    Answer("cloudflare", 403, RUN, _page("Attention Required! | Cloudflare")),
    Answer("any", 408, CALL, b""),
    Answer("any", 410, RUN, b""),
    Answer("any", 418, GROUP, b""),
    Answer("any", 425, CALL, b""),
    Answer("any", 451, GROUP, b"Unavailable For Legal Reasons"),
    Answer("any", 402, RUN, b"Payment Required"),
    Answer("any", 0, CALL, b"who knows"),
]  # fmt: skip
