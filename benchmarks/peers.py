"""Three ways to score the same groups with the same model: ruler, ART's `ruler`, and a loop over litellm.

    python -m benchmarks.peers FILE --model NAME --api-base URL [--art PYTHON] [--in-flight N]
    python -m benchmarks.peers FILE [--repeat K] [--art PYTHON] [--in-flight N]

FILE holds a group with rewards on each line. Requests pass a proxy of this process, which counts them and the tokens
that the server reports. PYTHON is the interpreter of an environment with `openpipe-art`; without it ART is left out.
Each way runs alone, in a process of its own. A group without scores is one that its way could not score.

Without a server the proxy is the judge: it answers after 50 ms, and fails as servers do. Of ten requests it refuses
one for a second (429), and one of twenty gets an answer that is cut in the middle. FILE is repeated K times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

_ART = """
from art.rewards import ruler


async def scores_of(group):
    rollouts = [rollout["messages"] for rollout in group["trajectories"]]
    params = {"api_base": base, "api_key": "x", "temperature": 0}
    return [score.score for score in await ruler(rollouts, "openai/" + model, params)]
"""
_LITELLM = """
import litellm
from benchmarks.floor import prompt

litellm.suppress_debug_info = True


async def scores_of(group):
    reply = await litellm.acompletion(model="openai/" + model, messages=prompt(group), api_base=base, api_key="x",
        temperature=0, response_format={"type": "json_object"})
    scores = json.loads(reply.choices[0].message.content)["scores"]
    by_id = {int(score["trajectory_id"]): score["score"] for score in scores}
    return [float(by_id[number]) for number in range(len(group["trajectories"]))]
"""
_BEFORE = """
import asyncio, json, sys

source, target, base, model, in_flight = sys.argv[1:]
"""
_AFTER = """

async def main():
    semaphore = asyncio.Semaphore(int(in_flight))

    async def judge(line):
        async with semaphore:
            try:
                return await scores_of(json.loads(line))
            except Exception as error:
                print(type(error).__name__, error, file=sys.stderr)
                return None

    with open(source) as lines, open(target, "w") as scores:
        json.dump(await asyncio.gather(*map(judge, lines)), scores)


asyncio.run(main())
"""
WAYS = ("ruler", "ART", "litellm loop")
Scores = list[list[float] | None]


@dataclass(frozen=True)
class Outcome:
    """The price of a way: seconds, requests, tokens of prompt and answer, and the scores of each group."""

    way: str
    wall: float
    cpu: float
    requests: int
    prompt_tokens: int
    completion_tokens: int
    scores: Scores

    def row(self, groups: list[dict[str, Any]]) -> str:
        """Return a row of the table."""
        scored = [
            pair for pair in zip(groups, self.scores, strict=True) if pair[1]
        ]
        right, wrong, tied = _pairs(scored)
        accuracy = (right + tied / 2) / max(right + wrong + tied, 1)
        cells = (
            self.way,
            f"{len(scored)} of {len(groups)}",
            f"{accuracy:.3f}; {right}, {wrong}, {tied}",
            str(self.requests),
            f"{self.prompt_tokens:,} + {self.completion_tokens:,}",
            f"{self.cpu:.1f}",
            f"{self.wall:.0f}",
        )
        return f"| {' | '.join(cells)} |"


def _pairs(scored: list[tuple[dict[str, Any], Any]]) -> tuple[int, int, int]:
    """Count the pairs of rollouts in the order of their rewards, against it, and with equal scores."""
    right, wrong, tied = 0, 0, 0
    for group, scores in scored:
        rewards = [rollout["reward"] for rollout in group["trajectories"]]
        for better, reward in enumerate(rewards):
            for worse, less in enumerate(rewards):
                if reward <= less:
                    continue
                difference = scores[better] - scores[worse]
                right += difference > 0
                wrong += difference < 0
                tied += difference == 0
    return right, wrong, tied


class CountingProxy:
    """Passes requests on to a server, or answers them; counts them and the tokens that the server reports."""

    def __init__(self, base: str | None) -> None:
        """Serve in front of `base`, the address up to `/v1`; None: answer every request here."""
        self._base = base
        self.requests = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0

    def start_count(self) -> None:
        """Count from nothing."""
        self.requests, self.prompt_tokens, self.completion_tokens = 0, 0, 0

    async def handle(self, request: web.Request) -> web.Response:
        """Answer as the server does."""
        self.requests += 1
        body = await request.read()
        if self._base is None:
            return await self._answer(body)
        address = f"{self._base}/{request.match_info['path']}"
        headers = {"content-type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(address, data=body, headers=headers) as reply,
        ):
            answer = await reply.read()
            status = reply.status
        try:
            usage = json.loads(answer).get("usage") or {}
        except ValueError:
            usage = {}
        self.prompt_tokens += usage.get("prompt_tokens", 0)
        self.completion_tokens += usage.get("completion_tokens", 0)
        return web.Response(
            body=answer, status=status, content_type="application/json"
        )

    async def _answer(self, body: bytes) -> web.Response:
        """Answer a request with a score for each trajectory that is shown, or fail."""
        number = self.requests
        await asyncio.sleep(0.05)
        if number % 10 == 5:
            error = {"error": {"message": "Rate limit reached", "code": "429"}}
            return web.json_response(
                error, status=429, headers={"Retry-After": "1"}
            )
        request = json.loads(body)
        shown = request["messages"][-1]["content"]
        scores = [
            {"trajectory_id": label, "explanation": "Well done.", "score": 0.5}
            for label in re.findall(r'^<trajectory id="(.+)">$', shown, re.M)
        ]
        content = json.dumps({"scores": scores})
        if number % 20 == 8:
            content = content[: len(content) // 2]
        prompt_tokens = len(body) // 4
        completion_tokens = len(content) // 4
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens
        message = {"role": "assistant", "content": content}
        reply = {
            "id": f"{number}",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": message}
            ],
            "usage": {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": completion_tokens,
                "total_tokens": prompt_tokens + completion_tokens,
            },
        }
        return web.json_response(reply)


async def _timed(
    command: list[str], environment: Mapping[str, str]
) -> tuple[float, float]:
    """Run a command; return its seconds of wall time and of CPU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=subprocess.DEVNULL
    )
    await process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - start, used


