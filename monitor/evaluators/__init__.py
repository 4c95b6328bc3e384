"""One file an evaluator, named after its `type`; one Markdown file in rubrics/ where it is a prompt and a scale."""
