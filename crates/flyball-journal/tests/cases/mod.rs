//! The cases of the conformance suite, in terms of the contract alone.

mod approvals;
mod desk;
mod engine;
mod sessions;
mod shelf;

pub(crate) use approvals::{
    a_blocked_call_is_judged_anew_once_it_is_approved, an_id_cannot_pretend_to_be_a_later_judgement,
    blocked_calls_wait_in_one_row,
};
pub(crate) use desk::{
    a_dead_errand_can_be_tried_again, a_held_session_that_ended_still_waits_for_a_release,
    a_label_comes_with_a_block_and_goes_with_a_release, a_plan_that_waits_has_exactly_one_row,
    a_row_is_replaced_by_the_next_plan, an_errand_is_claimed_by_one_and_settled_once,
    lists_show_who_is_blocked_waiting_and_struggling, pruning_never_resets_a_live_counter,
    pruning_takes_what_has_ended,
};
pub(crate) use engine::{
    a_lease_fences_by_epoch, a_stale_change_is_refused_and_changes_nothing,
    a_unit_is_stored_whole_or_not_at_all, one_stale_unit_does_not_keep_the_others_back,
    since_gives_every_event_once_and_in_order, what_was_appended_is_loaded,
};
pub(crate) use sessions::{
    a_child_draws_on_its_parent_across_restarts, a_lost_lease_is_told_to_the_worker,
    a_refused_event_leaves_nothing_behind, a_reused_call_id_is_stored_and_counted,
    a_session_may_be_leased_before_its_first_event, an_id_is_answered_as_it_was_however_long_ago,
    an_id_is_known_at_every_distance, an_id_is_known_behind_a_long_batch,
    an_id_with_another_body_is_a_conflict, another_policy_goes_on_from_the_same_state,
    everything_stored_verifies, two_recorders_on_one_session_never_lose_or_double,
};
pub(crate) use shelf::{a_note_is_put_on_a_condition_and_taken_by_one, a_note_that_is_void_is_not_there};
