"""Tolerant readers that every dialect shares: values, documents, messages, prompts."""
