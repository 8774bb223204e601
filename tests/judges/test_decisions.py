"""Decision models: what is sent to both APIs, and what each server's answers and errors come to."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import TypeAdapter

from ruler_cli.errors import UsageError
from ruler_cli.judges import litellm as litellm_judge
from ruler_cli.judges.decisions import ROUTES
from ruler_cli.judges.http_client import HttpJudge
from ruler_cli.judges.litellm import LitellmDecisionJudge
from ruler_cli.judges.resolve import model_of, resolve
from ruler_cli.scoring.parse_reply import DefectError
from ruler_cli.scoring.typed_answers import typed_shares
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import CallError, Picture, Question, Reply, Request, Usage
from tests.conftest import Ruler, group, read, write
from tests.values import opened

LEVELS = ("Nothing is done", "A part is done", "All is done")
REQUEST = Request(
    "Grade.",
    "<trajectory>",
    (),
    questions=(
        Question("kh", "Is it fine?"),
        Question("rv", "How far?", LEVELS),
    ),
)
PICTURE = Picture("d", b"x", media="image/png", detail="low")
GROUP = group("one", 0.1, 0.9, 0.5)
DATA = Path(__file__).parents[1] / "data"
KEY = "my-own-key-0123456789"


@dataclass
class Endpoint:
    """A server on loopback that answers each path and body by a function, and keeps what it read."""

    answer: Callable[[str, Any], tuple[int, Any]]
    seen: list[tuple[str, Any]] = field(default_factory=list)
    base: str = ""

    @property
    def paths(self) -> list[str]:
        """The last word of each path."""
        return [path.rpartition("/")[2] for path, _ in self.seen]


@contextmanager
def serving(
    answer: Callable[[str, Any], tuple[int, Any]],
) -> Iterator[Endpoint]:
    """Serve in a thread."""
    endpoint = Endpoint(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            return

        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            body = json.loads(self.rfile.read(size))
            endpoint.seen.append((self.path, body))
            status, value = endpoint.answer(self.path, body)
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(
        target=server.serve_forever, args=(0.01,), daemon=True
    ).start()
    endpoint.base = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()


def answers_of(_: str, body: Any) -> tuple[int, Any]:
    """Answer a quarter for yes, by either API."""
    answers: Any = {}
    for name in body["questions"]:
        if "input" not in body:
            answers[name] = {"type": "noul", "noul": 0.25}
            continue
        answer = {
            "type": "predicate",
            "name": name["name"],
            "probability": 0.25,
        }
        answers = [*answers, answer]
    return 200, {
        "model": "m",
        "answers": answers,
        "usage": {"input_tokens": 40},
    }


def always(value: Any, _: str, __: Any) -> tuple[int, Any]:
    """Answer with one body."""
    return 200, value


def of(
    base: str, api: str = "systemone", model: str = "mock"
) -> tuple[str, ...]:
    """Options of a decision judge at an address."""
    options = (
        "-m",
        model,
        "--api",
        api,
        "--api-base",
        base,
        "--config",
        "none",
    )
    return (*options, "--progress", "none")


def ask(
    settings: JudgeSettings, request: Request = REQUEST
) -> Reply | CallError:
    """Make one call."""

    async def call() -> Reply | CallError:
        async with opened(resolve(settings)) as judge:
            with anyio.fail_after(60):
                return await judge.ask(request)

    return anyio.run(call)


def settings(base: str, api: Any = "systemone", **more: Any) -> JudgeSettings:
    """A decision judge at an address."""
    return JudgeSettings("mock", base, api=api, **more)


def scores(path: Path) -> list[Any]:
    """The scores of a file's only group."""
    (record,) = read(path)
    return [rollout["reward"] for rollout in record["trajectories"]]


