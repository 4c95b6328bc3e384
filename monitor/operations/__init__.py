"""What a person asks of the monitor, as functions and classes: values in, results out, nothing printed.

The commands of `monitor.cli` call these and print what they return; a Python program can call them as well. Bad input
raises an error of `monitor.errors` that names the parameter. Operations that ask a judge are coroutines: a program
without an event loop calls them through `event_loop.run_async`.
"""
