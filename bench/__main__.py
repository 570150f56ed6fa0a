from __future__ import annotations

import importlib
import os
import pkgutil
import sys

import django
from django.core.management import call_command

import bench


def main(names: list[str]) -> int:
    known = sorted(
        module.name
        for module in pkgutil.iter_modules(bench.__path__)
        if not module.name.startswith("_")
    )
    unknown = set(names) - set(known)
    if unknown:
        print(
            f"There is no benchmark {', '.join(unknown)}; there are {', '.join(known)}."
        )
        return 2
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    call_command("migrate", verbosity=0)
    for name in names or known:
        importlib.import_module(f"bench.{name}").run()
    return 0


sys.exit(main(sys.argv[1:]))