def test_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both bodies say what is asked and nothing else, and the vendors' own types take them."""
    asked = json.loads(ROUTES["systemone"].body("m", {}, REQUEST))
    noul = {"type": "noul", "instructions": "Is it fine?"}
    score = {
        "type": "score",
        "instructions": "How far?",
        "criteria": list(LEVELS),
    }
    questions: Any = {"kh": noul, "rv": score}
    state = "Grade.\n\n<trajectory>"
    assert asked == {"model": "m", "state": state, "questions": questions}
    also = json.loads(
        ROUTES["decisions"].body("m", {"safety_identifier": "u"}, REQUEST)
    )
    levels = [{"label": level} for level in LEVELS]
    questions = [
        {"type": "predicate", "name": "kh", "instructions": "Is it fine?"},
        {
            "type": "score",
            "name": "rv",
            "instructions": "How far?",
            "levels": levels,
        },
    ]
    safe = {"safety_identifier": "u"}
    assert also == {
        "model": "m",
        "input": state,
        "questions": questions,
        **safe,
    }
    mock = pytest.importorskip("jevcompat.mock")
    strict = mock.MockConfig(faults=frozenset(STRICT))
    assert mock.validate_request(asked, strict) == []
    types = pytest.importorskip("openai.types.decision_create_params")
    monkeypatch.setattr(
        types, "Iterable", list
    )  # pydantic checks an iterable later
    adapter = TypeAdapter(types.DecisionCreateParams)
    assert adapter.validate_python(also) == also


STRICT = (
    "forbid-extra",
    "strict-ids",
    "string-only-text",
    "noul-needs-instructions",
)
"""Faults of the stand-in that are refusals of requests."""

ENDPOINTS = """
openai/gpt-6-luna decisions OPENAI https://api.openai.com/v1 decisions
typesafe/jev-1.14.0 auto TYPESAFE https://api.typesafe.ai/v1 systemone
openrouter/typesafe/jev-1.13 systemone OPENROUTER https://openrouter.ai/api/v1 systemone
perplexity/pplx-decider-v1.2 auto PERPLEXITY https://api.perplexity.ai/v1 decisions
vercel_ai_gateway/typesafe-ai/jev systemone VERCEL_AI_GATEWAY https://ai-gateway.vercel.sh/typesafe/v1 systemone
upstage/solar-decide systemone UPSTAGE https://api.upstage.ai/v1 systemone
digitalocean/typesafe-jev-1.13.0 systemone DIGITALOCEAN https://inference.do-ai.run/v1 systemone
fireworks_ai/rune decisions FIREWORKS https://api.fireworks.ai/inference/v1 decisions
azure/luna decisions AZURE https://x.openai.azure.com/openai/v1 decisions
ollama/nimble systemone - http://localhost:11434/v1 systemone
lm_studio/clef systemone - http://localhost:1234/v1 systemone
"""
"""The name of a judge, its API, the first word of its key's variable, its address and its path."""


def test_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each provider is asked at its own address with its own key, which goes nowhere else; a pasted path is cut."""
    monkeypatch.setenv("AZURE_API_BASE", "https://x.openai.azure.com/openai/v1")
    api: Any
    for row in ENDPOINTS.strip().splitlines():
        name, api, stem, address, path = row.split()
        plain = JudgeSettings(name, api=api)
        if stem != "-":
            with pytest.raises(UsageError, match=f"{stem}_API_KEY is not set"):
                resolve(plain)
            monkeypatch.setenv(f"{stem}_API_KEY", f"key-of-{stem}")
        judge = resolve(plain).judge
        assert isinstance(judge, HttpJudge), name
        assert (judge.base, judge.route and judge.route.path, judge.model) == (
            address,
            path,
            name.partition("/")[2],
        )
        key = "" if stem == "-" else f"key-of-{stem}"
        assert judge.secret == (key,)
        assert judge.headers.get("api-key", "") == (
            key if stem == "AZURE" else ""
        )
        assert "key-of" not in repr(judge)
        if stem != "AZURE":  # whose key is for any address of the user's
            away = JudgeSettings(name, f"http://h/v1/{path}", api=api)
            judge = resolve(away).judge
            assert isinstance(judge, HttpJudge), name
            assert (judge.base, judge.secret) == (
                "http://h/v1",
                ("",),
            )
    pasted = JudgeSettings("org/m", "http://h:8000/v1/systemone")
    judge = resolve(pasted).judge
    assert isinstance(judge, HttpJudge)
    assert (judge.base, judge.model) == ("http://h:8000/v1", "org/m")
    host = resolve(
        JudgeSettings("org/m", "http://h:8000", api="systemone")
    ).judge
    assert isinstance(host, HttpJudge)
    assert host.base == "http://h:8000/v1"


def test_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other provider is asked through litellm; one that is too old is named with the version that is not."""
    monkeypatch.setenv("CLOUDFLARE_API_KEY", KEY)
    monkeypatch.setenv("CLOUDFLARE_ACCOUNT_ID", "a")
    clef = JudgeSettings("cloudflare/clef")
    assert isinstance(resolve(clef).judge, LitellmDecisionJudge)
    monkeypatch.setattr(litellm_judge, "beside_litellm", lambda _: b"")
    with pytest.raises(UsageError, match=r"litellm>=1\.106\.2"):
        resolve(clef)


