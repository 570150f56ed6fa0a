"""What the Runs page asks: which runs, and how the work goes (views: agents/pages/runs.py)."""
