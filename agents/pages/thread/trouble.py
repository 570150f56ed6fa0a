"""What a failure means for the person who looks at it, and what helps.

Every class that our code stores has words here (tests/pages/test_failures_in_words.py).
"""

from __future__ import annotations

_MODEL = {
    "model_unreachable": "The model's server could not be reached. Retry once it can.",
    "model_rate_limited": "The model's server refused for now. Retry later.",
    "model_error": "The model's server answered with an error. Retry, or fork with "
    "another model.",
    "model_refused": "The model declined to answer. Fork with another prompt.",
    "context_overflow": "The conversation is longer than the model takes. Fork an "
    "earlier step, choose a model that takes more, or give the agent a window.",
    "no_summary": "The model wrote no summary of the messages that are not sent any more. "
    "The facts stand for them, and the next summary takes them in by itself.",
}
_ADVANCE = {
    "advance_raised": "The agent's own code broke. Retry asks it again for the same state, "
    "once it is mended.",
    "advance_invalid": "The agent's own code gave nothing that could be done next. Retry "
    "asks it again, once it is mended.",
    "advance_stuck": "The agent's own code would have gone round in a circle. Retry asks "
    "it again, once it is mended; a fork can begin from another state.",
    "advance_timeout": "The agent's own code gave nothing in time. Retry asks it again, "
    "once it is mended.",
}
_TOOL = {
    "sub_agent_failed": "The agent that was asked failed; its own thread says why. The "
    "agent here was told; fork before this step to ask anew.",
    "sub_agent_cancelled": "The run of the agent that was asked was cancelled. The agent "
    "here was told; fork before this step to ask anew.",
    "sub_agent_refused": "The agent that was asked could not be started. The agent here "
    "was told why; fork before this step to ask anew.",
    "tool_failed": "The tool could not do it. The agent was told why; fork before this "
    "step to go another way.",
    "tool_raised": "The tool broke with an error of its own. The agent was told; fork "
    "before this step to try it again once the tool is mended.",
    "tool_timeout": "The tool did not answer in time, and nobody waits for it any more. "
    "The agent was told; fork before this step to try it again.",
    "tool_stopped": "The tool stopped the run. Fork an earlier step to go another way.",
    "tool_broke": "A tool failed each time it was tried. Retry once it works again.",
    "unknown_tool": "The agent called a tool that it does not have: the model made it up, "
    "or the agent's code of today is without it. The agent was told; once the tool is "
    "deployed, fork before this step.",
    "arguments_do_not_fit": "The agent called the tool with arguments that do not fit, "
    "so nothing was done. It was told what is wrong; fork before this step to go another "
    "way.",
    "result_not_kept": "The call was made, and what it returned cannot be kept. Look "
    "where its effect would show before you ask for it again.",
    "secret_unusable": "A secret that the tool needs is not there for the workers. Fork "
    "before this step once an operator has put it there.",
    "outcome_unknown": "Nobody knows whether the call took effect. Look where it would "
    "show before you ask for it again.",
}
_POLICY = {
    "stopped_by_policy": "A policy of the workspace stops runs that want to do this. Fork "
    "an earlier step to go another way, or ask an admin about the policy.",
    "rejected_by_policy": "A policy of the workspace did not allow the call. The agent was "
    "told; an admin can change the policy.",
}
_LIMITS = {
    "too_many_attempts": "Workers took this run up again and again without a step. Retry "
    "goes on from its last one.",
    "too_many_steps": "The run reached the most steps that it may take. Retry goes on "
    "from here, with as many again.",
    "too_many_tokens": "The run reached the most tokens that it may use. Retry goes on "
    "from here, with as many again.",
    "too_expensive": "The run reached the most that it may cost. Retry goes on from here; "
    "a limit that was the run's own can be raised. Or fork an earlier step.",
    "price_unknown": "The run has a limit in dollars, which cannot be kept while the "
    "price of its model is not known. Retry once an admin has said it.",
    "too_long": "The run reached the longest that it may work. Retry goes on from here, "
    "for as long again.",
    "too_many_rejections": "The agent kept asking for what people do not want. Retry lets "
    "it try another way; a message can tell it which.",
    "rejected_again": "People rejected the same tool again and again. Resume lets the "
    "agent try another way; a message can tell it which.",
    "repeats_itself": "The agent went in a circle. A message can tell it another way, or "
    "fork an earlier step.",
    "thread_full": "The thread has as many steps as its policy allows. Nothing was lost: "
    "it goes on once an admin allows more.",
}
_STATE = {
    "future_schema": "The state was written by a newer version of the agent. Retry once "
    "that is deployed here.",
    "missing_migration": "The agent's code does not know how to read state this old. "
    "Retry once it does.",
    "migration_failed": "The agent's code could not bring older state up to date. Retry "
    "once it is repaired.",
    "not_storable": "A value of this step is too large, too deep or no plain JSON, so the "
    "step cannot be stored. Fork an earlier step to go another way.",
    "bad_operation": "This step does not fit the state before it. Fork an earlier step to "
    "go another way.",
    **dict.fromkeys(
        ("unreadable_record", "not_sealed", "broken_chain"),
        "What is stored of this thread is not as it was written. Fork a step before the "
        "damage; an operator finds it with verify_checkpoints.",
    ),
    "unknown_key": "The key of this thread is not among those that the worker has. Retry "
    "once an operator has put it there.",
    "shredded": "The key of this thread was destroyed on purpose: what it sealed is gone "
    "for good. Go on in a new thread.",
    **dict.fromkeys(
        ("pruned", "being_archived"),
        "The content of this thread goes, or went, to an archive. Retry once it is "
        "restored.",
    ),
    **dict.fromkeys(
        ("missing_object", "bad_object"),
        "A large value is not where it was kept. Retry once an operator has put it back, "
        "or fork a step before it.",
    ),
}
_AWAY = {
    "keys_unavailable": "The service that keeps the keys does not answer. The run goes on "
    "by itself once it does.",
    "store_unavailable": "The place where large values are kept does not answer. The run "
    "goes on by itself once it does.",
    "store_full": "There is no room left where large values are kept. The run goes on by "
    "itself once there is.",
    "wrong_store": "A worker does not reach the place where large values are kept. The "
    "run goes on by itself once it does.",
}
_INSIDE = (
    "Something went wrong inside Holdpoint; nothing that was stored is lost. Retry; where "
    "that does not help, an operator finds in the logs what it was."
)
_RUN = {
    "cancelled": "A person cancelled the run. Retry goes on from here.",
    "interrupted": "A message interrupted the run. The next run answers it.",
    **dict.fromkeys(("internal_error", "unscoped", "step_not_found"), _INSIDE),
}
MEANS = {**_MODEL, **_ADVANCE, **_TOOL, **_POLICY, **_LIMITS, **_STATE, **_AWAY, **_RUN}

# A tool may refuse with a class of its own, and a bundle bring any.
OTHER = (
    "The failure is of a tool's own kind, or came with a bundle. Fork before this step to "
    "go another way."
)


def means(error_class: str) -> str:
    """In plain words; empty where there is no class."""
    return MEANS.get(error_class, OTHER) if error_class else ""