@pytest.mark.filterwarnings("ignore")  # litellm and its clients warn at import
def test_shapes(subtests: pytest.Subtests) -> None:
    """Each server's shape comes to the same numbers and its own usage; what answers nothing is never a number."""
    for row in read(DATA / "decision_answers.jsonl"):
        through = (
            ("http", "litellm") if row["server"] == "typesafe" else ("http",)
        )
        for via in through:
            with subtests.test(server=row["server"], via=via):
                with serving(partial(always, row["body"])) as endpoint:
                    judge = settings(endpoint.base, row["api"], via=via)
                    reply = ask(replace(judge, model="hosted_vllm/m"))
                assert endpoint.paths == [row["api"]]
                if isinstance(reply, CallError):
                    assert (reply.kind, row["usage"]) == ("transport", None)
                elif row["usage"]:
                    shares = typed_shares(reply.answers, REQUEST.questions)
                    assert [share.score for share in shares.values()] == [
                        0.25,
                        0.75,
                    ]
                    usage = {
                        name: getattr(reply.usage, name)
                        for name in row["usage"]
                    }
                    assert (usage, reply.model) == (row["usage"], "m")
                else:
                    with pytest.raises(DefectError):
                        typed_shares(reply.answers, REQUEST.questions)


def only(route: str, status: int) -> Callable[[str, Any], Any]:
    """A server with one of the routes; any other has a status."""

    def answer(path: str, body: Any) -> tuple[int, Any]:
        if not path.endswith(route):
            message = (
                "This model is not a decision model" if status == 501 else "no"
            )
            return status, {"error": {"message": message}}
        return answers_of(path, body)

    return answer


def test_no_decision_model(ruler: Ruler, tmp_path: Path) -> None:
    """An endpoint without such an API, or model, ends the run with the way out, and is not asked again."""
    write(tmp_path / "in.jsonl", [group(name, 0.1, 0.9) for name in "abc"])
    for status in (501, 404, 405, 403):
        with serving(only("nowhere", status)) as endpoint:
            options = (*of(endpoint.base), "-c", 1)
            done = ruler("score", "in.jsonl", "out.jsonl", *options)
        assert done.returncode == 3, done.stderr
        assert len(endpoint.seen) == 1
        assert status == 403 or "--api chat" in done.stderr, done.stderr


def test_cut_in_silence(ruler: Ruler, tmp_path: Path) -> None:
    """A server that reads less than it was sent gives no score; one that counts nothing is believed."""
    trajectories = group("a", 0.1, 0.9)["trajectories"]
    for trajectory in trajectories:
        trajectory["messages"][1]["content"] += (
            " the order was found and paid" * 900
        )
    write(tmp_path / "in.jsonl", [{"trajectories": trajectories}])
    for tokens, code in ((2048, 1), (0, 0)):

        def answer(_: str, body: Any, tokens: int = tokens) -> tuple[int, Any]:
            status, value = answers_of("", body)
            value["usage"]["input_tokens"] = tokens
            return status, value

        with serving(answer) as endpoint:
            options = (*of(endpoint.base), "--force", "--ledger", "none")
            done = ruler("score", "in.jsonl", "out.jsonl", *options)
        assert done.returncode == code, done.stderr
        wanted = [None, None] if code else [0.25, 0.25]
        assert scores(tmp_path / "out.jsonl") == wanted


