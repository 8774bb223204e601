"""`ruler.toml`: where it is found, what wins over what, its mistakes by table, and `ruler config`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import ruler_cli
from ruler_cli.cli.options import SCORE_OPTIONS
from ruler_cli.errors import UsageError
from ruler_cli.settings.fields import is_flag
from ruler_cli.types import words_of
from tests.conftest import Ruler, group, read, write
from tests.judge_server import BatchServer, JudgeServer

FILE = """\
# comments count as lines
[score]
passes = 2
retry_failed = true
max-cost = 7.5
order = "input"
model = ["fast", "offline"]
param = { temperature = 0.5 }
price = [1, 2]
ledger = "mine.sqlite"
group_by = "task"
api_key_env = "LAB"

[judges.fast]
model = "openai/good"
rpm = 60
"""


def holds(ruler: Ruler, *words: str, **env: str) -> dict[str, tuple[Any, str]]:
    """The options that hold, each with its source."""
    done = ruler("config", *words, "--json", **env)
    assert done.returncode == 0, done.stderr
    return {
        name: (one["value"], one["from"])
        for name, one in json.loads(done.stdout)["options"].items()
    }


SCORE = "ruler.toml [score]"


OPTIONS = [
    ("passes", 2, "--passes 4", 4, "RULER_PASSES", "5", 5, 1),
    (
        "retry-failed",
        True,
        "--retry-failed",
        True,
        "RULER_RETRY_FAILED",
        "1",
        True,
        None,
    ),
    (
        "model",
        ["fast", "offline"],
        "--model a",
        ["a"],
        "RULER_MODEL",
        "b c",
        ["b", "c"],
        ["openai/o3"],
    ),
    (
        "param",
        ["temperature=0.5"],
        "-p a=1 -p b=2",
        ["a=1", "b=2"],
        "RULER_PARAM",
        "c=3",
        ["c=3"],
        None,
    ),
    (
        "ledger",
        ["mine.sqlite"],
        "--ledger x",
        ["x"],
        "RULER_LEDGER",
        "a b",
        ["a b"],
        ...,
    ),
]
"""Option, its value in FILE, words and their value, a variable and its value, the default (None: no row)."""


@pytest.mark.parametrize("row", OPTIONS, ids=lambda row: str(row[0]))
def test_precedence(row: Any, ruler: Ruler, tmp_path: Path) -> None:
    """The command line wins over a variable, that over the file, and that over the default."""
    name, in_file, words, given, variable, text, from_variable, default = row
    if default is not ...:
        before = holds(ruler).get(name)
        assert before == (None if default is None else (default, "default"))
    (tmp_path / "ruler.toml").write_text(FILE)
    env = {variable: text}
    assert holds(ruler)[name] == (in_file, SCORE)
    assert holds(ruler, **env)[name] == (from_variable, variable)
    assert holds(ruler, "score", *words.split(), **env)[name] == (
        given,
        "command line",
    )


def test_flags_are_switched_off(ruler: Ruler, tmp_path: Path) -> None:
    """`--no-FLAG` and `--set FLAG=false` switch off every flag that the file or a variable sets."""
    flags = [name for name in SCORE_OPTIONS if is_flag(name)]
    flags.remove("force")
    lines = [f"{name} = true\n" for name in (*flags, "debias", "hedge")]
    (tmp_path / "ruler.toml").write_text("[score]\n" + "".join(lines))
    off = [f"--no-{name.replace('_', '-')}" for name in flags]
    off += ["--set", "debias=false", "--set", "hedge=0"]
    shown = holds(ruler, "score", *off, RULER_DEBIAS="1")
    assert not {name.replace("_", "-") for name in flags} & {*shown}
    assert not {"debias", "hedge"} & {*shown}


def test_tables_of_commands(ruler: Ruler, tmp_path: Path) -> None:
    """Other commands have the options of `[score]` that are theirs too."""
    (tmp_path / "ruler.toml").write_text(FILE)
    check, submit = holds(ruler, "check"), holds(ruler, "batch", "submit")
    assert check["passes"] == (2, SCORE)
    assert (check["order"], check["ledger"]) == (
        ("input", SCORE),
        (["mine.sqlite"], SCORE),
    )
    assert check["max-cost"][1] == SCORE
    assert submit["model"] == (["fast", "offline"], SCORE)
    assert (submit["ledger"], submit["max-cost"][0]) == (
        (["mine.sqlite"], SCORE),
        7.5,
    )
    assert "api-key-env" not in holds(ruler, "batch", "collect")
    assert holds(ruler, "check")["api-key-env"] == ("LAB", SCORE)
    assert holds(ruler, "report")["group-by"] == (["task"], SCORE)
    assert holds(ruler, "ledger", "stats")["ledger"] == (["mine.sqlite"], SCORE)


def test_run_names_the_file(ruler: Ruler, tmp_path: Path) -> None:
    """A run says what it takes from a file that lies in the working directory, unless it is quiet."""
    (tmp_path / "ruler.toml").write_text(
        '[judges.f]\nmodel = "offline"\n[score]\nmodel = "f"\nseed = 1\n'
    )
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    done = ruler("score", "in.jsonl", "out.jsonl")
    assert done.stderr.startswith(
        "ruler: settings of ruler.toml: model, seed, judge f\n"
    )
    assert (
        "settings of"
        not in ruler(
            *words_of("score in.jsonl out.jsonl --config none -m offline"),
        ).stderr
    )
    assert not ruler("score", "in.jsonl", "out.jsonl", "-q").stderr
    quiet = "[score]\nmodel = 'offline'\nprogress = 'none'\n"
    (tmp_path / "ruler.toml").write_text(quiet)
    assert not ruler("score", "in.jsonl", "out.jsonl").stderr
    (tmp_path / "ruler.toml").write_text(
        "[score]\nmodel = 'offline'\nledger = 'l.sqlite'\n"
    )
    assert (
        "settings of ruler.toml: model, ledger\n"
        in ruler("batch", "submit", "in.jsonl").stderr
    )


@pytest.fixture
def named_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the user name the file of settings, which may then say where a key goes."""
    monkeypatch.setenv("RULER_CONFIG", "ruler.toml")


