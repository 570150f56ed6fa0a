"""The Agents pages: which agents there are, what they may call, and under which rules."""