def test_cost(ruler: Ruler, tmp_path: Path) -> None:
    """Tokens read are paid once, by the list or by what is told; `check` expects as much, and the cap holds."""
    luna = model_of(JudgeSettings("openai/gpt-6-luna", api="decisions")).price
    chat = model_of(JudgeSettings("openai/gpt-6-luna")).price
    assert luna and chat
    used = Usage(prompt=1_000_000, completion=1_000_000, calls=100)
    assert luna.of(used) == pytest.approx(0.1)
    assert chat.of(used) > 0.5
    jev = model_of(JudgeSettings("typesafe/jev-9"))
    assert (jev.context, jev.price) == (65_536, None)
    assert (
        model_of(JudgeSettings("azure_ai/Microsoft-Decision-1")).context
        == 32_768
    )

    write(tmp_path / "in.jsonl", [group(f"g{n}", 0.1, 0.9) for n in range(40)])
    jev_checked = ruler(
        "check", "in.jsonl", "-m", "typesafe/jev-1.14.0", "--json"
    )
    with serving(answers_of) as endpoint:
        paid = (
            *of(endpoint.base),
            "--price",
            "0.042,0",
            "--max-cost",
            "0.0002",
        )
        done = ruler("score", "in.jsonl", "out.jsonl", *paid, "-c", 1)
    assert done.returncode == 4, done.stderr
    assert 1 < len(endpoint.seen) < 40
    checked = json.loads(jev_checked.stdout)
    (judge,) = checked["judges"]
    prompt = judge["prompt_tokens"]["expected"]
    assert judge["cost_usd"]["expected"] == pytest.approx(prompt * 0.042e-6)


SIX = [f"step {step} of six is done" for step in range(6)]
RUBRIC = [{"criterion": "It is there"}, {"criterion": "How far", "levels": SIX}]
REASONS = {
    1: "xssi-200 nan extra-answer noul-range first-question-only",
    3: "wrong-route reject-jev-latest error-flat auth-rejects-header auth-x-api-key auth-plain auth-invalid-403-text",
}
"""Faults that end in a reason, by the exit code; all others end in the right number."""
OF_LEVELS = "cap-5-levels legend-1-based score-keys-1-based score-sum"
"""Faults that do so if levels are asked about."""
LABELS = re.compile(r'<trajectory id="(\w+)">\nassistant: "one-(\d)')


def right_values(mock: Any, body: Any, faults: frozenset[str]) -> Iterator[Any]:
    """Yield the rollout, if it is of levels, and the right value of each question of a request."""
    # a leak into the model cannot be seen in an answer
    model = mock.MockConfig(faults=frozenset(n for n in faults if "leaks" in n))
    rollouts = dict(LABELS.findall(body["state"]))
    for at, (name, asked) in enumerate(body["questions"].items()):
        total = len(body["questions"])
        reply = mock.answer(model, body["state"], name, asked, at, total)
        levels = asked["type"] == "score"
        value = reply.get("noul")
        if levels:
            shares = reply["probabilities"].values()
            value = sum(step * share for step, share in enumerate(shares)) / 5
        (label,) = re.findall(r"`(\w+)`", asked["instructions"])
        yield int(rollouts[label]), levels, pytest.approx(value, abs=1e-6)