async def _compare(options: argparse.Namespace) -> None:
    groups = [
        json.loads(line) | {"group_id": f"{number}-{copy}"}
        for copy in range(options.repeat)
        for number, line in enumerate(options.file.read_text().splitlines())
    ]
    proxy = CountingProxy(options.api_base and options.api_base.rstrip("/"))
    application = web.Application(client_max_size=1 << 28)
    application.router.add_post("/v1/{path:.*}", proxy.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    base = f"http://127.0.0.1:{port}/v1"
    environment = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    print(
        "| way | scored | accuracy; right, wrong, tied | requests | tokens | CPU s | wall s |"
    )
    print("| --- | --- | --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        source = _written(groups, Path(folder, "groups.jsonl"))
        for way in options.way or WAYS:
            target = Path(folder, f"{way}.jsonl")
            command = _command(way, options, source, base, target)
            if command is None:
                continue
            proxy.start_count()
            wall, cpu = await _timed(command, environment)
            outcome = Outcome(
                way,
                wall,
                cpu,
                proxy.requests,
                proxy.prompt_tokens,
                proxy.completion_tokens,
                _scores_of(way, target),
            )
            print(outcome.row(groups), flush=True)
    await runner.cleanup()


def _written(groups: list[dict[str, Any]], path: Path) -> Path:
    lines = [json.dumps(group) + "\n" for group in groups]
    path.write_text("".join(lines))
    return path


def _command(
    way: str,
    options: argparse.Namespace,
    source: Path,
    base: str,
    target: Path,
) -> list[str] | None:
    """Return the command of a way; None if what it needs is not there."""
    words = [str(source), str(target), base, options.model]
    in_flight = str(options.in_flight)
    if way == "ruler":
        judge = ["-m", f"hosted_vllm/{options.model}", "--api-base", base]
        limits = ["-c", in_flight, "-p", "temperature=0", "--ledger", "none"]
        start = [sys.executable, "-m", "ruler_cli", "score"]
        return [*start, *words[:2], *judge, *limits, "-q", "--force"]
    if way == "litellm loop":
        script = _BEFORE + _LITELLM + _AFTER
        return [sys.executable, "-c", script, *words, in_flight]
    if options.art:
        script = _BEFORE + _ART + _AFTER
        return [options.art, "-c", script, *words, in_flight]
    return None


def _scores_of(way: str, target: Path) -> Scores:
    """Return the scores that a way wrote, None for a group without."""
    if way != "ruler":
        scores: Scores = json.loads(target.read_text())
        return scores
    scores = []
    for line in target.read_text().splitlines():
        rollouts = json.loads(line)["trajectories"]
        rewards = [rollout["reward"] for rollout in rollouts]
        scores.append(None if None in rewards else rewards)
    return scores


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", default="judge")
    parser.add_argument("--api-base", help="without it, this process answers")
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--art", help="Python of an environment with ART")
    parser.add_argument("--in-flight", type=int, default=4)
    asyncio.run(_compare(parser.parse_args()))


if __name__ == "__main__":
    _main()
