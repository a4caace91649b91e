"""The four programs of the plan for subscriptions, in Python spelling: over every transport and in both skins.

The original client's pop acknowledges what it takes; here that is asked for with `auto_ack()`.
"""


def payloads(messages) -> list:
    return [message.payload for message in messages]


async def test_a_group_that_reads_new_messages_gets_the_next_one_too(queen, queue):
    await queen.queue(queue).partition("p1").create()
    await queen.queue(queue).partition("p1").push([{"data": "M1"}])

    cg = queen.queue(queue).partition("p1").group("cg1").subscription_mode("new").auto_ack()
    assert payloads(await cg.pop()) == ["M1"]

    await queen.queue(queue).partition("p1").push([{"data": "M2"}])
    assert payloads(await cg.pop()) == ["M2"]


async def test_a_group_that_reads_new_messages_gets_those_of_a_later_partition(queen, queue):
    cg = queen.queue(queue).group("cg1").subscription_mode("new").auto_ack()
    await queen.queue(queue).partition("p1").create()
    await queen.queue(queue).partition("p1").push([{"data": "M1"}])
    assert payloads(await cg.pop()) == ["M1"]

    await queen.queue(queue).partition("p2").create()
    await queen.queue(queue).partition("p2").push([{"data": "M2"}])
    assert payloads(await cg.pop()) == ["M2"]


async def test_a_group_of_a_namespace_gets_messages_of_a_later_queue(queen, queue):
    namespace, q1, q2 = f"{queue}-ns1", f"{queue}-q1", f"{queue}-q2"
    cg = queen.queue().namespace(namespace).group("cg1").subscription_mode("new").auto_ack()

    await queen.queue(q1).namespace(namespace).create()
    await queen.queue(q1).push([{"data": "M1"}])
    assert payloads(await cg.pop()) == ["M1"]

    await queen.queue(q2).namespace(namespace).create()
    await queen.queue(q2).push([{"data": "M2"}])
    assert payloads(await cg.pop()) == ["M2"]


async def test_groups_have_subscriptions_of_their_own(queen, queue):
    cg1 = queen.queue(queue).group("cg1").subscription_mode("new").auto_ack()
    assert await cg1.pop() == []

    cg2 = queen.queue(queue).group("cg2").auto_ack()
    assert await cg2.pop() == []

    await queen.queue(queue).push([{"data": "M1"}])
    assert [payloads(await each.pop()) for each in (cg1, cg2)] == [["M1"], ["M1"]]