def test_faults(
    ruler: Ruler,
    tmp_path: Path,
    subtests: pytest.Subtests,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each fault of the stand-in ends in the number of the stand-in without it, or in a reason: never in another."""
    mock = pytest.importorskip("jevcompat.mock")
    write(tmp_path / "in.jsonl", [GROUP])
    (tmp_path / "r.json").write_text(json.dumps(RUBRIC))
    bodies: list[Any] = []
    respond = mock.respond

    def recorded(config: Any, body: Any) -> Any:
        bodies.append(body)
        return respond(config, body)

    monkeypatch.setattr(mock, "respond", recorded)
    monkeypatch.setenv("MOCK_KEY", KEY)
    with mock.Running() as running:
        for fault in mock.FAULTS:
            faults = frozenset({fault})
            key = {
                "auth-rejects-header": None,
                "auth-invalid-403-text": KEY[::-1],
            }
            config = mock.MockConfig(key=key.get(fault, KEY), faults=faults)
            running.server.RequestHandlerClass.cfg = config
            model = "jev-9" if fault == "error-flat" else "jev-latest"
            options = [
                *of(f"{running.url}/v1", model=model),
                "--set",
                f"retries={0}",
            ]
            if fault != "auth-plain":
                options += ["--api-key-env", "MOCK_KEY"]
            for rubric in ((), ("--rubric", "@r.json")):
                with subtests.test(fault=fault, rubric=rubric):
                    bodies.clear()
                    out = tmp_path / f"{fault}-{len(rubric)}.jsonl"
                    more = ("--ledger", "none", *rubric)
                    done = ruler("score", "in.jsonl", out, *options, *more)
                    codes = [c for c in REASONS if fault in REASONS[c].split()]
                    if rubric and fault in OF_LEVELS.split():
                        codes = [1]
                    code = sum(codes)
                    assert done.returncode == code, done.stderr
                    assert KEY not in done.stdout + done.stderr
                    right = [
                        value
                        for body in bodies
                        for value in right_values(mock, body, faults)
                    ]
                    (record,) = (
                        read(out) if code < 3 else ({"trajectories": ()},)
                    )
                    for at, rollout in enumerate(record["trajectories"]):
                        values = [
                            c["value"] for c in rollout["ruler"]["criteria"]
                        ]
                        for levels, value in enumerate(
                            values or [rollout["reward"]]
                        ):
                            expected = [
                                v
                                for *place, v in right
                                if place == [at, levels]
                            ]
                            reason = rollout["ruler"]["reason"]
                            assert (
                                (code and reason)
                                if value is None
                                else value in expected
                            )


WRITING = """
temperature max_tokens max_completion_tokens response_format reasoning_effort service_tier logprobs stream n tools
state questions
"""
"""Parameters of judges that write, or of what ruler writes."""


def test_refused(
    ruler: Ruler, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """An option without a meaning for a decision model is refused in words before anything is sent."""
    write(tmp_path / "in.jsonl", [GROUP])
    at = ("-m", "m", "--api-base", "http://h/v1")
    none = "speaks no decision-model API; leave out --api"
    refused: list[Any] = [
        (("-m", name), none) for name in ("offline", "simulated")
    ]
    for name in WRITING.split():
        refused.append(((*at, "-p", f"{name}=1"), f"-p {name}: "))
    for options, words in refused:
        for command in (
            ("score", "in.jsonl", "out.jsonl"),
            ("check", "in.jsonl"),
        ):
            with subtests.test(options=options, command=command[0]):
                done = ruler(*command, *options, "--api", "systemone")
                assert done.returncode == 2, done.stderr
                assert words in done.stderr + done.stdout

    async def judge(_: Any) -> str:
        raise AssertionError

    with pytest.raises(UsageError, match="speaks no decision-model API"):
        resolve(JudgeSettings("mine", api="systemone", function=judge))
    luna = ("-m", "openai/gpt-6-luna", "--api", "decisions")
    done = ruler("batch", "submit", "in.jsonl", *luna, OPENAI_API_KEY=KEY)
    assert done.returncode == 2
    assert "is a decision model, which no batch API serves" in done.stderr


def test_pictures() -> None:
    """A group with pictures fails with the way out, and nothing is sent."""
    pictured = replace(REQUEST, pictures=((2, PICTURE),))
    with serving(answers_of) as endpoint:
        for api in ("systemone", "decisions"):
            refused = ask(settings(endpoint.base, api), pictured)
            assert isinstance(refused, CallError)
            assert (refused.kind, refused.sent) == ("input", False)
            assert "--pictures leave" in refused.reason
    assert endpoint.paths == []


def test_pasted_address() -> None:
    """An address that ends in the path of an API names that API, unless the user names one."""
    for path, api in (
        ("systemone", "systemone"),
        ("decisions/", "decisions"),
        ("", "chat"),
        ("decisions/v1", "chat"),
    ):
        judge = JudgeSettings("hosted_vllm/m", f"http://h/v1/{path}")
        assert judge.spoken == api
    chat = JudgeSettings("hosted_vllm/m", "http://h/systemone", api="chat")
    assert chat.spoken == "chat"
