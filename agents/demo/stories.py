"""What the demo starts with, in the words of the people who asked for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Story:
    title: str
    ask: str


FINISHED = Story(
    "Distributor day Zurich, Tomás Vega",
    "Tomás Vega speaks at our distributor day in Zurich on Tue 1 Dec at 14:00. He flies"
    " from Lisbon the same morning, on 1 Dec. One night in a hotel in the Old Town, and"
    " send him the itinerary.",
)
WAITING = Story(
    "Board week New York, Helen Marsh",
    "Helen Marsh flies from Lisbon to New York on Mon 30 Nov for board week and has to"
    " land by 16:00. Premium economy if the policy allows it, nonstop. Hotel in Midtown"
    " until Fri 4 Dec.",
)
# Fails at step 20: at step 15 the model holds a flight that lands a day too late.
FAILED = Story(
    "Signing in Tokyo, Daniel Osei",
    "Daniel Osei signs with Kanda Holdings in Tokyo on Tue 8 Dec at 09:00. Please arrange"
    " his flight from San Francisco and a hotel near Marunouchi for 2 nights, and send"
    " him the itinerary.",
)
FORKED = Story(
    "Hearing in Dubai, Ingrid Solberg",
    "Ingrid Solberg flies from Lisbon to Dubai on Tue 1 Dec for the arbitration hearing"
    " and comes back on Fri 4 Dec. She needs a hotel until then. Send her the itinerary.",
)
# Fifteen steps on files; its fork begins with those of step FILES_AT.
HANDBOOK = Story(
    "Handbook for visitors, Lisbon",
    "Write a short handbook for visitors to our Lisbon office: how to arrive and what"
    " things cost, with an index. Drafts first, please.",
)
FILES_AT = 8
# A thousand steps; the last needs what the third found out.
INVOICES = Story(
    "Airline invoices 2026, checked",
    "Check all airline invoices of 2026 against our books and report those that differ.",
)
LEARNED_AT = 3

WRONG_TURN = 15  # the step of FAILED that went wrong; fork from the one before
LESSON = "Check the date of arrival, in local time, before you hold a flight."
