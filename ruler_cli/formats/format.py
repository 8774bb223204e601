"""One format: how a record is known and read as rollouts, and where its scores go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from math import isclose
from typing import Any, Literal

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import dump, parse_value
from ruler_cli.files.values import (
    JsonObject,
    Names,
    is_object,
    is_text,
    items,
    lookup,
    parts,
)
from ruler_cli.formats.paths import alternatives
from ruler_cli.settings.fields import frozen, paths
from ruler_cli.settings.models import RecordPaths
from ruler_cli.types import Path

SHAPE_ERRORS = (TypeError, KeyError, IndexError, AttributeError, ValueError)
"""Exceptions that a format may raise on a record that only looks like one of its own."""
UNFIT = (UnreadableError, RecursionError, *SHAPE_ERRORS)
"""Exceptions that tell that a record is of another format."""
Code = str | Callable[..., Any] | None
"""A function, or its name in `formats/`, such as `trainers.read_gym`."""


ORIGINAL = "independent_reward"
"""The member of an annotation, and of metrics, that has the first reward."""
OWN = 2
"""The rank of the user's rows. Their reader puts the prompt before what is read by the row."""


@frozen
class Format(RecordPaths):
    """One dump shape: a row with a name, and the fields that only ruler's own rows have.

    `name` is for messages, `family` for the option `format`; `shown` are the keys by which
    people know it. `read` gets a record and returns its rollouts, or its only one; it raises
    UnreadableError. Without it the paths of the row are read. A reward that it leaves out is read where the score
    is written, unless `own_reward`.
    `shape`: a record is a group, a trajectory, or columns with the rollouts of several groups.
    `test` looks at the keys of a record that has the terms. If several formats match a record, the highest
    `rank` wins: named shapes have a higher one than generic ones.
    `key_parts` are paths whose values together are the group key: a record may lack what ends with `?`, and an object
    is hashed. `compute_key` computes a key that no path says; `key_description` names either for messages. `cause` ends
    the error of a record without messages. `member` is the path of the rollout of which a record is a part.
    `simulated_user`: a model plays the user, so that rollouts of one task begin differently. `varied_prompts`: they
    do because prompts are what is compared. `finish` adds to a rollout that was read by its row what no path says.
    `first_wins`: answers at the first path are right, those at the others wrong.
    `as_json`: texts at `messages` are JSON of conversations. `writers`, `record` and `examples` are for
    docs/formats.md.

    `reward` is the dump's own reward field, empty if the framework has none. A score is written there as `written`
    says, with `%s` for the number; `lost` is written if there is no score, and if `lost` is empty the field is
    removed, for readers that take no null.
    `other_ruler` is where `ruler` stands in a file that the framework's own writer wrote for us.
    `elsewhere`: only ruler writes the field `reward`, the dump's own is read from another place, `read_at` if the user
    gave it.
    `refuses_null` names a reader of these files that takes no reward of null.

    `listed`: rollouts are items of lists, `Rollout.path` is `(i,)`, and paths begin at the record. Item i of the
    list `reward` is the rollout's. Several records of a `trajectory` shape may hold the items of one group.
    `parallel`: other lists of the record have an item for each rollout.

    `extras`: `metrics` and `logs` stand beside the reward, as in ART's trajectories. `payload` names a member
    that holds the trajectory once more, as JSON text, and wins when the dump is read. `absent` is the value that
    a missing reward stands for.

    `edit` gets an annotated record, and returns it as it is written.
    """

    name: str
    family: str
    _: KW_ONLY
    read: Code = None
    shape: Literal["group", "trajectory", "columns"] = "trajectory"
    test: Code = None
    shown: str = ""
    own_reward: bool = False
    compute_key: Code = None
    key_parts: Names = ()
    key_description: str = ""
    rank: int = 1
    cause: str = ""
    member: str = ""
    simulated_user: bool = False
    varied_prompts: bool = False
    finish: Code = None
    first_wins: bool = False
    as_json: bool = False
    writers: str = ""
    record: str = ""
    examples: Names = ()
    other_ruler: str = ""
    elsewhere: bool = False
    read_at: str = ""
    written: bytes = b"%s"
    lost: bytes = b"null"
    refuses_null: str = ""
    listed: bool = False
    parallel: bool = False
    extras: bool = False
    payload: str | None = None
    absent: bytes | None = None
    edit: Callable[[JsonObject], Any] | None = None

    @property
    def group_in_record(self) -> bool:
        """Return whether the annotation of the group is written once in the record, not on each rollout."""
        return self.shape == "group" or (
            self.listed and self.shape == "trajectory"
        )

    @property
    def annotations(self) -> str:
        """The dotted path of a rollout's annotation, or of the list of them."""
        if self.listed and self.shape != "columns":
            return "ruler.rollouts"
        return self.ruler

    @property
    def key_paths(self) -> list[str]:
        """The paths at which a group key may stand, the best first."""
        return alternatives(paths(self.group_by))

    def original_in(
        self,
        before: JsonObject,
        now: Any,
    ) -> Path | None:
        """Return the path, in the notes of an earlier run, of the original of the reward field at `now`.

        None: the value is the original.
        """
        field = self.read_at or self.reward
        place = parts(field)
        rewards = items(before.get("rewards"))
        for number, reward in enumerate(rewards):
            path = lookup(reward, "path")
            if is_text(path) and parts(path) == place:
                return ("rewards", number, "value")
        # metrics do not say of which field the first reward is
        path = before.get("reward_path", field)
        if not is_text(path) or parts(path) != place:
            return None
        if self.elsewhere or rewards:
            return (ORIGINAL,)
        # another program may have written a reward over the score
        left = self.lost or b"null"
        score = before.get("score", before.get("ruler_score"))
        if score is not None:
            left = self.written.replace(b"%s", dump(score))
        wrote = parse_value(left)
        is_ours = now in (None, wrote, before.get(ORIGINAL))
        if isinstance(now, float) and isinstance(wrote, float):
            # it may have been rounded
            is_ours = isclose(now, wrote, rel_tol=1e-6)
        return (ORIGINAL,) if is_ours else None


def holds(
    record: JsonObject,
    terms: str,
) -> bool:
    """Return whether a record has all of these terms, which are separated by spaces.

    `a` is a key, also of a null, and `a.b` a path to a value. `a[]` is a list, `a{}` an object, `a"` a text, `a[].b` a
    list of objects with b. `a|b` is one of the two, and `!a` the absence of a.
    """
    return all(
        any(_holds(record, term) for term in alternatives.split("|"))
        for alternatives in terms.split()
    )


_KINDS = {"[]": list, "{}": dict, '"': str}
_FIRST = 5
"""Items of a list that are looked at."""


def _holds(
    record: JsonObject,
    term: str,
) -> bool:
    if term[0] == "!":
        return not _holds(record, term[1:])
    path, _, member = term.partition("[].")
    if member:
        listed = items(lookup(record, path))[:_FIRST]
        return bool(listed) and all(
            is_object(item) and member in item for item in listed
        )
    for mark, kind in _KINDS.items():
        if term.endswith(mark):
            return type(lookup(record, term.removesuffix(mark))) is kind
    return term in record or lookup(record, term) is not None
