"""The judge that is an `async` function of a Python program: a request in, the text of the reply out."""

from __future__ import annotations

import asyncio
import copy
import logging
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ruler_cli.errors import RefusedError, RulerError
from ruler_cli.files.parse import dump
from ruler_cli.judges.chat_completions import AnswerFormat, list_schema
from ruler_cli.judges.provider_errors import Scope
from ruler_cli.judges.replies import LARGEST, reply_of
from ruler_cli.settings.models import AskFunction, JudgeSettings
from ruler_cli.types import (
    CallError,
    Judge,
    JudgeRequest,
    Kind,
    Reply,
    Request,
    clean,
    readable_text,
)

_log = logging.getLogger("ruler_cli")
_FORMAT = AnswerFormat()
"""The form and the length of the replies that every function is asked for."""


@dataclass(slots=True)
class FunctionJudge(Judge):
    """A judge that is the function of its settings.

    `_answered`: a call had a reply. Until then a failed call counts as a judge that cannot be reached, which is not
    tried for long; later it counts as an error of the judge.
    """

    settings: JudgeSettings
    function: AskFunction
    _answered: bool = False

    async def ask(self, request: Request) -> Reply | CallError:
        """Call the function once, for `timeout` seconds at most.

        A RulerError of the function is a refusal, any other exception a failed call that may be tried again.
        """
        settings = self.settings
        asked = JudgeRequest(
            settings.model,
            settings.params,
            request.system,
            request.user,
            request.labels,
            copy.deepcopy(list_schema(request.criteria)),
            _FORMAT.max_tokens(request, settings.params),
            request.pass_index,
            request.words,
            {
                label: criterion.text
                for label, criterion in request.criteria.items()
            },
            request.pictures,
        )
        try:
            async with asyncio.timeout(settings.timeout) as deadline:
                value = await self.function(asked)
        except RulerError as error:
            scope: Scope = "run" if isinstance(error, RefusedError) else "group"
            return CallError("refused", clean(str(error)), scope)
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            cancelled = task is None or task.cancelling()
            if isinstance(error, asyncio.CancelledError) and cancelled:
                raise
            if deadline.expired():
                why = f"the judge did not answer within {settings.timeout:g} s"
                return CallError("transport", why, "call")
            _log.debug("judge %s failed", settings.label, exc_info=error)
            why, *_ = traceback.format_exception_only(error)
            return self._failed(f"raised {clean(why)}", "transport")
        return self._reply(request, value)

    def _failed(self, what: str, kind: Kind = "reply") -> CallError:
        """Return a failed call; no ledger keeps it, since it may be a mistake in the function."""
        return CallError(
            kind,
            f"the judge's function {what}",
            "call",
            sent=self._answered,
            kept=False,
        )

    def _reply(
        self,
        request: Request,
        value: Any,
    ) -> Reply | CallError:
        """Read what the function returned: text, or a chat completion as a dict."""
        if not isinstance(value, str | Mapping):
            name = type(value).__name__
            return self._failed(f"returned {name}, not text")
        reply: object = None
        with suppress(Exception):  # a mapping of the program may raise any
            if isinstance(value, str):
                # its tokens are not counted
                message = {"role": "assistant", "content": readable_text(value)}
                choice = {"message": message, "finish_reason": "stop"}
                value = {"choices": [choice]}
            reply = reply_of(dump(dict(value)))
        if not isinstance(reply, Reply):
            problem = "returned a dict that is not a chat completion"
            return self._failed(problem)
        if len(reply.body) > LARGEST:
            return self._failed("returned more than 1 MiB")
        if request.words and not reply.likely:
            return self._failed("returned no `logprobs`")
        self._answered = True
        return reply
