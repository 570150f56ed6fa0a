"""The agent that `./dev bench runs` runs. Installed by the benchmark alone."""