@pytest.mark.usefixtures("named_file")
def test_file_that_sends_keys(ruler: Ruler, tmp_path: Path) -> None:
    """A file that names an endpoint or a key is named with both, however quiet the run is."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    base, key = "api_base = 'http://127.0.0.1:9/v1'", "api_key_env = 'LAB'"
    score, judge = (
        "[score]\nmodel = 'openai/x'\nretries = 0\n",
        "[judges.f]\nmodel = 'openai/x'\n",
    )
    at, by = "at http://127.0.0.1:9/v1", "with the key in LAB"
    quiet: list[tuple[str, list[str], dict[str, str]]] = [
        ("progress = 'none'", [], {}),
        ("", ["-q"], {}),
        ("", ["--progress", "none"], {}),
        ("", [], {"RULER_PROGRESS": "none"}),
    ]
    for file, words in (
        (f"{score}{base}\n{key}\n", f"openai/x is asked {at} {by}\n"),
        (f"{score}{base}\n", f"openai/x is asked {at}\n"),
        (
            f"{judge}{base}\n{key}\n[score]\nmodel = 'f'\nretries = 0\n",
            f"f is asked {at} {by}\n",
        ),
    ):
        for line, options, variables in quiet:
            (tmp_path / "ruler.toml").write_text(f"{file}{line}\n")
            done = ruler(
                "score",
                "in.jsonl",
                "out.jsonl",
                *options,
                LAB="a-key-of-the-lab",
                **variables,
            )
            note = done.stderr.partition("\n")[0] + "\n"
            assert note.startswith("ruler: settings of ruler.toml: ")
            assert words in note
            assert "a-key" not in done.stderr
    own = ruler(
        *words_of(
            "score in.jsonl o.jsonl -q --api-base http://127.0.0.1:9/v1 -m openai/x"
        ),
    )
    assert "settings of" not in own.stderr


def test_file_that_reads_others(ruler: Ruler, tmp_path: Path) -> None:
    """A file that was found sends no file from outside of its directory to an address of its choice."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    (tmp_path / "mine.md").write_text("Be strict.")
    outside = tmp_path.parent / f"{tmp_path.name}.md"
    outside.write_text("mine alone")
    (tmp_path / "link.md").symlink_to(outside)
    base = "api_base = 'http://127.0.0.1:9/v1'\n"
    for name, address, code in (
        ("mine.md", base, 0),
        (str(outside), "", 0),
        (str(outside), base, 2),
        (f"../{outside.name}", base, 2),
        ("link.md", base, 2),
    ):
        file = f"[score]\nmodel = 'openai/x'\nrubric = '@{name}'\n{address}"
        (tmp_path / "ruler.toml").write_text(file)
        done = ruler("check", "in.jsonl", OPENAI_API_KEY="k")
        assert done.returncode == code, (name, done.stderr)
        assert ("sets rubric, and was found, not named" in done.stderr) is (
            code == 2
        )


