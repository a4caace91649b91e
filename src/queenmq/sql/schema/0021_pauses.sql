-- Deliveries of one queue, or of one group on a queue, can be paused.
alter table queen.queues add column paused boolean not null default false;
alter table queen.queue_groups add column paused boolean not null default false;
