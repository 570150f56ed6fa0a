"""The travel desk's world: places, flights, hotels, people, rules. Data, no effects.

Everything is a function of its arguments, so a search made twice finds the same; the
people are invented, and so are the fares.
"""

from __future__ import annotations