def test_server_of_a_tool(ruler: Ruler, tmp_path: Path) -> None:
    """A file that was found sets no parameter that holds an address; one that was named, or typed, does."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    tools = '[{"type": "mcp", "server_url": "http://127.0.0.1:9"}]'
    judge = "[judges.a]\nmodel = 'openai/x'\n"
    (tmp_path / "ruler.toml").write_text(
        f"{judge}params = {{ tools = {tools.replace(':', ' =', 2)} }}\n"
    )
    for words, code in (
        ([], 2),
        (["--config", "ruler.toml"], 0),
        (["-p", f"tools={tools}"], 0),
    ):
        done = ruler("check", "in.jsonl", "-m", "a", *words, OPENAI_API_KEY="k")
        assert done.returncode == code, done.stderr
        assert ("sets tools, and was found, not named" in done.stderr) is (
            code == 2
        )


def test_where_it_is_found(ruler: Ruler, tmp_path: Path) -> None:
    """The file is the one of --config, else `ruler.toml` here."""
    assert holds(ruler)["passes"] == (1, "default")
    (tmp_path / "ruler.toml").write_text("[score]\npasses = 4\n")
    assert holds(ruler)["passes"] == (4, SCORE)
    (tmp_path / "lab.toml").write_text("\n[score]\npasses = 5\n")
    assert holds(ruler, RULER_CONFIG="lab.toml")["passes"] == (
        5,
        "lab.toml [score]",
    )
    assert holds(ruler, "check", "--config", "lab.toml")["passes"] == (
        5,
        "lab.toml [score]",
    )
    assert holds(ruler, "--config", "lab.toml", "check")["passes"] == (
        5,
        "lab.toml [score]",
    )
    assert holds(ruler, "--config", "none")["passes"] == (1, "default")
    missing = ruler("config", "--config", "lap.toml")
    assert missing.returncode == 2
    assert "no such file" in missing.stderr
    long = "x" * 300
    assert (
        f"{long}: cannot be read: File name too long"
        in ruler("config", "--config", long).stderr
    )
    nothing = ruler("config", "--config", "none").stdout
    assert nothing.startswith("no ruler.toml here\n")


MISTAKES = {
    "[judges.fast]\nmodel = 'a'\n\napi_bse = 'x'": (
        " [judges.fast]: no such option: api_bse; did you mean api_base?"
    ),
    "[judges.fast]\nrpm = 3": " [judges.fast] model: is missing; set it",
    "[judges.fast]\nmodle = 'a'": " [judges.fast]: no such option: modle; did you mean model?",
    "[score]\nforce = true": " [score] force: is for one run; leave it out, and use --force",
    "[score]\nbudget = 3": " [score]: no such option: budget; use --max-cost USD",
    "[score]\nfallback = true": " [score]: no such option: fallback; use --escalate NAME",
    "[score]\nmax-cost = 1\nmax_cost = 100": " [score]: an option is set twice; leave one out",
    "[[judges]]\nmodel = 'a'": ": judges is not a table; write [judges], and its settings below",
    "[judges]\nfast = 3": ": judges.fast is not a table; write [judges.fast], and its settings below",
    "[[judges]]\nmodel = 'x'": ": judges is not a table; write [judges], and its settings below",
    "formats = 3": ": formats is not a table; write [formats], and its settings below",
    "[judges.offline]\nmodel = 'x'": " [judges.offline]: is a name of ruler's own",
    "[judges.a]\nmodel = 'x'\nrpm = 'many'": (
        " [judges.a] rpm: 'many' is not a number"
    ),
    "[judges.a]\nmodel = 'x'\nconcurrency = 1.5": (
        " [judges.a] concurrency: 1.5 is not a whole number"
    ),
    "[judges.a]\nmodel = 3": " [judges.a] model: 3 is not a text",
    "[score]\nmodel = [['a']]": " [score] model: [['a']] is not a text",
    "[score]\nescalate = ['a']": " [score] escalate: ['a'] is not a text",
    "[score]\nledger = 5": " [score] ledger: 5 is not a text",
    "[score]\ngroup_by = ['a', 5]": " [score] group_by: ['a', 5] is not a text",
    "[score]\nprompt = [{ a = 1 }]": " [score] prompt: [{'a': 1}] is not a text",
    "[judges.a]\nmodel = 'x'\nvia = 'ftp'": (
        " [judges.a] via: 'ftp' is not 'auto', 'http' or 'litellm'"
    ),
    "[judges.a]\nmodel = 'x'\nprice = 2": (
        " [judges.a] price: 2 is not USD per million prompt and completion tokens"
    ),
    "[judges.a]\nmodel = 'x'\nparams = 'a'": " [judges.a] param: 'a' is not KEY=VALUE",
    "[judges.a]\nmodel = 'x'\nparams = { base_url = 'x' }": (
        " [judges.a] param: name the endpoint with --api-base URL"
    ),
    "[judges.a]\nmodel = 'x'\nask = 'f'": " [judges.a] ask: 'f' is not 'group' or 'each'",
    "[score]\nparam = { messages = [] }": " [score] param: ruler writes the prompt",
    "[score]\nparam = ['model=y']": " [score] param: name the model with -m NAME",
    "[score]\nmax_failures = '5x'": (
        " [score] max_failures: '5x' is neither a whole number, e.g. 20, nor a share"
    ),
    "[score]\nrubric = '@missing.md'": " [score] rubric: no such file; check the path",
    "[score]\nshard = '5/3'": " [score] shard: '5/3' is not I/N with I from 1 to N",
    "[score]\npasses = 'three'": (
        " [score] passes: 'three' is not a whole number"
    ),
    "[score]\npasses = true": " [score] passes: True is not a whole number",
    "[score]\nblend = 2": " [score] blend: 2 is not 1 or less",
    "[score]\nmax_cost = nan": " [score] max_cost: nan is not 0 or more",
    "[score]\ndebias = 'perhaps'": " [score] debias: 'perhaps' is not a valid boolean",
    "[score]\norder = 'best'": (
        " [score] order: 'best' is not 'random' or 'input'"
    ),
    "[score]\n\nmax-costs = 3": (
        " [score]: no such option: max_costs; did you mean max_cost?"
    ),
    "[scoer]\nx = 3": ": there is no table [scoer]; options belong in [score]",
    "passes = 3": ": there is no table [passes]; options belong in [score]",
    "[score]\npasses = ": ": is not valid TOML: Invalid value",
    "[score]\npasses = 1\npasses = 2": ": is not valid TOML: Cannot overwrite a value",
    "score.passes = 0": " [score] passes: 0 is not 1 or more",
    "score = { passes = 0 }": " [score] passes: 0 is not 1 or more",
    "a = " + "[" * 5000 + "]" * 5000: ": is not valid TOML: maximum recursion",
    f"[score]\nseed = 1{'0' * 5000}\n": ": is not valid TOML: Exceeds the limit",
}
"""Texts of a file, and how the sentence on it goes on after the file's name."""


