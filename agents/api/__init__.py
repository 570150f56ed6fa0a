"""The JSON API for programs, under /api/v1/: what the pages do."""
