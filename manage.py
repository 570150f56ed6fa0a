#!/usr/bin/env python
import os
import sys

try:
    from django.core.management import execute_from_command_line
except ModuleNotFoundError:
    sys.exit("This Python has no Django. In a clone, ./dev manage … has what it needs.")

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    if sys.argv[1:2] == ["worker"]:
        os.environ.setdefault("DATABASE_ROLE", "worker")  # see settings
    try:
        execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        # What was committed stays; what was not is as it was.
        sys.stderr.write("\nStopped. What was done stays; run it again for the rest.\n")
        sys.exit(130)
