-- Every push changes a row of partition_lookup, every pop and ack one of partition_consumers. With a unique index
-- each new version of a row is compared with all that are still there, and while somebody holds an old snapshot these
-- grow without end. So they are found by plain indexes. Nothing is there twice all the same: a partition's row is
-- made together with the partition, a group's place in it under the lock of the queue.
drop view if exists queen.partition_totals;
alter table queen.partition_lookup drop constraint partition_lookup_pkey;
create index partition_lookup_partition on queen.partition_lookup (partition_id) with (deduplicate_items = off);
alter table queen.partition_consumers drop constraint partition_consumers_pkey;
create index partition_consumers_place on queen.partition_consumers (partition_id, group_id) with (deduplicate_items = off);
