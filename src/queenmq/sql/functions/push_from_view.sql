-- queen.push_from_view: an insert into the view queen.messages is a push.
--
-- Only queue, partition ("Default" if left out), payload, transaction_id, trace_id and headers count;
-- offset, id and time are the queue's to give.
create function queen.push_from_view() returns trigger
language plpgsql as $$
begin
    perform queen.push(new.queue, new.payload::jsonb, coalesce(new.partition, 'Default'), new.transaction_id, new.trace_id,
                       new.headers::jsonb);
    return new;
end $$;
comment on function queen.push_from_view is 'The INSTEAD OF INSERT trigger of queen.messages.';
