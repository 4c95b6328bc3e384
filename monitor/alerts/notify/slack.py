"""Receiver `slack`: alerts in the format of Slack's incoming webhooks, which other chats accept too.

Form and limits: https://api.slack.com/messaging/webhooks, https://api.slack.com/reference/block-kit/blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from monitor.alerts.notify.delivery_state import DeliveryState, Notice
from monitor.alerts.notify.receiver import HttpNotifier, Inbox, ScheduledMessage
from monitor.alerts.notify.text import description, links, status, title
from monitor.stages import Runtime

_AT_MOST: Final = 4
"""Alerts in one message, so that `text` fits into a Discord message."""

_LONGEST_MESSAGE: Final = 1_900
_LONGEST_TEXT: Final = _LONGEST_MESSAGE // _AT_MOST
_MOST_BLOCKS: Final = 10
_CUT: Final = "\n... the rest does not fit"
_LONGEST_BLOCK: Final = 3_000
_LONGEST_DESCRIPTION: Final = 1_000
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


class Slack(HttpNotifier):
    """A Slack incoming webhook, or one that takes the same JSON: Mattermost, Rocket.Chat, and Discord with `/slack` at
    the end of the address.

    `url` is a secret: `${SLACK_WEBHOOK}`. Each alert is posted when it fires and when it is resolved, at most four in
    a message, with links to its runbook and its answers: as `blocks`, and as `text` for chats without blocks. The texts
    are plain: a name in a trace cannot format text, make a link or mention anyone. An alert explained by another one is
    held back while that one fires (docs/runbooks). Failed deliveries are retried as for a webhook.
    """

    late_diagnosis: bool = True
    """Whether an alert that was sent without its diagnosis is followed, once, by a message with it. An alert waits at
    most 5 seconds for its diagnosis."""

    async def run(self, inbox: Inbox, runtime: Runtime) -> None:
        """Post until cancelled."""
        delivery = DeliveryState(late_diagnosis=self.late_diagnosis)
        await self.post_until_cancelled(
            inbox, runtime, name="slack", url=self.url, delivery=delivery, body=_message, at_most=_AT_MOST
        )

    async def deliver(self, message: ScheduledMessage, place: int = 0) -> None:  # noqa: ARG002 - it has one place
        """Post a message. Raises `NotDelivered`."""
        await self.post_once(self.url, _of_message(message))


def _of_message(message: ScheduledMessage) -> dict[str, Any]:
    """Return as many blocks as the lines need. `text`, for chats without blocks, has the lines that fit."""
    blocks: list[str] = []
    for line in (message.title, *message.lines):
        escaped = _escaped(line, _LONGEST_BLOCK)
        if blocks and len(blocks[-1]) + 1 + len(escaped) <= _LONGEST_BLOCK:
            blocks[-1] = f"{blocks[-1]}\n{escaped}"
        elif len(blocks) < _MOST_BLOCKS:
            blocks.append(escaped or " ")
    text = ""
    for line in (message.title, *message.lines):
        more = f"{text}\n{_escaped(line, _LONGEST_BLOCK)}" if text else _escaped(line, _LONGEST_BLOCK)
        if len(more) > _LONGEST_MESSAGE - len(_CUT):
            text += _CUT
            break
        text = more
    sections = [{"type": "section", "text": {"type": "plain_text", "text": one, "emoji": False}} for one in blocks]
    return {"text": text, "mrkdwn": False, "blocks": sections, "unfurl_links": False, "unfurl_media": False}


def _message(notices: Sequence[Notice]) -> dict[str, Any]:
    return {
        "text": "\n".join(map(_text, notices)),
        "mrkdwn": False,
        "blocks": [block for notice in notices for block in _blocks(notice)],
        "unfurl_links": False,
        "unfurl_media": False,
    }


def _text(notice: Notice) -> str:
    """Return the alert on one line; a link that does not fit is left out."""
    head = f"{status(notice)}: {title(notice)}. "
    line = _escaped(head, _LONGEST_TEXT)
    line += _escaped(description(notice, _LONGEST_DESCRIPTION), _LONGEST_TEXT - len(line))
    for name, url in links(notice):
        link = f" {name}: {_escaped(url, _LONGEST_BLOCK)}"
        if len(line) + len(link) <= _LONGEST_TEXT:
            line += link
    return line


def _blocks(notice: Notice) -> list[dict[str, Any]]:
    lines = f"{status(notice)}: {title(notice)}\n{description(notice, _LONGEST_DESCRIPTION)}"
    section = {"type": "plain_text", "text": _escaped(lines, _LONGEST_BLOCK), "emoji": False}
    blocks: list[dict[str, Any]] = [{"type": "section", "text": section}]
    pages = [f"<{_escaped(url, _LONGEST_BLOCK)}|{name}>" for name, url in links(notice)]
    if pages:
        elements = [{"type": "mrkdwn", "text": one, "verbatim": True} for one in pages if len(one) <= _LONGEST_BLOCK]
        blocks.append({"type": "context", "elements": elements})
    return blocks


def _escaped(text: str, longest: int) -> str:
    """Escape the three characters that are special to Slack; the result has at most `longest` characters."""
    written, room = list[str](), longest
    for one in text:
        entity = _ENTITIES.get(one, one)
        room -= len(entity)
        if room < 0:
            break
        written.append(entity)
    return "".join(written)
