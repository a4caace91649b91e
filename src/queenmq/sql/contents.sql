-- The table of contents. The load order is the reading order.

-- What is stored.
\ir schema/0001_tables.sql
\ir schema/0002_headers.sql
\ir schema/0003_readers_and_writers.sql
\ir schema/0004_pipelines.sql
\ir schema/0005_plain_stage.sql
\ir schema/0006_staged_in_place.sql
\ir schema/0007_versions.sql
\ir schema/0008_lapses.sql
\ir schema/0009_abandoned_calls.sql
\ir schema/0010_incarnations.sql
\ir schema/0011_marks.sql
\ir schema/0012_subscriptions.sql
\ir schema/0013_message_bytes.sql
\ir schema/0014_depth_bounds.sql
\ir schema/0015_inbox_gate.sql
\ir schema/0016_replica_identity.sql
\ir schema/0017_erased_queues.sql
\ir schema/0018_ttl.sql
\ir schema/0019_retry_backoff.sql
\ir schema/0020_retention.sql
\ir schema/0021_pauses.sql

-- What callers remember belongs to one incarnation.
\ir functions/current_incarnation.sql
\ir functions/incarnation.sql
\ir functions/check_incarnation.sql

-- Names, ids and offsets.
\ir functions/check_name.sql
\ir functions/check_headers.sql
\ir functions/check_payload.sql
\ir functions/message_id.sql
\ir functions/message_position.sql
\ir functions/few_versions.sql
\ir functions/multirange_size.sql
\ir functions/advance.sql
\ir functions/reach.sql
\ir functions/keep_retries.sql
\ir functions/count_lapses.sql
\ir functions/add_lapse.sql
\ir functions/keep_lapses.sql
\ir functions/retry_counts.sql
\ir functions/offset_at.sql
\ir functions/ready_after.sql
\ir functions/check_limit.sql
\ir functions/find_queue.sql
\ir functions/find_partition.sql

-- Calls that happen once, although an answer may be lost.
\ir functions/begin_call.sql
\ir functions/abandon_call.sql
\ir functions/forget_calls.sql

-- Queues, partitions, groups.
\ir functions/subscription_mode.sql
\ir functions/subscription.sql
\ir functions/attach_groups.sql
\ir functions/place_at.sql
\ir functions/general_places.sql
\ir functions/restart_places.sql
\ir functions/record_subscription.sql
\ir functions/subscribe.sql
\ir functions/forget_depth.sql
\ir functions/extend_groups.sql
\ir functions/extend_group.sql
\ir functions/ensure_partitions.sql
\ir functions/queue_depth.sql
\ir functions/reserve_depth.sql
\ir functions/check_options.sql
\ir functions/hold_back.sql
\ir functions/configure_queue.sql
\ir functions/set_paused.sql
\ir functions/pause.sql
\ir functions/resume.sql

-- Push.
\ir functions/recent_ids.sql
\ir functions/find_ids.sql
\ir functions/missed_ids.sql
\ir functions/require_encryption.sql
\ir functions/wake_groups.sql
\ir functions/message_bytes.sql
\ir functions/message_sizes.sql
\ir functions/push_segments.sql
\ir functions/find_flush.sql
\ir functions/push_spooled.sql

-- Pop.
\ir functions/pop_targets.sql
\ir functions/bury.sql
\ir functions/give_up.sql
\ir functions/settle.sql
\ir functions/claim_partitions.sql
\ir functions/bytes_bound.sql
\ir functions/fit_bytes.sql
\ir functions/hand_out_plain.sql
\ir functions/hand_out.sql
\ir functions/pop_batch.sql
\ir functions/has_pending_messages.sql
\ir functions/fetch_segments.sql
\ir functions/locate_messages.sql

-- Ack, lease, transaction.
\ir functions/judge_failures.sql
\ir functions/ack_batch.sql
\ir functions/ack_once.sql
\ir functions/renew_lease.sql
\ir functions/release_lease.sql
\ir functions/transact.sql

-- Push inside the application's own transaction.
\ir functions/is_duplicate.sql
\ir functions/push.sql
\ir functions/push_from_view.sql
\ir functions/place_inbox.sql
\ir functions/is_row_fault.sql
\ir functions/set_aside_inbox.sql
\ir functions/sequence_inbox.sql
\ir functions/retry_set_aside.sql
\ir functions/delete_set_aside.sql

-- Messages to look at; pop and ack one by one.
\ir functions/describe_messages.sql
\ir functions/describe_within.sql
\ir functions/message_status.sql
\ir functions/list_messages.sql
\ir functions/get_message.sql
\ir functions/find_message.sql
\ir functions/read_messages.sql
\ir functions/trace.sql
\ir functions/read_ranges.sql
\ir functions/safe_time.sql
\ir functions/changed_partitions.sql
\ir functions/pop.sql
\ir functions/ack.sql

-- Events about messages.
\ir functions/record_event.sql
\ir functions/describe_events.sql
\ir functions/list_message_events.sql
\ir functions/list_named_events.sql
\ir functions/list_event_names.sql

-- Dead letters.
\ir functions/list_dead_letters.sql
\ir functions/redrive_dead_letters.sql
\ir functions/count_dead_letters.sql
\ir functions/purge_dead_letters.sql
\ir functions/retry_message.sql

-- Groups to look at.
\ir functions/list_groups.sql
\ir functions/describe_group.sql
\ir functions/clock_text.sql
\ir functions/explain_place.sql
\ir functions/why.sql

-- Moving and removing.
\ir functions/pass_over.sql
\ir functions/dead_letter_message.sql
\ir functions/delete_message.sql
\ir functions/seek_group.sql
\ir functions/set_subscription.sql
\ir functions/delete_group.sql
\ir functions/skip_deleted.sql
\ir functions/clear_queue.sql
\ir functions/remove_partitions.sql
\ir functions/delete_partition.sql
\ir functions/erase_queues.sql
\ir functions/delete_queue.sql

-- Everything in order: ticks.
\ir functions/check_epoch.sql
\ir functions/take_tick.sql
\ir functions/find_tick.sql
\ir functions/tick_trail.sql
\ir functions/common_tick.sql
\ir functions/segments_between.sql
\ir functions/position_at.sql
\ir functions/slice_segments.sql
\ir functions/limit_messages.sql
\ir functions/advance_group.sql

-- Whole batches at once.
\ir functions/discard_staged.sql
\ir functions/drop_duplicates.sql
\ir functions/append_staged.sql
\ir functions/commit_write.sql

-- Totals.
\ir views/partition_totals.sql
\ir functions/queue_totals.sql
\ir functions/pending_partitions.sql
\ir functions/traffic.sql

-- Upkeep.
\ir functions/retain.sql
\ir functions/retain_dead_letters.sql
\ir functions/idle_partitions.sql
\ir functions/remove_idle_partitions.sql
\ir functions/resync_partition_lookup.sql
\ir functions/repair_slots.sql
\ir functions/check_consistency.sql
\ir functions/collect_stats.sql

-- Views.
\ir views/messages.sql
\ir views/ledger.sql
\ir views/active_leases.sql
\ir views/partition_utilisation.sql
\ir views/stuck_partitions.sql
\ir views/depth.sql
\ir views/queue_depths.sql
\ir views/lag_by_partition.sql
\ir views/lag.sql
\ir views/set_aside.sql
\ir views/unread.sql

-- Who may call and read what.
\ir grants.sql
