//! Conformance suite: the same cases on every engine.
//!
//! The PostgreSQL cases need a server (`FLYBALL_TEST_POSTGRES`, set by `cargo xtask test`); without one they print
//! `skipped`.
//!
//! `flyball-cli/tests/conformance.rs` shows that every path to these engines decides and stores the same.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic is how a test fails")]

mod cases;
mod common;

use common::{MemoryTestStore, SqliteTestStore, TestStore, postgres_test_store};

macro_rules! conformance {
    ($($case:ident),+ $(,)?) => {
        mod in_memory {
            use super::*;
            $(#[test] fn $case() { cases::$case(&MemoryTestStore::new()); })+
        }
        mod in_a_file {
            use super::*;
            $(#[test] fn $case() { cases::$case(&SqliteTestStore::new(stringify!($case))); })+
        }
        mod on_a_server {
            use super::*;
            $(#[test] fn $case() {
                if let Some(place) = postgres_test_store() {
                    cases::$case(&place as &dyn TestStore);
                }
            })+
        }
    };
}

conformance!(
    appended_session_is_loaded_back,
    stale_change_is_rejected_without_effect,
    append_unit_is_atomic,
    stale_unit_does_not_block_others,
    lease_fences_older_epochs,
    append_after_losing_the_lease_is_rejected,
    session_can_be_leased_before_its_first_event,
    old_event_id_gets_its_original_answer,
    event_id_is_recognized_at_every_distance,
    event_id_is_recognized_behind_a_long_batch,
    event_id_with_another_body_is_a_conflict,
    reused_call_id_is_stored_and_counted,
    events_since_returns_every_event_once_in_order,
    blocked_calls_wait_in_one_row,
    blocked_call_is_reevaluated_once_approved,
    id_cannot_spoof_a_later_evaluation,
    outbox_message_is_claimed_by_one_and_delivered_once,
    dead_outbox_message_can_be_retried,
    pending_plan_has_exactly_one_confirmation_row,
    confirmation_row_is_replaced_by_the_next_plan,
    label_is_set_by_a_block_and_cleared_by_a_release,
    pruning_never_resets_counters_of_live_sessions,
    pruning_removes_ended_sessions,
    held_session_that_ended_still_needs_a_release,
    child_uses_parent_budget_across_restarts,
    stricter_policy_continues_from_the_same_state,
    two_recorders_on_one_session_store_every_event_once,
    session_filters_select_blocked_awaiting_and_warned,
    rejected_event_leaves_no_trace,
    stored_sessions_verify,
    kv_put_honors_precondition_and_take_is_exclusive,
    expired_kv_entry_is_absent,
);
