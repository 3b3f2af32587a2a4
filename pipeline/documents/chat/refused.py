"""Why a conversation has no mask: it is not certain where the loss belongs."""

from __future__ import annotations

from dataprep.pipeline.documents.chat.render import Conversation


class RefusedError(ValueError):
    """It is not certain where the loss belongs; the message says why."""


def told(conversation: Conversation, number: int, what: str) -> str:
    role = conversation.messages[number].get("role")
    return f"message {number + 1} ({role}) {what}"
