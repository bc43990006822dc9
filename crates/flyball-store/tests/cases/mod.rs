//! The cases of the conformance suite, which use only the store traits.

mod admin;
mod approvals;
mod engine;
mod kv;
mod sessions;

pub(crate) use admin::{
    confirmation_row_is_replaced_by_the_next_plan, dead_outbox_message_can_be_retried,
    held_session_that_ended_still_needs_a_release, label_is_set_by_a_block_and_cleared_by_a_release,
    outbox_message_is_claimed_by_one_and_delivered_once, pending_plan_has_exactly_one_confirmation_row,
    pruning_never_resets_counters_of_live_sessions, pruning_removes_ended_sessions,
    session_filters_select_blocked_awaiting_and_warned,
};
pub(crate) use approvals::{
    blocked_call_is_reevaluated_once_approved, blocked_calls_wait_in_one_row,
    id_cannot_spoof_a_later_evaluation,
};
pub(crate) use engine::{
    append_unit_is_atomic, appended_session_is_loaded_back, events_since_returns_every_event_once_in_order,
    lease_fences_older_epochs, stale_change_is_rejected_without_effect, stale_unit_does_not_block_others,
};
pub(crate) use kv::{expired_kv_entry_is_absent, kv_put_honors_precondition_and_take_is_exclusive};
pub(crate) use sessions::{
    append_after_losing_the_lease_is_rejected, child_uses_parent_budget_across_restarts,
    event_id_is_recognized_at_every_distance, event_id_is_recognized_behind_a_long_batch,
    event_id_with_another_body_is_a_conflict, old_event_id_gets_its_original_answer,
    rejected_event_leaves_no_trace, reused_call_id_is_stored_and_counted,
    session_can_be_leased_before_its_first_event, stored_sessions_verify,
    stricter_policy_continues_from_the_same_state, two_recorders_on_one_session_store_every_event_once,
};
