"""One file per evaluator, named after its `type`. An evaluator that is a prompt and a scale is a file in rubrics/."""
