-- What is staged is read once, moments later: compressing it costs more than everything else that is done with it.
alter table queen.staged_segments
    alter column payloads set storage external, alter column transaction_ids set storage external;
