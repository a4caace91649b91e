-- The pause before a retry is multiplied by this factor with each failure. Queues that exist keep the doubling that they had;
-- new ones pause equally long each time.
alter table queen.queues add column retry_backoff int not null default 2 check (retry_backoff between 1 and 10);
alter table queen.queues alter column retry_backoff set default 1;
