"""rag-monitor: the online quality monitor that runs beside a production RAG service."""

__version__ = "0.1.0"
