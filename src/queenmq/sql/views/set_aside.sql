-- queen.set_aside: messages of the inbox that could not be placed, and why.
create view queen.set_aside as
select id, queue_name as queue, partition_name as partition, transaction_id, trace_id, created_at, payload, reason, set_aside_at
  from queen.inbox_set_aside;
comment on view queen.set_aside is 'Messages that were pushed in a transaction and could not be placed, with the reason.';
