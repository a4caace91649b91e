-- `delete from queen.queues` removes the queues' partitions and groups itself (queen.erase_queues), after the queues' rows. So
-- these are looked for when the transaction ends.
alter table queen.partitions alter constraint partitions_queue_id_fkey deferrable initially deferred;
alter table queen.queue_groups alter constraint queue_groups_queue_id_fkey deferrable initially deferred;
