-- The table of contents. The load order is the reading order.

-- What is stored.
\ir schema/0001_tables.sql

-- Names, ids and offsets.
\ir functions/check_name.sql
\ir functions/message_id.sql
\ir functions/message_position.sql
\ir functions/multirange_size.sql
\ir functions/advance.sql
\ir functions/reach.sql
\ir functions/keep_retries.sql
\ir functions/offset_at.sql
\ir functions/ready_after.sql

-- Queues, partitions, groups.
\ir functions/subscription.sql
\ir functions/attach_groups.sql
\ir functions/subscribe.sql
\ir functions/extend_group.sql
\ir functions/ensure_partitions.sql
\ir functions/queue_depth.sql
\ir functions/reserve_depth.sql

-- Push.
\ir functions/recent_ids.sql
\ir functions/find_ids.sql
\ir functions/missed_ids.sql
\ir functions/require_encryption.sql
\ir functions/wake_groups.sql
\ir functions/push_segments.sql
\ir functions/find_flush.sql

-- Pop.
\ir functions/pop_targets.sql
\ir functions/bury.sql
\ir functions/give_up.sql
\ir functions/settle.sql
\ir functions/pop_batch.sql

-- Ack, lease, transaction.
\ir functions/judge_failures.sql
\ir functions/ack_batch.sql
\ir functions/renew_lease.sql
\ir functions/release_lease.sql
\ir functions/transact.sql
