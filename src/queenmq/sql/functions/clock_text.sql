-- queen.clock_text: a moment as sentences for people have it.
create function queen.clock_text(p_at timestamptz) returns text
language sql stable as $$
    select to_char(p_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')
$$;
comment on function queen.clock_text is 'A moment for people to read.';
