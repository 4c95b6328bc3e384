"""Replies of a judge to a question with `SCHEMA`: good ones and malformed ones."""

from __future__ import annotations

from typing import Any, Final

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "claims": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"quote": {"type": "string"}, "verdict": {"type": "string", "enum": ["yes", "no"]}},
                "required": ["quote", "verdict"],
            },
        },
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
    },
    "required": ["claims", "score"],
}
GOOD: Final = '{"claims": [], "score": 3}'
TALKATIVE: Final = (
    f"Here it is: {GOOD}",
    f"{GOOD} I hope that helps.",
    f"```json\n{GOOD}\n``` done",
    f"````\n{GOOD}\n````",
    f"I went through the claims.\n\n```json\n{GOOD}\n```\n\nNone is made (see {{query}}).",
    f"Claims: none {{as asked}}. Verdict: {GOOD}",
    f"An example of the form is {{}}. {GOOD}",
)
MALFORMED: Final = (
    "",
    "5",
    "null",
    "[5]",
    '"score: 5"',
    "The score is 5.",
    f"{GOOD}{GOOD}",
    f"First {GOOD}, and then {GOOD}.",
    f"```json\n{GOOD}\n```\nor\n```json\n{GOOD}\n```",
    f"[{GOOD}]",
    f"Here it is: [{GOOD}]",
    f"Here it is: [ {GOOD}, {GOOD} ]",
    'Here it is: {"result": ' + GOOD + ", }",
    'Here it is: {"result": ' + GOOD + "}",
    'Here it is: {"claims": [], "score": 3',
    'Here it is: {"claims": [], "score": NaN}',
    'Here it is: {"claims": [], "score": 3, "score": 5}',
    "Here it is: {'claims': [], 'score': 3}",
    "{} " * 9 + GOOD,
    "Here it is: " + '{"a":' * 100_000,
    "Here it is: " + '{"a":[' * 100_000,
    "Here it is: " + "{ " * 100_000,
    "Here it is: " + '{"' * 100_000,
    "Here it is: " + "{}" * 100_000,
    '{"claims": [], "score": NaN}',
    '{"claims": [], "score": Infinity}',
    '{"claims": [], "score": -Infinity}',
    '{"claims": [], "score": 1e999}',
    '{"claims": [], "score": true}',
    '{"claims": [], "score": "3"}',
    '{"claims": [], "score": null}',
    '{"claims": [], "score": [3]}',
    '{"claims": [], "score": 3.5}',
    '{"claims": []}',
    '{"claims": [], "score": 3, "score": 5}',
    '{"claims": [{"quote": "x", "verdict": "maybe"}], "score": 3}',
    '{"claims": [{"quote": 1, "verdict": "yes"}], "score": 3}',
    '{"claims": [{"verdict": "yes"}], "score": 3}',
    '{"claims": {}, "score": 3}',
    '{"claims": [], "score": 9, "claims": []}',
    '{"claims": "none", "score": 9}',
    "[" * 100_000,
    '{"a":' * 100_000,
    '{"claims": [], "score": ' + "9" * 5_000 + "}",
)
