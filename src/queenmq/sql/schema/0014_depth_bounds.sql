-- The table of upper bounds gives its name to the view queen.queue_depths, which people read.
alter table queen.queue_depths rename to depth_bounds;
alter index queen.queue_depths_pkey rename to depth_bounds_pkey;
