"""What a failure means for the person who looks at it, and what helps."""

from __future__ import annotations

MEANS = {
    "model_unreachable": "The model's server could not be reached. Retry once it can.",
    "model_rate_limited": "The model's server refused for now. Retry later.",
    "model_error": "The model's server answered with an error.",
    "model_refused": "The model declined to answer. Fork with another prompt.",
    "context_overflow": "The conversation is longer than the model takes. Fork an "
    "earlier step, or choose a model with a larger window.",
    "tool_timeout": "The tool did not answer in time, and nobody waits for it any more.",
    "tool_stopped": "The tool stopped the run. Fork an earlier step to go another way.",
    "stopped_by_policy": "A policy of the workspace stops runs that want to do this.",
    "rejected_by_policy": "A policy of the workspace did not allow the call.",
    "outcome_unknown": "Nobody knows whether the call took effect. Look where it would "
    "show before you ask for it again.",
    "too_many_attempts": "Workers took this run up again and again without a step.",
    "too_many_steps": "The run reached the most steps that it may take.",
    "too_many_tokens": "The run reached the most tokens that it may use.",
    "too_expensive": "The run reached the most that it may cost. Retry goes on from here; "
    "a limit that was the run's own can be raised. Or fork an earlier step.",
    "price_unknown": "The run has a limit in dollars, which cannot be kept while the "
    "price of its model is not known.",
    "too_long": "The run reached the longest that it may work.",
    "too_many_rejections": "The agent kept asking for what people do not want.",
    "repeats_itself": "The agent went in a circle.",
    "needs_owner": "The person whom the run acted for may no longer do this. Retry: then "
    "it acts for you.",
    "thread_full": "The thread has as many steps as its policy allows. Nothing was lost: "
    "it goes on once an admin allows more.",
    "tool_broke": "A tool failed each time it was tried. Retry once it works again.",
    "future_schema": "The state was written by a newer version of the agent. Retry once "
    "that is deployed here.",
    "missing_migration": "The agent's code does not know how to read state this old.",
    "migration_failed": "The agent's code could not bring older state up to date. Retry "
    "once it is repaired.",
    "cancelled": "A person cancelled the run.",
}


def means(error_class: str) -> str:
    """In plain words; empty for a code that says it all itself."""
    return MEANS.get(error_class, "")
