"""The demo: a travel desk for executives, and the scripted model that plays it.

Everyone and everything in it is invented.
"""

from __future__ import annotations