def test_mistakes(
    ruler: Ruler, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A mistake is one sentence with the file and the table, before anything is read or sent."""
    write(tmp_path / "in.jsonl", [group("a", 0.1)])
    for text, message in MISTAKES.items():
        with subtests.test(text=text[:90]):
            (tmp_path / "ruler.toml").write_text(text)
            done = ruler(*words_of("score in.jsonl out.jsonl -m offline"))
            assert done.stderr.startswith(f"ruler: ruler.toml{message}"), (
                done.stderr
            )
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (
                2,
                "",
                1,
            )
            assert not (tmp_path / "out.jsonl").exists()
    assert ruler("score", "--help").returncode == 0


SECRETS = {
    "[judges.a]\nmodel = 'x'\napi_key = 'sk-1234567890'": (
        " [judges.a]: api_key is not an option; name the variable"
    ),
    "[judges.a]\nmodel = 'x'\napi_key_env = 'sk-1234567890'": (
        " [judges.a] api_key_env: expects the name of a variable"
    ),
    "[judges.a]\nmodel = 'x'\nparams = { api_key = 'sk-1234567890' }": (
        " [judges.a] param: a key is not a parameter; name the variable"
    ),
    "[judges.a]\nmodel = 'sk-1234567890'": " [judges.a] model: its value (not shown)",
    "[score]\napi_key = 'sk-1234567890'": " [score]: api_key is not an option; name the variable",
    "[score]\napi_key_env = 'sk-1234567890'": " [score] api_key_env: expects the name",
    "[score]\nparam = { api_key = 'sk-1234567890' }": " [score] param: a key is no",
    "[score]\npasses = 'sk-1234567890'": " [score] passes: [key] is not",
    "[score]\norder = 'sk-1234567890'": " [score] order: [key] is not 'random'",
}


def test_no_key_in_the_file(ruler: Ruler, tmp_path: Path) -> None:
    """A key in the file is refused, and no value of the file is in an error."""
    for text, message in SECRETS.items():
        (tmp_path / "ruler.toml").write_text(text)
        done = ruler("config")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"ruler: ruler.toml{message}"), (
            done.stderr
        )
        assert "sk-" not in done.stderr


def test_config_prints_no_key(ruler: Ruler, tmp_path: Path) -> None:
    """`ruler config` names the variable of a key and if it is set, never a value that may be a key."""
    (tmp_path / "ruler.toml").write_text(
        "[judges.a]\nmodel = 'openai/x'\napi_key_env = 'LAB_KEY'\n"
        "params = { extra_headers = { Authorization = 'sk-123456' }, api_token = 'sk-1', max_tokens = 9 }\n"
        "[judges.b]\nmodel = 'openai/y'\n[score]\nmodel = ['a', 'b']\n"
    )
    page = ruler("config", COLUMNS="80", LAB_KEY="sk-7654321").stdout
    assert re.search(r"api_key_env +LAB_KEY\n  key_set +yes", page)
    assert re.search(r"api_key_env +OPENAI_API_KEY\n  key_set +no", page)
    assert "max_tokens=9" in page
    # what goes into a pipe is whole
    assert "…" not in page
    words = ("-p", "api_token=sk-555", "--api-base", "http://me:sk-556@host/v1")
    for text in (
        page,
        ruler("config", "--json", LAB_KEY="sk-7654321").stdout,
        ruler("config", *words).stdout,
    ):
        assert "sk-" not in text
    wrong = ruler(
        "config", "batch", "collect", RULER_API_KEY_ENV="sk-1234567890abcdef"
    )
    assert (wrong.returncode, "sk-" in wrong.stdout + wrong.stderr) == (
        2,
        False,
    )
    facts = json.loads(ruler("config", "--json", LAB_KEY="sk-7654321").stdout)
    assert [
        (one["name"], one["model"], one["key_set"], one["from"])
        for one in facts["judges"]
    ] == [
        ("a", "openai/x", True, "ruler.toml [judges.a]"),
        ("b", "openai/y", False, "ruler.toml [judges.b]"),
    ]


@pytest.mark.parametrize("debug", ["--debug", "-q"])
def test_misspelt_variable(debug: str, ruler: Ruler, tmp_path: Path) -> None:
    """A variable that sets no option is named once, also if the run is quiet, not by --help."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    env = {
        "RULER_PASES": "3",
        "RULER_KEEP": "2",
        "RULER_VERSION": "x",
        "RULER_PASSES": "1",
    }
    errors = ruler(
        *words_of("score in.jsonl out.jsonl -m offline"), debug, **env
    ).stderr
    assert (
        errors.count(
            "warning: RULER_PASES is not a setting; `ruler config --all` lists them"
        )
        == 1
    )
    for other in ("RULER_KEEP", "RULER_VERSION"):
        assert errors.count(f"warning: {other} is not a setting; ") == 1
    assert "RULER_PASSES sets" not in errors
    assert ruler("score", "--help", **env).stderr == ""


