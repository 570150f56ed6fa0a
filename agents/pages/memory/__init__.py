"""The Memory page: what agents and people keep beyond a thread, and its history."""
