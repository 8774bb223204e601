"""Both batch APIs on loopback: OpenAI's (files and batches) and Anthropic's (message batches).

    with BatchServer(pace="advance") as server:
        …  --api-base server.openai, or server.anthropic
        server.advance(3); server.created; server.billed; server.billed_again

Cues by the model's name: `row-KIND` for every row, `once-row-KIND` for a request's first time,
`some-row-KIND` for every third row at its first time; kinds are in rows.KINDS. Any other name cues the
judging server's own behaviour (`not-json`, `once-cutoff` …). `server.fault(step, kind, times)` makes steps
fail, `server.before` and `server.after` are called around each, `server.conduct` sets the rest.
`python -m tests.batch_server` serves until its stdin closes.
"""

from tests.batch_server.server import BatchServer

__all__ = ["BatchServer"]
