-- What is staged is written once: as segments of no queue, which a commit gives their places. Their payloads stay where
-- they are. What was staged before is staged again.
drop table queen.staged_segments;
create sequence queen.stage_ids;
create table queen.staged_segments (
    stage_id        bigint not null,
    n               int not null,
    write_id        text not null,
    partition_name  text not null,
    staged_at       timestamptz not null default clock_timestamp(),
    primary key (stage_id, n)
);
create index staged_segments_write on queen.staged_segments (write_id);
comment on table queen.staged_segments is
    'Segments of a batch that is being written: in queen.segments they have the partition -stage_id and the offset n, '
    'where nobody reads, until queen.commit_write gives them their places.';
