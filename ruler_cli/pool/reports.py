"""The tokens that a reply reports, held against what was sent and what came."""

from __future__ import annotations

from dataclasses import replace

from ruler_cli.tokens import fewest_tokens, likely_tokens, possible
from ruler_cli.types import Reply, Request


def counted(request: Request, reply: Reply) -> Reply:
    """Return a reply with estimates for tokens that were not reported or cannot be so few.

    A prompt that was read beyond the system message, and not to its end, was cut by the server. An embedded judge,
    whose replies have no body, uses no tokens.
    """
    if not reply.body:
        return reply
    sent = request.prompt
    prompt, completion = reply.usage.prompt, reply.usage.completion
    cut = 0
    if not possible(prompt, sent):
        if prompt > fewest_tokens(request.system):
            cut = prompt
        prompt = likely_tokens(sent) + request.picture_tokens
    if not possible(completion, reply.text):
        completion = likely_tokens(reply.text)
    usage = replace(reply.usage, prompt=prompt, completion=completion)
    if usage == reply.usage:
        return reply
    return replace(reply, usage=replace(usage, estimated=True), cut=cut)
