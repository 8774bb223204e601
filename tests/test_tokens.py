"""Tokens are guessed in one place: the fewest that a text can be lies below what real tokenizers make of it."""

from __future__ import annotations

import random
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiktoken

from ruler_cli.judges.replies import usage_of
from ruler_cli.pool.retries import counted
from ruler_cli.tokens import fewest_tokens, likely_tokens
from ruler_cli.types import Reply, Request, Usage
from tests.conftest import ROOT, SHARED

RANDOM = random.Random(1)
BYTES = RANDOM.randbytes(3000)
TEXTS = {
    "english": "The agent didn't look the order up, so it can't know that it's paid. " * 20,
    "code": Path(__file__).read_text(),
    "json": '{"id":17,"ok":true,"items":[{"sku":"A-1","n":2}]}' * 50,
    "minified": 'function a(b,c){return b?c[0]:d.e("f")}var g=1;' * 50,
    "hex": BYTES.hex(),
    "spaced hex": BYTES.hex(" "),
    "numbers": ", ".join(str(RANDOM.random()) for _ in range(500)),
    "digits": "0 1 1 0 2 " * 300,
    "letters": "a b c d e f " * 300,
    "html": "<tr><td>1</td><td><h1>a</h1></td></tr>" * 100,
    "chinese": "代理没有查询订单,所以它不知道订单已经付款。请先核对客户的姓名和地址。" * 30,
    "japanese": "エージェントは注文を確認しませんでした。ありがとうございます。" * 30,
    "korean": "에이전트는 주문을 확인하지 않았습니다. 고객의 이름과 주소를 확인하세요." * 30,
    "thai": "ตัวแทนไม่ได้ตรวจสอบคำสั่งซื้อ จึงไม่ทราบว่าชำระเงินแล้ว กรุณาตรวจสอบที่อยู่" * 30,
    "hindi": "एजेंट ने ऑर्डर नहीं देखा, इसलिए उसे नहीं पता कि भुगतान हो चुका है। " * 30,
    "arabic": "لم يتحقق الوكيل من الطلب، لذلك لا يعرف أنه مدفوع بالفعل. " * 30,
    "russian": "Агент не проверил заказ, поэтому не знает, что он уже оплачен. " * 30,
    "greek": "Πράκτορας δεν έλεγξε την παραγγελία και δεν ξέρει ότι πληρώθηκε. " * 30,
    "hebrew": "הסוכן לא בדק את ההזמנה ולכן אינו יודע שהיא שולמה. " * 30,
    "vietnamese": "Tác nhân không kiểm tra đơn hàng nên không biết rằng nó đã được trả. " * 30,
    "table": ("| name" + " " * 40 + "| value" + " " * 60 + "|\n") * 100,
    "separators": ("=" * 80 + "\n" + "-" * 120 + "\nstep\n" + "ー" * 40 + "\n") * 60,
    "bars": "\n".join(f"[{'#' * i}{'.' * (60 - i)}] {i}% {'█' * i}" for i in range(60)),
    "indented": "\n".join(" " * (i % 90) + "x = 1" for i in range(300)),
    "full-width blanks": ("　" * 30 + "はい\n") * 100,
    "emoji": "😀👍🏽 ok 🎉🎉🎉 " * 200,
}  # fmt: skip


def tokenizers(monkeypatch: pytest.MonkeyPatch) -> list[tiktoken.Encoding]:
    """Return OpenAI's tokenizers, whose vocabularies litellm carries."""
    spec = find_spec("litellm")
    assert spec and spec.origin
    vocabularies = (
        Path(spec.origin).parent / "litellm_core_utils" / "tokenizers"
    )
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(vocabularies))
    return [
        tiktoken.get_encoding(name) for name in ("o200k_base", "cl100k_base")
    ]


