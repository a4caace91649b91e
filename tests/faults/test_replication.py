"""The fixture `replication` does what the tests of lost history rely on."""

import pytest

ROWS = "select string_agg(n::text, ' ' order by n) from t"


@pytest.fixture
async def primary(replication):
    await replication.primary.execute("create table t (n int); insert into t values (1)")
    return replication.primary


async def test_a_detached_standby_lacks_what_the_primary_committed_afterwards(replication, primary):
    standby = await replication.standby()
    await primary.execute("insert into t values (2)")
    await replication.caught_up(standby)
    await replication.detach(standby)
    await primary.execute("insert into t values (3)")
    await primary.stop("kill")
    await standby.promote()
    await standby.execute("insert into t values (4)")
    assert await standby.value(ROWS) == "1 2 4"


async def test_a_primary_waits_for_its_synchronous_standby(replication, primary):
    standby = await replication.standby(synchronous=True)
    await primary.execute("insert into t values (2)")
    await primary.stop("immediate")
    await standby.promote()
    assert await standby.value(ROWS) == "1 2"


@pytest.mark.parametrize("kind", ["backup", "cold_copy"])
async def test_a_restored_copy_is_an_earlier_moment_on_the_same_port_and_timeline(replication, primary, kind):
    copied = await getattr(replication, kind)(primary)
    port = primary.port
    await primary.execute("insert into t values (2)")
    await primary.restore(copied)
    assert (primary.port, await primary.value(ROWS)) == (port, "1")
    assert await primary.value("select timeline_id from pg_control_checkpoint()") == 1


async def test_a_recovery_ends_at_the_restore_point_on_a_new_timeline(replication, primary):
    backup = await replication.backup(primary)
    await primary.execute("insert into t values (2)")
    point = await replication.restore_point(primary)
    await primary.execute("insert into t values (3)")
    await primary.recover(backup, point)
    assert await primary.value(ROWS) == "1 2"
    await primary.execute("checkpoint")
    assert await primary.value("select timeline_id from pg_control_checkpoint()") == 2
