-- queen.few_versions: whether an index is small for the number of rows that are looked for.
--
-- While somebody holds an old snapshot no version of a row can be removed, and soon there are thousands of each.
-- Rows that are looked for one by one, the newest version first, are found as if there were no others. To find many
-- rows at once costs less, but reads all their versions: with few pages in the index there cannot be many.
create function queen.few_versions(p_index regclass, p_rows int) returns boolean
language sql as $$
    select pg_relation_size(p_index) <= 2048 * greatest(p_rows, 8)
$$;
comment on function queen.few_versions is 'Whether an index is small for the number of rows that are looked for.';
