"""What `./dev` does: set up, start, stop and check. Standard library only.

Runs under the system's Python, before `.venv` exists; only `probe` is run inside it.
"""
