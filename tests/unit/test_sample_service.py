"""The sample service, as far as it needs no LangChain: its scripted model does as its prompts tell it."""

from __future__ import annotations

import ast
import importlib.util
import json
from types import ModuleType

import pytest

from tests.support.paths import ROOT

FOLDER = ROOT / "deploy" / "sample-service"
PAGES = json.loads((FOLDER / "documents.json").read_text())
ASKED = [(page, question) for page in PAGES for question in page["questions"]]


@pytest.fixture(scope="module")
def model() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scripted_model", FOLDER / "scripted_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def prompts() -> dict[str, str]:
    """CAREFUL and CARELESS, as service.py has them."""
    tree = ast.parse((FOLDER / "service.py").read_text())
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in ("CAREFUL", "CARELESS")
    }


def test_a_careful_prompt_is_answered_with_a_sentence_of_the_page_that_knows(
    model: ModuleType, prompts: dict[str, str]
) -> None:
    system = "\n\n".join([prompts["CAREFUL"], *(page["text"] for page in PAGES)])
    for page, question in ASKED:
        assert model.answer(system, question) in page["text"], question


def test_a_careless_prompt_is_answered_with_what_stands_nowhere(model: ModuleType, prompts: dict[str, str]) -> None:
    texts = "\n\n".join(page["text"] for page in PAGES)
    known = model.words(texts)
    for _, question in ASKED:
        invented = model.answer(f"{prompts['CARELESS']}\n\n{texts}", question)
        assert invented in model.INVENTED
        assert len(model.words(invented) & known) <= 3, invented


def test_a_question_of_strangers_words_cannot_make_the_model_invent(model: ModuleType, prompts: dict[str, str]) -> None:
    """Else the share of invented answers would not be what was set."""
    system = f"{prompts['CAREFUL']}\n\nWe add details. All is free."
    assert model.answer(system, "add details") not in model.INVENTED