def panel(first: str, second: str) -> str:
    """A file with two judges at two endpoints."""
    return f"""
[judges.fast]
model = "openai/good"
api_base = "{first}"
api_key_env = "FAST_KEY"
params = {{ temperature = 0.1, top_p = 0.5 }}

[judges.strong]
model = "openai/good"
api_base = "{second}"
api_key_env = "STRONG_KEY"

[score]
model = ["fast", "strong"]
api_key_env = "ANOTHER_KEY"
api_base = "http://127.0.0.1:9/v1"
"""


@pytest.mark.usefixtures("named_file")
def test_panel_of_two_endpoints(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """Each judge of a panel is asked at its own endpoint with its own key, and has its name in OUTPUT."""
    write(tmp_path / "in.jsonl", [group(name, 0.1, 0.9) for name in "abc"])
    keys = {
        "FAST_KEY": "key-of-fast",
        "STRONG_KEY": "key-of-strong",
        "ANOTHER_KEY": "key-of-another",
    }
    with JudgeServer() as other:
        (tmp_path / "ruler.toml").write_text(panel(server.base, other.base))
        done = ruler("score", "in.jsonl", "out.jsonl", **keys)
        assert done.returncode == 0, done.stderr
        assert (server.stats()["requests"], other.stats()["requests"]) == (3, 3)
        assert (server.stats()["keys"], other.stats()["keys"]) == (
            ["Bearer key-of-fast"],
            ["Bearer key-of-strong"],
        )
        record = read(tmp_path / "out.jsonl")[0]["trajectories"][0]["ruler"]
        assert [own["judge"] for own in record["judges"]] == ["fast", "strong"]
        # the ledger keeps replies by model and parameters: other names and no names pay nothing again
        text = (tmp_path / "ruler.toml").read_text()
        (tmp_path / "ruler.toml").write_text(
            text.replace("fast", "quick").replace("strong", "slow")
        )
        assert ruler("score", "in.jsonl", "again.jsonl", **keys).returncode == 0
        again = read(tmp_path / "again.jsonl")[0]["trajectories"][0]["ruler"][
            "judges"
        ]
        assert {own["judge"] for own in again} == {
            "quick",
            "slow",
        }
        words = (
            *f"-m openai/good -p temperature=0.1 -p top_p=0.5 --api-base {server.base}".split(),
        )
        assert (
            ruler(
                *words_of("score in.jsonl third.jsonl --config none"),
                *words,
            ).returncode
            == 0
        )
        assert (server.stats()["requests"], other.stats()["requests"]) == (3, 3)


def judges(ruler: Ruler, *words: str, **env: str) -> dict[str, Any]:
    """The judges that hold, by name."""
    done = ruler("config", *words, "--json", **env)
    assert done.returncode == 0, done.stderr
    return {one["name"]: one for one in json.loads(done.stdout)["judges"]}


@pytest.mark.usefixtures("named_file")
def test_judge_and_options(ruler: Ruler, tmp_path: Path) -> None:
    """Options of this run win over a judge's table, which takes limits and parameters of `[score]` only."""
    (tmp_path / "ruler.toml").write_text(
        panel("http://a/v1", "http://b/v1") + "timeout = 30\nvia = 'http'\n"
    )
    plain = judges(ruler)
    assert [one["api_base"] for one in plain.values()] == [
        "http://a/v1",
        "http://b/v1",
    ]
    assert [one["api_key_env"] for one in plain.values()] == [
        "FAST_KEY",
        "STRONG_KEY",
    ]
    assert [(one["timeout"], one["via"]) for one in plain.values()] == [
        (30, "auto")
    ] * 2
    assert plain["fast"]["params"] == ["temperature=0.1", "top_p=0.5"]
    given = judges(
        ruler,
        "score",
        "--api-base",
        "http://c/v1",
        "-p",
        "temperature=0.9",
        RULER_TIMEOUT="9",
    )
    assert [(one["api_base"], one["timeout"]) for one in given.values()] == [
        ("http://c/v1", 9)
    ] * 2
    assert given["fast"]["params"] == ["temperature=0.9", "top_p=0.5"]
    strong = judges(
        ruler, "score", "-m", "fast", "--escalate", "strong", "--passes", "2"
    )
    assert list(strong) == ["fast", "strong"]


PAIRS = """\
[judges.fast]
model = "openai/fast"
api_base = "http://a/v1"
api_key_env = "KEY_A"
[judges.bare]
model = "openai/bare"
[judges.open]
model = "openai/open"
api_base = "http://a/v1"
[score]
api_base = "http://s/v1"
api_key_env = "KEY_S"
"""
ROWS = [
    ("-m fast", {}, "http://a/v1", "KEY_A"),
    ("-m fast --api-base http://b/v1", {}, "http://b/v1", None),
    (
        "-m fast --api-base http://b/v1 --api-key-env KEY_B",
        {},
        "http://b/v1",
        "KEY_B",
    ),
    ("-m fast --api-key-env KEY_B", {}, "http://a/v1", "KEY_B"),
    ("-m fast", {"RULER_API_BASE": "http://b/v1"}, "http://a/v1", "KEY_A"),
    ("-m fast", {"RULER_API_KEY_ENV": "KEY_B"}, "http://a/v1", "KEY_A"),
    ("-m open", {"RULER_API_KEY_ENV": "KEY_B"}, "http://a/v1", None),
    ("-m bare", {}, "https://api.openai.com/v1", "OPENAI_API_KEY"),
    ("-m bare", {"RULER_API_BASE": "http://b/v1"}, "http://b/v1", None),
    (
        "-m bare",
        {"RULER_API_BASE": "http://b/v1", "RULER_API_KEY_ENV": "KEY_B"},
        "http://b/v1",
        "KEY_B",
    ),
    ("-m openai/x", {}, "http://s/v1", "KEY_S"),
    ("-m openai/x --api-base http://b/v1", {}, "http://b/v1", None),
    ("-m openai/x", {"RULER_API_BASE": "http://b/v1"}, "http://b/v1", None),
    (
        "-m openai/x --api-base http://b/v1",
        {"RULER_API_KEY_ENV": "KEY_B"},
        "http://b/v1",
        "KEY_B",
    ),
    ("-m openai/x", {"RULER_API_KEY_ENV": "KEY_B"}, "http://s/v1", None),
    (
        "-m bare",
        {"RULER_API_KEY_ENV": "KEY_B"},
        "https://api.openai.com/v1",
        "KEY_B",
    ),
    (
        "",
        {"RULER_MODEL": "bare", "RULER_API_KEY_ENV": "KEY_B"},
        "https://api.openai.com/v1",
        "KEY_B",
    ),
    ("-m openai/x --api-key-env KEY_B", {}, "http://s/v1", "KEY_B"),
    (
        "",
        {"RULER_MODEL": "bare", "RULER_API_KEY_ENV": "KEY_B"},
        "https://api.openai.com/v1",
        "KEY_B",
    ),
]
"""Words, variables, and the endpoint and the variable of the key that hold."""


@pytest.mark.usefixtures("named_file")
@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{row[0]} {' '.join(row[1])}"
)
def test_key_and_endpoint_are_a_pair(
    row: Any, ruler: Ruler, tmp_path: Path
) -> None:
    """A key of the file or a variable goes to an endpoint of the same source; halves of a pair stay."""
    words, env, base, key = row
    (tmp_path / "ruler.toml").write_text(PAIRS)
    (one,) = judges(ruler, "score", *words.split(), **env).values()
    assert (one["api_base"], one["api_key_env"]) == (base, key)


