"""Both batch APIs on loopback: OpenAI's (files and batches) and Anthropic's (message batches)."""

from tests.batch_server.conduct import Conduct, Fault
from tests.batch_server.rows import KINDS
from tests.batch_server.server import BatchServer

__all__ = ["KINDS", "BatchServer", "Conduct", "Fault"]
