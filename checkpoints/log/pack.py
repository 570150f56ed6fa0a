"""Packing: the deltas of a run of steps become one sealed segment, and go.

A segment is written in one transaction of its own: the steps' links are verified, the
segment is inserted, read back, opened and compared, and the deltas are deleted. Killed
anywhere, nothing has happened; a statement that reads the branch meanwhile sees either
all of it or nothing. No lock is taken that a holder's commit waits for.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from checkpoints import gate
from checkpoints.access import Reason, SystemPrincipal
from checkpoints.errors import BrokenChain, DecryptionError
from checkpoints.failpoints import failpoint
from checkpoints.ids import short
from checkpoints.keys import hierarchy
from checkpoints.log.record import COLUMNS, StepRow
from checkpoints.log.step import delta_context, metadata
from checkpoints.models import Branch, Checkpoint, CheckpointDelta, DataKey, Segment
from checkpoints.pure import chain, envelope, segment
from checkpoints.pure.segment import SEGMENT_STEPS
