"""The tokens that a reply reports, held against what was sent and what came."""

from __future__ import annotations

from dataclasses import replace

from ruler_cli.tokens import likely_tokens, possible
from ruler_cli.types import Reply, Request


def counted(request: Request, reply: Reply) -> Reply:
    """Return a reply with estimates for tokens that were not reported or cannot be so few.

    An embedded judge, whose replies have no body, uses none.
    """
    sent = f"{request.system}\n{request.user}"
    prompt, completion = reply.usage.prompt, reply.usage.completion
    if not possible(prompt, sent):
        prompt = likely_tokens(sent) + request.picture_tokens
    if not possible(completion, reply.text):
        completion = likely_tokens(reply.text)
    usage = replace(reply.usage, prompt=prompt, completion=completion)
    if usage == reply.usage or not reply.body:
        return reply
    return replace(reply, usage=replace(usage, estimated=True))
