"""A judge's name → the way it is reached."""

from __future__ import annotations

from dataclasses import dataclass, replace

import orjson

from ruler_cli.errors import UsageError
from ruler_cli.judges.answer_form import EMBEDDED, unknown_judge
from ruler_cli.judges.body import Answering, answering
from ruler_cli.judges.endpoint import DIRECT, HERE, PREFIXES, address_of, check_address, direct, named_key
from ruler_cli.judges.interface import Judge
from ruler_cli.judges.prices import Model, Price, in_batches, known, stated
from ruler_cli.judges.providers import provider_of
from ruler_cli.nearest import nearest
from ruler_cli.settings import JudgeSettings


@dataclass(frozen=True, slots=True)
class Chosen:
    """A judge, not yet open, with its price and context where they are known; `embedded` needs no call."""

    judge: Judge
    price: Price | None
    context: int | None
    embedded: bool = False


def model_of(settings: JudgeSettings) -> Model:
    """What is known of the judge's price and context; nothing is asked, no key is needed.

    UsageError where an embedded judge's name is misspelt: it would be looked for at providers, for seconds.
    """
    given = stated(settings.price) if settings.price else None
    if settings.model in EMBEDDED:
        return Model(Price(0.0, 0.0, 0.0), reasoning=False)
    if settings.api_base:  # what stands behind an endpoint of one's own is not known by its name
        return Model(given)
    found = known(settings.model)
    if found == Model() and "/" not in settings.model and nearest(settings.model, EMBEDDED, 0.75):
        raise UsageError(unknown_judge(settings.model))
    return replace(found, price=given or found.price)


def batch_price(settings: JudgeSettings) -> Price | None:
    """What a judge costs in a batch: as listed, else half of what it costs otherwise; None: not known."""
    price = model_of(settings).price
    if lists_batches(settings):
        return in_batches(settings.model)
    return price.halved if price else None


def lists_batches(settings: JudgeSettings) -> bool:
    """Whether a judge's price in a batch is one of the list: not that of the user, nor half of another."""
    return not (settings.price or settings.api_base) and in_batches(settings.model) is not None


def choose(settings: JudgeSettings) -> Chosen:
    """Pick the way to the judge; UsageError where its key, its endpoint or its SDK is missing."""
    model = model_of(settings)
    return Chosen(_judge(settings), model.price, model.context, settings.model in EMBEDDED)


def answers_of(settings: JudgeSettings) -> Answering:
    """The form of the answers that a judge is asked for at first; no key is needed."""
    straight = settings.via == "http" or (settings.via == "auto" and _straight(settings))
    return answering(settings, (address_of(settings) or HERE) if straight else None)


def cached_only(settings: JudgeSettings) -> Model:
    """Look up a judge of whom only cached replies count; UsageError where none are cached."""
    if settings.model in EMBEDDED:
        raise UsageError(
            f"judge {settings.model}: it is asked as it is needed, and the ledger keeps no answers of it; "
            "name the judge whose answers are kept, with -m"
        )
    return model_of(settings)


def _judge(settings: JudgeSettings) -> Judge:
    name = settings.model
    if name == "offline":
        from ruler_cli.judges.offline import Offline

        if settings.params:
            raise UsageError(f"-p {next(iter(settings.params))}: judge offline takes no parameters")
        return Offline()
    if name == "simulated":
        from ruler_cli.judges.simulated import Model as SimulatedModel
        from ruler_cli.judges.simulated import Simulated

        try:
            return Simulated(SimulatedModel.of(settings.params))
        except ValueError as error:
            raise UsageError(str(error)) from None
    if settings.via == "litellm" or (settings.via == "auto" and not _straight(settings)):
        from ruler_cli.judges.through_litellm import LitellmJudge

        if settings.api_base is not None:
            check_address(settings.api_base)
        key = named_key(settings)
        how = answering(settings, None)
        judge = LitellmJudge(name, name, key, settings.api_base, settings.timeout, settings.params, how)
        judge.check()
        return judge
    from ruler_cli.judges.http import HttpJudge

    endpoint = direct(settings)
    try:
        orjson.dumps([endpoint.model, settings.params])
    except TypeError as error:  # told before anything is sent
        raise UsageError(f"-m or -p: cannot be sent to the judge ({error})") from None
    how = answering(settings, endpoint.base)
    base, key = endpoint.base, endpoint.key
    return HttpJudge(name, endpoint.model, base, key, settings.timeout, settings.params, how)


def _straight(settings: JudgeSettings) -> bool:
    """Whether a judge is asked by OpenAI's protocol: where its provider has another, litellm knows it.

    A first word that is no provider's belongs to the model's name at an endpoint of one's own.
    """
    provider = provider_of(settings.model, settings.params)
    if provider in DIRECT:
        return True
    return settings.api_base is not None and (provider is None or provider in PREFIXES)
