"""Stored messages: `queen.messages`."""

from typing import TYPE_CHECKING

from queenmq.api import messages
from queenmq.api.messages import MessageStatus
from queenmq.model import QUEUE_MODE

if TYPE_CHECKING:
    from queenmq.client.queen import AsyncQueen


class AsyncMessages:
    """Messages as they are stored, whoever reads them; one is named by its partition's id and its transaction id."""

    def __init__(self, queen: "AsyncQueen") -> None:
        self._queen = queen

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._queen!r}>"

    async def list(
        self,
        *,
        queue: str | None = None,
        partition: str | None = None,
        group: str = QUEUE_MODE,
        status: MessageStatus | None = None,
        namespace: str | None = None,
        task: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> messages.MessagePage:
        """Messages, newest first, and what a group has made of them; pages do not shift when something is pushed."""
        return await self._queen.call(
            messages.ListMessages(
                queue=queue,
                partition=partition,
                group=group,
                status=status,
                namespace=namespace,
                task=task,
                cursor=cursor,
                limit=limit,
            )
        )

    async def get(self, partition_id: str, transaction_id: str, *, group: str = QUEUE_MODE) -> messages.StoredMessage:
        """A message, and what a group has made of it. Raises MessageNotFound."""
        return await self._queen.call(messages.GetMessage(partition_id, transaction_id, group))

    async def delete(self, partition_id: str, transaction_id: str) -> int:
        """Let no group get a message any more, and purge its dead letters; answers how many would have got it."""
        return (await self._queen.call(messages.DeleteMessage(partition_id, transaction_id))).groups

    async def retry(self, partition_id: str, transaction_id: str, *, group: str | None = None) -> int:
        """Deliver a dead message again to the groups that gave it up; answers how many. Raises NotPending."""
        return (await self._queen.call(messages.RetryMessage(partition_id, transaction_id, group))).groups

    async def give_up(
        self, partition_id: str, transaction_id: str, *, group: str = QUEUE_MODE, error: str | None = None
    ) -> None:
        """Make a message a dead letter of a group that has not finished it. Raises NotPending."""
        await self._queen.call(messages.GiveUpMessage(partition_id, transaction_id, group, error))
