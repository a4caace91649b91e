-- queen.messages: every stored message as a row; an insert is a push.
--
-- For people and for small queries: finding messages by anything but queue and partition takes every
-- segment apart. Programs use queen.list_messages, queen.get_message and queen.read_messages.
create view queen.messages as
select q.name as queue, p.name as partition, s.partition_id, s.first_offset + e.place - 1 as "offset", m.id,
       coalesce(e.transaction_id, m.id::text) as transaction_id, e.trace_id::uuid as trace_id, s.created_at, s.producer,
       s.encrypted, e.headers::json as headers, e.payload
  from queen.queues q
  join queen.partitions p on p.queue_id = q.id
  join queen.segments s on s.partition_id = p.id
 cross join lateral rows from (
      json_array_elements(convert_from(s.payloads, 'UTF8')::json),
      json_array_elements_text(s.transaction_ids::json),
      json_array_elements_text(s.trace_ids::json),
      json_array_elements_text(s.headers::json)
      ) with ordinality as e (payload, transaction_id, trace_id, headers, place)
 cross join lateral (select queen.message_id(s.created_at, s.partition_id, s.first_offset + e.place - 1) as id) as m;
comment on view queen.messages is 'One row per stored message; insert queue, partition and payload to push.';

create trigger push instead of insert on queen.messages for each row execute function queen.push_from_view();
