-- A tick has a random mark beside its number. If PostgreSQL loses commits, numbers are given out a second time: a
-- position that is kept outside of the database holds the mark too, and is recognised as lost.
--
-- Ticks that are there already get one mark together: who knows it knows this step, and all these ticks are before it. A
-- constant is added without writing the table again.
create table queen.tick_incarnations (
    first_tick     bigint primary key,
    token          text not null,
    previous_tick  bigint not null    -- with which the incarnation before ends: numbers may be left out
);
comment on table queen.tick_incarnations is
    'Which incarnation of PostgreSQL took the ticks from first_tick on, up to those of the next row.';
do $$
declare
    v_mark  uuid := gen_random_uuid();
begin
    execute format('alter table queen.ticks add column mark uuid not null default %L', v_mark);
    insert into queen.tick_incarnations (first_tick, token, previous_tick)
    select min(id), v_mark, 0 from queen.ticks having count(*) > 0;
end $$;
alter table queen.ticks alter column mark set default gen_random_uuid();

alter table queen.archives add column mark uuid;    -- null: the archive is at the beginning
update queen.archives a set mark = t.mark from queen.ticks t where t.id = a.tick;

-- Transaction ids that start over are noticed by comparing them with those that are stored (queen.check_epoch): the
-- identifier of the cluster may be read by nobody on some managed services.
alter table queen.system_state drop column system_identifier;
comment on table queen.system_state is
    'The epoch of transaction ids, which installation of Queen this is, and whether it is in maintenance.';