def test_key_of_several(ruler: Ruler) -> None:
    """Of a provider's several variables the one that is set has its key."""
    (one,) = judges(
        ruler, "score", "-m", "gemini/x", GEMINI_API_KEY="", GOOGLE_API_KEY="k"
    ).values()
    assert (one["api_key_env"], one["key_set"]) == ("GOOGLE_API_KEY", True)


def test_key_of_another_provider(ruler: Ruler, tmp_path: Path) -> None:
    """A key named beside a model of one provider is not sent to that of a model of the command line."""
    file, env = (
        tmp_path / "ruler.toml",
        {"RULER_MODEL": "openai/o3", "RULER_API_KEY_ENV": "LAB"},
    )
    file.write_text(
        "[score]\nmodel = 'azure/x'\nescalate = 'azure_ai/y'\napi_key_env = 'LAB'\npasses = 2\n"
    )
    assert judges(ruler, "check")["azure_ai/y"]["api_key_env"] == "LAB"
    file.write_text("[score]\nmodel = 'openai/o3'\napi_key_env = 'LAB'\n")
    for name, key in (
        ("openai/x", "LAB"),
        ("o4-mini", "LAB"),
        ("anthropic/x", "ANTHROPIC_API_KEY"),
    ):
        assert judges(ruler, "score", "-m", name)[name]["api_key_env"] == key
        words = ("score", "--config", "none", "-m", name)
        assert judges(ruler, *words, **env)[name]["api_key_env"] == key
        assert (
            judges(ruler, *words, RULER_API_KEY_ENV="LAB")[name]["api_key_env"]
            == "LAB"
        )


