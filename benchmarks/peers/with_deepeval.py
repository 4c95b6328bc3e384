"""Judge the faithfulness of the cases on standard input with DeepEval, in the environment of `benchmarks.peers`."""

from __future__ import annotations

import asyncio
import gc
import importlib.metadata
import json
import sys
import time

from deepeval.metrics import FaithfulnessMetric
from deepeval.models import OpenAIModel
from deepeval.test_case import LLMTestCase


async def main(url: str, warm: int) -> None:
    """Print version, seconds of processor time for the cases after the first `warm`, and how many scores there were."""
    cases = json.load(sys.stdin)
    model = OpenAIModel(model="gpt-4o-mini", api_key="none", base_url=url)
    scores = []
    began = 0.0
    for number, one in enumerate(cases):
        if number == warm:
            gc.collect()
            gc.freeze()
            began = time.process_time()
        metric = FaithfulnessMetric(model=model)
        case = LLMTestCase(input=one["question"], actual_output=one["answer"], retrieval_context=one["documents"])
        scores.append(await metric.a_measure(case, _show_indicator=False))
    used = time.process_time() - began
    print(json.dumps({"version": importlib.metadata.version("deepeval"), "seconds": used, "scores": scores}))


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
