-- How large the messages of a partition are, so that a pop reads the sizes of segments only where its answer could become
-- too large: the largest queen.message_bytes of its segments. The largest int stands for "unknown".
alter table queen.partition_lookup add column message_bytes int not null default 2147483647;