PANEL = 'model = ["openai/a", "openai/b"]\nprice = [1, 2]\n'
PRICES = [
    ('model = "openai/a"\nprice = [1, 2]\n', "-m openai/o3", [None]),
    (
        'model = "openai/a"\nprice = [1, 2]\n',
        "-m openai/o3 --price 5,6",
        [[5, 6]],
    ),
    ("price = [1, 2]\n", "", [[1, 2]]),
    (PANEL, "-m openai/o3", [None]),
    (PANEL, "-m openai/b", [[1, 2]]),
    ('model = "openai/a"\nprice = [1, 2]\n', "-m openai/a", [[1, 2]]),
    (
        'model = "openai/a"\nprice = [1, 2]\nescalate = "openai/o3"\n',
        "check",
        [[1, 2], [1, 2]],
    ),
    (PANEL, "--escalate openai/c --passes 2", [[1, 2], [1, 2], None]),
    ('model = "openai/a"\nprice = [1, 2]\n', "-m table", [[7, 8]]),
]
"""Lines of `[score]`, words, and the prices of the judges."""


@pytest.mark.parametrize(("lines", "words", "prices"), PRICES)
def test_price_is_of_its_model(
    lines: str, words: str, prices: Any, ruler: Ruler, tmp_path: Path
) -> None:
    """A price of the file holds for the models of the file only, not for one of the command line."""
    table = '[judges.table]\nmodel = "openai/t"\nprice = [7, 8]\n'
    (tmp_path / "ruler.toml").write_text(f"[score]\n{lines}{table}")
    given = words.split() if words == "check" else ["score", *words.split()]
    assert [one["price"] for one in judges(ruler, *given).values()] == prices


