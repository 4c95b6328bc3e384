"""Judge the faithfulness of the cases on standard input with Ragas, in the environment of `benchmarks.peers`."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time

import openai
import ragas
from ragas.llms import llm_factory
from ragas.metrics.collections import Faithfulness


async def main(url: str, warm: int) -> None:
    """Print version, seconds of processor time for the cases after the first `warm`, and how many scores there were."""
    cases = json.load(sys.stdin)
    client = openai.AsyncOpenAI(base_url=url, api_key="none")
    metric = Faithfulness(llm=llm_factory("gpt-4o-mini", client=client))
    scores = []
    began = 0.0
    for number, one in enumerate(cases):
        if number == warm:
            gc.collect()
            gc.freeze()
            began = time.process_time()
        found = await metric.ascore(
            user_input=one["question"], response=one["answer"], retrieved_contexts=one["documents"]
        )
        scores.append(found.value)
    used = time.process_time() - began
    print(json.dumps({"version": ragas.__version__, "seconds": used, "scores": scores}))


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
