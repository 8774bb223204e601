"""A judge over HTTP for tests and benchmarks: answers as asked, or misbehaves on cue or by chance.

    python -m tests.judge_server [--port 0] [--lifetime SECONDS] [--conduct JSON] [--batches JSON]
    with JudgeServer() as judge: …  --api-base judge.base
    with BatchServer(pace="advance") as server: …  --api-base server.openai, or server.anthropic

One server on 127.0.0.1 answers live calls and batches. As a command, and as `JudgeServer`, it is a process of
its own; it prints `{"port": N}` and ends when its stdin closes or its lifetime is over. `BatchServer` is the
same in a thread, for tests that reach into its batches.
`POST …/chat/completions` is answered, `POST …/systemone` and `…/decisions` in the forms of decision models, and
`POST …/v1/messages` in Anthropic's; OpenAI's files and batches
and Anthropic's message batches stand under `/v1` (batch_apis.py); `GET /stats`, `GET /requests`, `POST /reset`
and `POST /configure` are for tests. Its conduct (conduct.py, batch_store.py) sets latency, hidden limits and
chaos, and the pace of batches.

The `model` field (after its last `/`) is the cue.  `KIND` misbehaves always, `once-KIND` on the
first request for a group of rollouts, `twice-KIND` on its first two; any other name answers well.

Labels      reordered duplicate-same duplicate missing extra integer position
Wrapping    fenced think prose decoy list plain-map
Text        escapes
Scores      ten of-ten-once percent fraction strings same mixed negative nan null-score bool-score
No answer   cutoff empty null-content refusal filter not-json no-choices html
            huge raw-escapes error-inside
Decisions   leaning rounded declines leaves-out costs (several joined by `+`)
Words       no-logprobs logprobs-refused five-logprobs top-1 maybe
Forms       no-system
Refusals    keyed-refused schema-refused format-refused limit-refused limits-refused beside
            400 400-context 400-escapes 401 403 404 quota 500 502 529 429 429-bare 429-date
Connection  drop half drip hang slow

In a batch, `row-KIND` is for every row, `once-row-KIND` for a request's first time and `some-row-KIND` for every
third row at its first time; kinds are in batch_rows.KINDS. `server.fault(step, kind, times)` makes steps fail,
and `server.before` and `server.after` are called around each.
"""

from tests.judge_server.asks import expected_score
from tests.judge_server.cues import CUES
from tests.judge_server.server import BatchServer, JudgeServer

__all__ = ["CUES", "BatchServer", "JudgeServer", "expected_score"]
