"""Worker processes, which read requests and evaluate them locally.

    readers ──complete request──> WorkerPool (pool.py) ──pipe──> process.py ──cases, local outcomes──> readers

A text that hangs or kills its worker costs one request: the worker is replaced, and the request is set aside.
"""
