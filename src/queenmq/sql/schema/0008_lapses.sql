-- breaking
-- A lease that expires counts as a retry for the messages it held, and for no others. One counter per partition and
-- group could not say which messages these were: lapses has one element for each expired lease.
alter table queen.partition_consumers replica identity full;    -- or the update fails under a publication: see step 0016
alter table queen.partition_consumers add column lapses int8multirange[];
update queen.partition_consumers
   set lapses = array_fill(int8multirange(int8range(committed, greatest(committed + 1, lease_to))),
                           array[least(expiries, 1001)])
 where expiries > 0;
alter table queen.partition_consumers drop column expiries;
