"""The table of formats: how a record is known and read as rollouts, and where its scores go.

A row says by which keys a record is known, where its group key stands, where the score goes and who reads it.
`Fields` reads rows that differ in the names of their fields alone. docs/formats.md says who writes each file.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import (
    ANSWER_LISTS,
    ANSWERS,
    HISTORIES,
    INSTRUCTION_INPUTS,
    PROMPTS,
    answer_turns,
    make_rollout,
    messages_in,
    prompt_turns,
    tools_of,
    with_submission,
)
from ruler_cli.formats.fields import (
    JsonObject,
    Names,
    first,
    holds,
    is_list,
    is_object,
    is_text,
    items,
    lookup,
    path_of,
    printable,
    words,
)
from ruler_cli.types import Path, Rollout

PROMPT_HASH = "hash of the prompt"
"""The group key of a dump without one: a hash of the messages before the first assistant turn. It is no path
of a field, because records may have a field `prompt`."""
GIVEN = "the group as it was given"
"""The group key of records from Python, whose group the caller knows."""

ID_KEYS = (
    "group_id group group_index prompt_id example_id problem_id task_id instance_id"
)
"""Fields of generic shapes that hold a group key. Not `uid` or `index`: they often differ between
the rollouts of a group."""

SHAPE_ERRORS = (TypeError, KeyError, IndexError, AttributeError, ValueError)
"""Exceptions that a format may raise on a record that only looks like one of its own."""
UNFIT = (UnreadableError, RecursionError, *SHAPE_ERRORS)
"""Exceptions that tell that a record is of another format."""
Code = str | Callable[..., Any] | None
"""A function, or its module and name: a module of formats is imported when a record needs it."""


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The places where ruler writes.

    Dotted paths begin at the rollout's own object (`Rollout.path`). `reward` is the dump's own reward field, empty
    if the framework has none. A score is written there as `form` says, with `%s` for the number; `lost` is written
    if there is no score, and if `lost` is empty the field is removed, for readers that take no null.
    `other_ruler` is where `ruler` stands in a file that the framework's own writer wrote for us.
    `elsewhere`: only ruler writes the field `reward`, the dump's own is read from another place.
    `refuses_null` names a reader of these files that takes no reward
    of null.

    `listed`: rollouts are items of lists, `Rollout.path` is `(i,)`, and paths begin at the record. Item i of the
    list `reward` is the rollout's. Several records of a `trajectory` shape may hold the items of one group.
    `lists` are dotted paths of the lists that lose an item with a rollout that is left out, `*` for all of the
    record; None if the record would be wrong without it. Any other list of as many items is doubtful, but in
    the fields `apart`; if that is None, none is.

        `extras`: `metrics` and `logs` stand beside the reward, as in ART's trajectories. `payload` names a member
    that holds the trajectory once more, as JSON text, and wins when the dump is read. `absent` is the value that
    a missing reward stands for.
    """

    reward: str = "reward"
    ruler: str = "ruler"
    other_ruler: str = ""
    elsewhere: bool = False
    form: bytes = b"%s"
    lost: bytes = b"null"
    refuses_null: str = ""
    listed: bool = False
    lists: Names | None = None
    apart: Names | None = ()
    extras: bool = False
    payload: str | None = None
    absent: bytes | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """One dump shape.

    `name` is for messages, `family` for the option `format`, `has` are the terms that identify a record (see
    `fields.holds`); `shown` says it better than the first name of each does. `read` gets a record and returns
    its rollouts, or its only one; it raises UnreadableError. A reward that it leaves out is read where the score
    is written, unless `own_reward`.
    `shape`: a record is a group, a trajectory, or columns with the rollouts of several groups.
    `test` looks at the keys of a record that has the terms. If several formats match a record, the highest
    `rank` wins: named shapes have a higher one than generic ones.
    `keys` are dotted paths of a group key with spaces between, the best first. `compute_key` computes the key if
    it is no field, and `key_description` names it for messages. `simulated_user`: a model plays the user, so that
    rollouts of one task begin differently. `varied_prompts`: they do because prompts are what is compared.
    `refine` adapts the format to the first records of a file, if one record alone cannot tell.
    """

    name: str
    family: str
    has: str
    read: str | Callable[..., Any]
    keys: str = ""
    layout: RecordLayout = RecordLayout()
    shape: Literal["group", "trajectory", "columns"] = "trajectory"
    test: Code = None
    shown: str = ""
    own_reward: bool = False
    compute_key: Code = None
    key_description: str = ""
    rank: int = 1
    simulated_user: bool = False
    varied_prompts: bool = False
    refine: Code = None

    @property
    def group_in_record(self) -> bool:
        """Tell if the annotation of the group is written once in the record, not on each rollout."""
        return self.shape == "group" or (
            self.layout.listed and self.shape == "trajectory"
        )

    @property
    def ruler(self) -> str:
        """The dotted path of a rollout's annotation, or of the list of them."""
        if self.layout.listed and self.shape != "columns":
            return "ruler.rollouts"
        return self.layout.ruler

    @property
    def signature(self) -> str:
        """The fields that identify a record, for messages."""
        terms = [term for term in self.has.split() if not term.startswith("!")]
        names = ", ".join(f"`{term.split('|')[0]}`" for term in terms)
        return self.shown or re.sub(r'\[\]|{}|"|#|\.0|~[^`]*', "", names)

    def rollouts(self, record: JsonObject) -> list[Rollout]:
        """Read the rollouts of a record; UnreadableError if there are none."""
        found = code(self.read)(record)
        return found if is_list(found) else [found]

    def key_of(self, record: JsonObject) -> str | None:
        """Return the group key that is computed from a record; None if it has none."""
        return code(self.compute_key)(record) if self.compute_key else None