def test_fewest_is_a_lower_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """No text has fewer tokens with a real tokenizer, and text in any script has at most four times as many."""
    files = [*ROOT.glob("samples/*.jsonl"), *SHARED.glob("data/*.jsonl")]
    texts = TEXTS | {file.name: file.read_text()[:50_000] for file in files}
    marks = {
        "table",
        "separators",
        "bars",
        "indented",
        "full-width blanks",
        "emoji",
    }
    encodings = tokenizers(monkeypatch)
    for name, text in texts.items():
        fewest = fewest_tokens(text)
        counts = [
            len(each.encode(text, disallowed_special=())) for each in encodings
        ]
        assert fewest <= min(counts), name
        if name not in marks | {"numbers"}:
            assert min(counts) <= 4 * fewest, name


def test_fewest_is_quick() -> None:
    """A megabyte takes some hundredths of a second at most, whatever it holds."""
    for name, text in TEXTS.items():
        whole = text * (1_000_000 // len(text.encode()))
        seconds = []
        for _ in range(3):
            begin = time.process_time()
            fewest_tokens(whole)
            seconds.append(time.process_time() - begin)
        assert min(seconds) < 0.1, name


def test_guess_is_no_lower_than_the_fewest() -> None:
    """A guess is above the fewest that a text can be, and no text is without a token."""
    for text in [*TEXTS.values(), "", " ", "\ud800"]:
        assert likely_tokens(text) > fewest_tokens(text) >= 0


def test_impossible_reports_are_replaced() -> None:
    """A number of tokens that is missing, zero or below half of the fewest becomes an estimate, and says so."""
    request = Request(
        "Score each. " * 20, TEXTS["english"], ("a",), picture_tokens=50
    )
    sent = f"{request.system}\n{request.user}"
    answer = "The order was found and cancelled. " * 10
    prompt, completion = likely_tokens(sent) + 50, likely_tokens(answer)
    least, least_answer = fewest_tokens(sent), fewest_tokens(answer)
    for reported, right in {
        (1000, 200): (1000, 200, False),
        (least // 2 + 1, least_answer // 2 + 1): (
            least // 2 + 1,
            least_answer // 2 + 1,
            False,
        ),
        (0, 200): (prompt, 200, True),
        (1, 200): (prompt, 200, True),
        (least // 2 - 1, 200): (prompt, 200, True),
        (1000, 0): (1000, completion, True),
        (1000, 1): (1000, completion, True),
        (0, 0): (prompt, completion, True),
    }.items():
        reply = Reply(answer, Usage(*reported, calls=1), body=b"{}")
        usage = counted(request, reply, lambda usage: usage.prompt / 1000).usage
        assert usage.usd == usage.prompt / 1000
        assert (usage.prompt, usage.completion, usage.estimated) == right, (
            reported
        )
    embedded = Reply(answer, Usage(calls=1))
    assert counted(request, embedded, lambda _: None) == embedded
    silent = Reply("", Usage(1000, 0, calls=1), refusal="No.", body=b"{}")
    assert not counted(request, silent, lambda _: None).usage.estimated


def test_cached_tokens_beside_the_prompt() -> None:
    """Cached and written tokens count as part of the prompt also where the endpoint reports them beside it."""
    beside = {
        "cache_read_input_tokens": 9000,
        "cache_creation_input_tokens": 500,
    }
    for usage, prompt, cached in (
        ({"prompt_tokens": 9600, "prompt_tokens_details": {"cached_tokens": 9000}}, 9600, 9000),
        ({"prompt_tokens": 9600, "prompt_tokens_details": {"cached_tokens": 9000}, **beside}, 9600, 9000),
        ({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 9000}}, 9100, 9000),
        ({"prompt_tokens": 100, **beside}, 9600, 9000),
        ({"prompt_tokens": 9600, **beside}, 19100, 9000),
        ({"prompt_tokens": 100}, 100, 0),
        ({"prompt_tokens": 100, "prompt_tokens_details": None}, 100, 0),
    ):  # fmt: skip
        read = usage_of({"usage": usage})
        assert (read.prompt, read.cached) == (prompt, cached), usage
