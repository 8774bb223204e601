"""Sentences on what the file of settings decides: it may be somebody else's."""

from __future__ import annotations

from ruler_cli.cli.messages import print_note
from ruler_cli.errors import Sentence, UsageError
from ruler_cli.files.location import Location
from ruler_cli.settings.models import JudgeSettings, ScoreSettings
from ruler_cli.settings.options import FILE, VARIABLE, Options


def print_file_note(options: Options, settings: ScoreSettings) -> None:
    """Print what a run takes from the file; if it is quiet, only where that sends rollouts and keys."""
    file = options.file
    if file is None:
        return
    taken = [name for name in options.origins if options.rank(name) == FILE]
    taken += [f"judge {one.name}" for one in settings.judges if one.name in file.judges]
    sent = [way for judge in settings.judges if (way := _way(judge, options))]
    if not taken or (options.progress == "none" and not sent):
        return
    parts = [f"settings of {file.name}: {', '.join(taken)}", *sent]
    keyless = any(judge.api_base and not judge.api_key_env for judge in settings.judges)
    if options.rank("api_key_env") in (VARIABLE, FILE) and keyless:
        place = options.origins["api_key_env"].place
        unsent = (
            "the key of {place} is not sent there; give {api_key_env:VAR} to send it"
        )
        parts.append(Sentence(unsent, place=place))
    print_note(Sentence.joined("; ", parts))


def _way(judge: JudgeSettings, options: Options) -> str:
    """Return a clause on the endpoint and the key that the file gives a judge; empty if it gives neither."""
    table = {} if options.file is None else options.file.judges.get(judge.name, {})
    parts = []
    for name, words in (("api_base", "at"), ("api_key_env", "with the key in")):
        value = getattr(judge, name)
        if value and (
            value == table.get(name) or (not table and options.rank(name) == FILE)
        ):
            parts.append(f"{words} {Location(value).public}")
    return f"{judge.label} is asked {' '.join(parts)}" if parts else ""


def name_judges(error: UsageError, options: Options) -> UsageError:
    """Return an error; one on an unknown judge tells which judges the file has."""
    from ruler_cli.judges.providers import UnknownJudgeError

    if not isinstance(error, UnknownJudgeError) or "/" in error.name:
        return error
    file = options.file
    if file is None:
        hint = "no ruler.toml here names it"
    elif file.judges:
        hint = f"the judges of {file.name} are {', '.join(file.judges)}"
    else:
        hint = f"{file.name} has no judges"
    return UsageError(error.sentence, hint)
