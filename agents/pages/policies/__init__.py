"""The Policies page: the rules of a workspace or an agent, drafted, tried, and saved."""
