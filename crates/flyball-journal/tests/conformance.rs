//! What every engine must do: the same cases on each of them.
//!
//! The PostgreSQL cases need a server (`FLYBALL_TEST_POSTGRES`, set by `cargo xtask test`); without one they say so.
//!
//! That every path to these engines decides and stores the same is shown by `flyball-cli/tests/conformance.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test that is how a failure is told"
)]

mod cases;
mod kit;

use kit::{InFile, InMemory, Place, on_server};

macro_rules! conformance {
    ($($case:ident),+ $(,)?) => {
        mod in_memory {
            use super::*;
            $(#[test] fn $case() { cases::$case(&InMemory::new()); })+
        }
        mod in_a_file {
            use super::*;
            $(#[test] fn $case() { cases::$case(&InFile::new(stringify!($case))); })+
        }
        mod on_a_server {
            use super::*;
            $(#[test] fn $case() {
                if let Some(place) = on_server() {
                    cases::$case(&place as &dyn Place);
                }
            })+
        }
    };
}

conformance!(
    what_was_appended_is_loaded,
    a_stale_change_is_refused_and_changes_nothing,
    a_unit_is_stored_whole_or_not_at_all,
    one_stale_unit_does_not_keep_the_others_back,
    a_lease_fences_by_epoch,
    a_lost_lease_is_told_to_the_worker,
    a_session_may_be_leased_before_its_first_event,
    an_id_is_answered_as_it_was_however_long_ago,
    an_id_is_known_at_every_distance,
    an_id_is_known_behind_a_long_batch,
    an_id_with_another_body_is_a_conflict,
    a_reused_call_id_is_stored_and_counted,
    since_gives_every_event_once_and_in_order,
    blocked_calls_wait_in_one_row,
    a_blocked_call_is_judged_anew_once_it_is_approved,
    an_id_cannot_pretend_to_be_a_later_judgement,
    an_errand_is_claimed_by_one_and_settled_once,
    a_dead_errand_can_be_tried_again,
    a_plan_that_waits_has_exactly_one_row,
    a_row_is_replaced_by_the_next_plan,
    a_label_comes_with_a_block_and_goes_with_a_release,
    pruning_never_resets_a_live_counter,
    pruning_takes_what_has_ended,
    a_held_session_that_ended_still_waits_for_a_release,
    a_child_draws_on_its_parent_across_restarts,
    another_policy_goes_on_from_the_same_state,
    two_recorders_on_one_session_never_lose_or_double,
    lists_show_who_is_blocked_waiting_and_struggling,
    a_refused_event_leaves_nothing_behind,
    everything_stored_verifies,
    a_note_is_put_on_a_condition_and_taken_by_one,
    a_note_that_is_void_is_not_there,
);