@lru_cache(512)
def code(name: str | Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that a row of the table names."""
    if callable(name):
        return name
    module, _, function = name.partition(".")
    holder = importlib.import_module(f"ruler_cli.formats.{module}")
    found: Callable[..., Any] = attrgetter(function)(holder)
    return found


def fits(form: Format, record: JsonObject) -> bool:
    """Tell if a record is of a format by its keys; False if its test raises an error."""
    try:
        known = holds(record, form.has)
        return known and (form.test is None or bool(code(form.test)(record)))
    except UNFIT:
        return False


# If the wrong list loses an item, or the right one does not, every later item belongs to another rollout, and
# nobody notices. So lists that a format does not know are refused, not guessed at.


def parallel_lists(layout: RecordLayout, record: JsonObject, size: int) -> list[Path]:
    """Return the paths of lists with an item for each of `size` rollouts; UnreadableError if one is doubtful."""
    if layout.lists is None:
        raise UnreadableError(
            "compares its answers, and would be wrong without one of them"
        )
    apart = layout.apart
    names = layout.lists
    if names == ("*",):
        names = tuple(name for name in record if name not in (apart or ()))
    same = (name for name in names if len(items(lookup(record, name))) == size)
    lists = [path_of(record, name) for name in same]
    if apart is None:
        return lists
    # ruler's own lists are parallel, or belong to the group
    known = {("ruler",), *lists, *((name,) for name in apart)}
    inside: list[tuple[Path, Any]] = [((), record)]
    while inside:
        path, value = inside.pop()
        if path in known:
            continue
        if is_object(value):
            inside += [((*path, key), inner) for key, inner in value.items()]
        elif is_list(value) and len(value) == size:
            where = printable(".".join(map(str, path)))
            raise UnreadableError(
                f"has as many items at `{where}` as rollouts, and may not be cut with them; take `{where}` "
                "out, or write a rollout a line"
            )
    return lists


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of the fields of a record that is one rollout: its messages, or a prompt and its answer.

    `a|b` is the first that is there. `member` names the rollout of a record that is a part of one. A record with
    neither messages nor an answer has an error that ends with the `cause`.
    """

    prompt: str = "prompt"
    answer: str = ""
    messages: str = ""
    tools: str = ""
    outcome: str = ""
    member: str = ""
    cause: str = ""

    def __call__(self, record: JsonObject) -> Rollout:
        """Read the rollout; UnreadableError if it has no answer."""
        name = _present(record, self.answer)
        prompt = list[Any]()
        if self.messages and (record.get(self.messages) or not self.answer):
            messages = messages_in(record, self.messages, self.cause)
            answer = with_submission(record, messages)
        else:
            asked = _present(record, self.prompt)
            prompt = prompt_turns(record.get(asked), asked)
            answer = answer_turns(record.get(name), name)
        part = record.get(self.member) if self.member else None
        own = {"tools": record.get(self.tools)} if self.tools != "tools" else record
        return make_rollout(
            prompt,
            answer,
            tools=tools_of(own) if self.tools else None,
            outcome=lookup(record, self.outcome) if self.outcome else None,
            member=part if is_text(part) else None,
        )


def _present(record: JsonObject, names: str) -> str:
    return first(name for name in names.split("|") if name in record) or names


_ID = "group_id prompt_id example_id problem_id task_id instance_id id"
_INSTANCE = "instance_id"
_STOPPED = " (the run was stopped before its first step)"
_CRASHED = " (tau-bench writes this when a run crashed)"
_ERROR = " (written when an example ended in an error)"
_PAIR = Fields("prompt", "completion")
_SAMPLE = Fields(
    "prompt",
    "response",
    "messages",
    tools="tools",
    outcome="reward.acc",
)
_ALL = ("*",)
VERL = Fields("input", "output", outcome="acc")
_SCORE = RecordLayout("score")
_SCORES = RecordLayout("scores", listed=True, lists=_ALL)
_NATIVE = RecordLayout(extras=True)
_ART = replace(_NATIVE, absent=b"0.0", refuses_null="ART")
_WEIGHTED = RecordLayout(
    "rewards",
    "info.ruler",
    form=b'{"ruler": {"score": %s, "weight": 1.0}}',
    lost=b'{"ruler": null}',
)
_TASK = "task.key task.hash"
_TASKS = f"{_TASK} traces.0.task.key traces.0.task.hash"
_BY_TASK: Any = {"compute_key": "trainers.task_key", "key_description": "hash of task.data"}  # fmt: skip
_BY_ITEM: Any = {"compute_key": "traces.item_key", "key_description": "the data set's item"}  # fmt: skip
_NO_CONVERSATION = "!messages !history !trajectory !trajectories !prompt !conversations"
_NO_ROLLOUT = "!messages !response !responses !output !outputs !completions !sample_idx !advantage"
_NO_TURNS = "!messages !conversations !conversation !trajectories"
_TURNS = "conversations|text|conversation|dialog|dialogue|turns|items"
_ASKED = "|".join(PROMPTS)
_ANSWERED = "|".join((*ANSWERS, *ANSWER_LISTS))
_SIDES = (
    "chosen*|rejected*|preferred_output|non_preferred_output|"
    "response*|output*|answer*|completion*|generation*|conversation*|human_ref*"
)
"""Names of answers side by side, each with an ending."""
_EVALUATED = (
    "evalId|eval_id sessionDetails|session_details|finalEvalStatus|final_eval_status|"
    "overallEvalMetricResults|overall_eval_metric_results"
)
_UID = r"uid~(?s:.+)_\d+_\d+"

FORMATS = (
    Format(
        "ADK sessions",
        "adk",
        "events[].author !messages",
        "agents.read_session",
        shown="`events` with `author` in each",
    ),
    Format(
        "ADK evaluations",
        "adk",
        _EVALUATED,
        "agents.read_case",
        shown="`evalId`, `finalEvalStatus`",
        compute_key="agents.case_key",
        key_description="evalSetId and evalId",
    ),
    Format(
        "AReaL rollouts",
        "areal",
        "task_id sample_idx prompt completion",
        _PAIR,
        "task_id",
    ),
    Format(
        "ART table rows",
        "art",
        "group_index trajectory_json|group_metadata",
        "native.read_row",
        "group_index",
        layout=replace(_ART, payload="trajectory_json"),
        shown="`group_index` with `trajectory_json` or `group_metadata`",
    ),
    Format(
        "ART groups",
        "art",
        "trajectories[]",
        "native.read_group",
        "group_id metadata.scenario_id",
        layout=_ART,
        shape="group",
        test="native.is_art_group",
        shown="`trajectories` with `messages_and_choices` or `exchanges` in each",
    ),
    Format(
        "ART trajectories",
        "art",
        "messages_and_choices|exchanges "
        "!group_index|!trajectory_json !group_index|!group_metadata",
        "native.read_single",
        "group_id group_index metadata.group_id metadata.scenario_id",
        layout=_ART,
        shown="`messages_and_choices` or `exchanges`",
    ),
    Format(
        "ATIF trajectories",
        "atif",
        "schema_version~ATIF-v.*",
        "agents.read_atif",
        layout=RecordLayout("extra.reward", "extra.ruler"),
        shown="`schema_version` (ATIF-v…)",
    ),
    Format(
        "Atropos groups",
        "atropos",
        "tokens scores messages",
        "trainers.read_atropos",
        layout=RecordLayout(
            "scores",
            refuses_null="Atropos",
            listed=True,
            lists=_ALL,
            apart=("group_overrides", "generation_params"),
        ),
        shape="group",
    ),
    Format(
        "AutoGen messages",
        "autogen",
        "messages.0.type|message_thread|llm_messages|llm_context|agent_states",
        "agents.read_autogen",
        ID_KEYS,
        test="agents.is_autogen_history",
        shown="`messages` with `source`, `type` in each",
    ),
    Format(
        "AutoGen 0.2 histories",
        "autogen",
        "chat_history.0{} summary|cost|human_input !messages",
        "agents.read_chat_history",
        ID_KEYS,
    ),
    Format(
        "BFCL results",
        "bfcl",
        "id",
        "evaluations.read_bfcl",
        "id",
        test="evaluations.is_bfcl",
        shown="`id`, `result`, `inference_log`",
    ),
    Format(
        "Claude Code sessions",
        "claude-code",
        "events|loglines",
        "sessions.Claude.rollout",
        ID_KEYS,
        test="sessions.Claude.is_session",
        shown="`events` with `sessionId` in each",
    ),
    Format(
        "LiveCodeBench outputs",
        "code",
        'question_content code_list.0"|output_list.0"',
        "answers.read_live_code",
        "question_id",
        layout=RecordLayout(
            "",
            listed=True,
            lists=words("output_list code_list graded_list"),
            apart=None,
        ),
        shape="group",
    ),
    Format(
        "code completions",
        "code",
        f'task_id" completion|solution {_NO_ROLLOUT}',
        Fields(
            "prompt|problem|question|question_content|instruction",
            "completion|solution",
            outcome="passed",
        ),
        "task_id",
        test="answers.is_code",
    ),
    Format(
        "Codex sessions",
        "codex",
        "events",
        "sessions.Codex.rollout",
        ID_KEYS,
        test="sessions.Codex.is_session",
        shown="`events` with `payload` in each",
    ),
    Format(
        "CrewAI outputs",
        "crewai",
        "tasks_output[].description tasks_output[].raw",
        "agents.read_crew",
        ID_KEYS,
        shown="`tasks_output` with `description`, `raw` in each",
    ),
    Format(
        "eval-protocol rows",
        "eval-protocol",
        "messages input_metadata",
        "evaluations.read_eval_protocol",
        "input_metadata.row_id",
        layout=RecordLayout(
            "evaluation_result.score",
            refuses_null="eval-protocol",
        ),
    ),
    Format(
        "eval-protocol recordings",
        "eval-protocol",
        "env_index#|env_idx# step# messages !input_metadata",
        "evaluations.read_recording",
        compute_key="evaluations.recording_key",
        key_description="hash of the prompt, whatever the step",
    ),
    Format(
        "Gemini CLI sessions",
        "gemini-cli",
        "messages|events events|sessionId events|projectHash",
        "sessions.Gemini.rollout",
        ID_KEYS,
        test="sessions.Gemini.is_session",
        shown="`sessionId`, `projectHash`, `messages`",
    ),
    Format(
        "Harbor trials",
        "harbor",
        "result.task_name trajectory",
        "agents.read_trial",
        "result.task_name",
        layout=RecordLayout(
            "result.verifier_result.rewards.reward",
            "result.ruler",
            lost=b"",
        ),
    ),
    Format(
        "Harbor's exported traces",
        "harbor",
        "conversations task",
        Fields(
            messages="conversations",
            tools="tool_definitions",
            member="trial_name",
        ),
        "task",
        layout=RecordLayout("result", form=b'"%s"'),
    ),
    Format(
        "Inspect samples",
        "inspect",
        "id epoch messages",
        "evaluations.read_inspect",
        "id",
        own_reward=True,
        layout=RecordLayout(
            "scores.ruler",
            "metadata.ruler",
            "scores.ruler.metadata",
            elsewhere=True,
            form=b'{"value": %s}',
            lost=b"",
        ),
    ),
    Format(
        "LangChain messages",
        "langchain",
        "messages.0.type|values|channel_values",
        "agents.read_langchain",
        ID_KEYS,
        test="agents.is_langchain_history",
        shown="`messages` with `type` (human, ai) in each",
    ),
    Format(
        "lm-eval samples",
        "lm-eval",
        "doc_id resps",
        "answers.read_lm_eval",
        layout=RecordLayout(
            "",
            listed=True,
            lists=("resps.0", "filtered_resps.0"),
            apart=None,
        ),
        compute_key="answers.lm_eval_key",
        key_description="doc_id + hash of the prompt",
    ),
    Format(
        "miles samples",
        "miles",
        "group_index sample_index !trajectory_json !group_metadata",
        _SAMPLE,
        "group_index",
    ),
    Format(
        "mini-swe-agent",
        "mini-swe-agent",
        "trajectory_format~mini-swe-agent.*",
        Fields(messages="messages", cause=_STOPPED),
        _INSTANCE,
        shown="`trajectory_format` (mini-swe-agent-…)",
    ),
    Format(
        "ms-swift steps",
        "ms-swift",
        "prompt[] completion[] step[]|gen_step[]|advantages[]",
        "trainers.read_swift",
        layout=RecordLayout(listed=True, lists=_ALL),
        shape="columns",
        shown="`prompt`, `completion`, `step` (lists)",
    ),
    Format(
        "ms-swift rollouts",
        "ms-swift",
        "gen_step prompt completion !gen_step[]",
        _PAIR,
    ),
    Format(
        "MT-bench answers",
        "mt-bench",
        "question_id choices.0.turns turns[]",
        "evaluations.read_mt_bench",
        "question_id",
        shown="`question_id`, `choices`, `turns`",
    ),
    Format(
        "native groups",
        "native",
        "trajectories[]",
        "native.read_group",
        "group_id",
        layout=_NATIVE,
        shape="group",
        test="native.is_native_group",
        shown="`trajectories` with `messages` in each",
    ),
    Format(
        "native trajectories",
        "native",
        "messages !trajectories[]",
        "native.read_single",
        ID_KEYS,
        layout=_NATIVE,
        test="native.is_native",
        rank=0,
    ),
    Format(
        "NeMo-Gym rollouts",
        "nemo-gym",
        "responses_create_params{} response",
        "trainers.read_gym",
        "_ng_task_index",
        own_reward=True,
        compute_key="trainers.gym_key",
        key_description="agent_ref.name + _ng_task_index, or hash of responses_create_params.input",
    ),
    Format(
        "NeMo-RL rollouts",
        "nemo-rl",
        "content[] rewards idx",
        "trainers.read_nemo_rl",
        layout=RecordLayout("rewards", form=b"[%s]", lost=b"[null]"),
    ),
    Format(
        "OpenCode sessions",
        "opencode",
        "messages.0.info|messages.1.info",
        "sessions.OpenCode.rollout",
        ID_KEYS,
        test="sessions.OpenCode.is_session",
        shown="`messages` with `info` and `parts` in each",
    ),
    Format(
        "OpenHands outputs",
        "openhands",
        "instance_id history[]",
        "agents.read_openhands",
        _INSTANCE,
    ),
    Format(
        "OpenHands conversations",
        "openhands",
        "events[]",
        "agents.read_openhands",
        _INSTANCE,
        test="agents.is_conversation",
        shown="`events` with `action`, `observation` or `kind` in each",
    ),
    Format(
        "pi sessions",
        "pi",
        "events[]",
        "sessions.Pi.rollout",
        ID_KEYS,
        test="sessions.Pi.is_session",
        shown="`events` with `message` in each",
    ),
    Format(
        "preference pairs",
        "preference",
        _SIDES,
        "answers.read_preference",
        "prompt_id question_id id",
        layout=RecordLayout("", listed=True),
        shape="group",
        test="answers.is_preference",
        shown="`chosen`, `rejected`; or two answers beside a prompt: `response_a`, `response_b`",
    ),
    Format(
        "prime-rl episodes",
        "prime-rl",
        "traces[] task|env group.id",
        "trainers.read_episode",
        "group.id",
        layout=_WEIGHTED,
    ),
    Format(
        "prime-rl traces",
        "prime-rl",
        "nodes task rewards{}|!rewards group_id",
        "trainers.read_trace",
        "group_id",
        layout=_WEIGHTED,
        refine="trainers.refine_trace",
    ),
    Format(
        "prompts with a completion",
        "prompt-completion",
        f"{_ASKED} {_ANSWERED}|answer {_NO_TURNS}",
        "answers.read_pair",
        ID_KEYS,
        test="answers.is_pair",
        shown="`prompt`, `completion` or other names of both",
        rank=0,
        refine="answers.refine_pair",
    ),
    Format(
        "prompts with a list of responses",
        "prompt-responses",
        f"{_ANSWERED} !labels !conversations !trajectories[]",
        "answers.read_group",
        _ID,
        layout=RecordLayout(
            "rewards",
            listed=True,
            lists=(*ANSWER_LISTS, *ANSWERS, "rewards"),
            apart=(*PROMPTS, *INSTRUCTION_INPUTS, *HISTORIES, "messages", "tools"),
        ),
        shape="group",
        test="answers.is_group",
        shown="`prompt`, `responses`",
        rank=0,
    ),
    Format(
        "promptfoo results",
        "promptfoo",
        'testIdx|vars promptIdx|gradingResult prompt.raw"',
        "evaluations.read_promptfoo",
        layout=_SCORE,
        compute_key="evaluations.promptfoo_key",
        key_description="variables of the test",
        varied_prompts=True,
    ),
    Format(
        "RewardBench 2",
        "rewardbench2",
        "num_correct chosen rejected",
        "answers.read_reward_bench",
        "id",
        layout=RecordLayout("", listed=True),
        shape="group",
    ),
    Format(
        "rLLM episodes",
        "rllm",
        "trajectories[] task_hash|episode_id|eval_idx|is_correct",
        "trainers.read_rllm",
        layout=RecordLayout(ruler="metadata.ruler"),
        shown="`trajectories`, `task_hash` or `episode_id`",
        compute_key="trainers.rllm_key",
        key_description="task_hash with training_step",
    ),
    Format(
        "ROLL steps",
        "roll",
        "responses[] scores[] global_step[]|sampling_params[]",
        "trainers.read_roll",
        "id",
        layout=_SCORES,
        shape="columns",
    ),
    Format(
        "ROLL agentic steps",
        "roll",
        "trajectory_data[] !responses",
        "trainers.read_roll_agentic",
        layout=_SCORES,
        shape="columns",
    ),
    Format(
        "ShareGPT conversations",
        "sharegpt",
        f"{_TURNS} !messages !trajectories",
        "answers.read_conversation",
        ID_KEYS,
        test="answers.is_conversation",
        rank=0,
    ),
    Format(
        "SkyRL evaluations",
        "skyrl",
        "input_prompt output_response score",
        Fields("input_prompt", "output_response"),
        layout=_SCORE,
    ),
    # older slime refuses fields that it does not know
    Format(
        "slime samples",
        "slime",
        "group_index prompt response !sample_index",
        _SAMPLE,
        "group_index",
        layout=RecordLayout(ruler="metadata.ruler"),
    ),
    Format(
        "slime buffer items",
        "slime",
        "uid instance_id messages",
        _SAMPLE,
        _INSTANCE,
    ),
    Format(
        "SWE-agent",
        "swe-agent",
        "trajectory history info",
        "agents.read_swe_agent",
        _INSTANCE,
    ),
    Format(
        "SWE-bench predictions",
        "swe-bench",
        f"instance_id model_name_or_path model_patch {_NO_CONVERSATION}",
        "agents.read_prediction",
        _INSTANCE,
    ),
    Format(
        "tau-bench",
        "tau-bench",
        "task_id traj",
        Fields(messages="traj", cause=_CRASHED),
        "task_id",
        layout=RecordLayout(refuses_null="tau-bench"),
        simulated_user=True,
    ),
    Format(
        "tau2-bench",
        "tau2",
        "task_id messages reward_info",
        "evaluations.read_tau2",
        "task_id",
        layout=RecordLayout(
            "reward_info.reward",
            "reward_info.info.ruler",
            refuses_null="tau2-bench",
        ),
        simulated_user=True,
    ),
    Format(
        "tinker evaluations",
        "tinker",
        "example_id turns",
        Fields(messages="turns", cause=_ERROR),
        "example_id",
    ),
    Format(
        "traces of spans",
        "traces",
        "spans|data !messages",
        "traces.read_trace",
        test="traces.is_spans",
        shown="`trace_id`, `spans`",
        **_BY_ITEM,
    ),
    Format(
        "Langfuse traces",
        "traces",
        "observations|trace|timestamp",
        "traces.read_trace",
        test="traces.is_langfuse",
        shown="`observations`; `id`, `timestamp`, `input`, `output`",
        **_BY_ITEM,
    ),
    Format(
        "LangSmith runs",
        "traces",
        'run_type" inputs|outputs',
        "traces.read_trace",
        shown="`run_type`, `inputs`, `outputs`",
        **_BY_ITEM,
    ),
    Format(
        "TRL completions",
        "trl",
        "prompt completion step advantage !step[] !advantage[]",
        _PAIR,
    ),
    Format(
        "UltraFeedback",
        "ultrafeedback",
        "instruction completions[] completions[].response|!completions.0",
        "answers.read_ultrafeedback",
        layout=RecordLayout("overall_score", lists=("models",), apart=None),
        shape="group",
        shown="`instruction`, `completions`",
    ),
    Format(
        "verifiers results",
        "verifiers",
        "example_id prompt completion",
        "trainers.read_result",
        "example_id",
        compute_key="trainers.result_key",
        key_description="example_id with env_name, task, step, info.env_id",
    ),
    Format(
        "verifiers episodes",
        "verifiers",
        "traces[] task|env !group.id",
        "trainers.read_episode",
        _TASKS,
        layout=_WEIGHTED,
        **_BY_TASK,
    ),
    Format(
        "verifiers traces",
        "verifiers",
        "nodes task rewards{}|!rewards !group_id",
        "trainers.read_trace",
        _TASK,
        layout=_WEIGHTED,
        refine="trainers.refine_trace",
        **_BY_TASK,
    ),
    Format(
        "verl (V1)",
        "verl",
        f'input" output score step {_UID}',
        "trainers.read_verl_v1",
        layout=_SCORE,
        compute_key="trainers.verl_group",
        key_description="uid without its two numbers",
    ),
    Format(
        "verl",
        "verl",
        f'input" output score step !{_UID}',
        VERL,
        layout=_SCORE,
    ),
)

FAMILIES = tuple(dict.fromkeys(form.family for form in FORMATS))
"""The values of the option `format` other than `auto`."""