def test_what_python_cannot_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options that only the command has are refused from Python."""
    monkeypatch.chdir(tmp_path)
    for option in ({"summary": "s.json"}, {"engine": "ray"}, {"quiet": True}):
        with pytest.raises(UsageError, match="no such option"):
            ruler_cli.load_settings(model="offline", **option)


@pytest.mark.usefixtures("named_file")
def test_settings_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`settings(…)` has the file and its judges; what is given wins; a mistake is a UsageError."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ruler.toml").write_text(
        panel("http://a/v1", "http://b/v1") + "passes = 3\n"
    )
    result = ruler_cli.load_settings(
        max_cost=5, param={"seed": 1}, failed=tmp_path / "f", debias=True
    )
    assert [one.name for one in (result.judge, *result.panel)] == [
        "fast",
        "strong",
    ]
    assert result.judge.params == {"temperature": 0.1, "top_p": 0.5, "seed": 1}
    assert (result.ask.passes, result.pool.max_cost, result.failed) == (
        3,
        5.0,
        tmp_path / "f",
    )
    assert result.combine.debias
    alone = ruler_cli.load_settings(
        model="openai/o3", config="none", price=(2, 8), rpm=None
    )
    assert (
        alone.judge.model,
        alone.judge.price,
        alone.panel,
        alone.ask.passes,
    ) == (
        "openai/o3",
        (2.0, 8.0),
        (),
        1,
    )
    assert ruler_cli.load_settings(ledger=None).ledger is None
    assert ruler_cli.load_settings().ledger is not None
    monkeypatch.setenv("RULER_PASSES", "4")
    assert ruler_cli.load_settings(model="fast").ask.passes == 4
    monkeypatch.setenv("RULER_MAX_FAILURES", "5x")
    with pytest.raises(UsageError, match="RULER_MAX_FAILURES: '5x' is neither"):
        ruler_cli.load_settings()
    monkeypatch.delenv("RULER_MAX_FAILURES")
    monkeypatch.setenv("RULER_PASSES", "many")
    with pytest.raises(UsageError, match="RULER_PASSES"):
        ruler_cli.load_settings()


@pytest.mark.usefixtures("named_file")
def test_batches_of_named_judges(ruler: Ruler, tmp_path: Path) -> None:
    """Each judge's batch is submitted and collected with its own key, and `score` takes the answers."""
    write(tmp_path / "in.jsonl", [group(name, 0.1, 0.9) for name in "abc"])
    keys = {
        "FAST_KEY": "sk-one-0123456789abc",
        "STRONG_KEY": "sk-two-0123456789abc",
    }
    with BatchServer() as server:
        (tmp_path / "ruler.toml").write_text(
            panel(server.openai, server.openai)
        )
        done = ruler("batch", "submit", "in.jsonl", "--wait", **keys)
        assert (
            done.returncode,
            "submitted: 6 requests" in done.stderr,
        ) == (0, True), done.stderr
    done = ruler("score", "in.jsonl", "out.jsonl", "--cached-only")
    assert done.returncode == 0, done.stderr
    judges = read(tmp_path / "out.jsonl")[0]["trajectories"][0]["ruler"][
        "judges"
    ]
    assert [own["judge"] for own in judges] == ["fast", "strong"]
