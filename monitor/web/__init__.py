"""The built-in page, on the metrics port: rates, alerts, and the worst recent answers with why. It reads, and tries.

Written on the server, without scripts and outside assets. What traffic has brought is text and nothing else (`texts`).
"""
