//! `flyball policy`: a person's decisions about a session's policy.
//!
//! A session is pinned to the policy it started under. Tightened values of a newer policy apply at once; loosened ones
//! apply only after a person accepts them here.

use super::operator_event::OperatorEvent;
use crate::args::{AcceptPolicyArgs, PolicyAction, PolicyCommandArgs};
use crate::caller_check;
use crate::error::{CliError, Exit};
use crate::formatting::typed;
use crate::policy_loader;
use crate::store;
use flyball::Preset;
use flyball_store::{PolicyChangeMode, Recorder, RecorderOptions};
use serde_json::json;

/// Runs the command.
pub(crate) fn run(args: &PolicyCommandArgs) -> Result<Exit, CliError> {
    match &args.action {
        PolicyAction::Accept(args) => accept_policy(args),
    }
}

fn accept_policy(args: &AcceptPolicyArgs) -> Result<Exit, CliError> {
    caller_check::require_person(&args.session)?;
    let store = store::open(&args.common.store)?;
    if flyball_view::run_status::workflow_file_of(store.as_ref(), &args.session)?.is_some() {
        let what = "this session is a run and uses the policy it is resumed with";
        let help = format!("flyball resume {}", typed(&args.session));
        return Err(CliError::new("accept_not_for_runs", "", what, help));
    }
    let source = policy_loader::source(&args.common.policy, Preset::Agent)?;
    let options = RecorderOptions { policy_changes: PolicyChangeMode::Accept, ..RecorderOptions::default() };
    let recorder = Recorder::new(store, source, options);
    let mut operator_event =
        OperatorEvent::with_recorder(recorder, &args.common, &args.session, args.by.as_deref())?;
    let decision = operator_event.submit(json!({"type": "policy.changed", "why": args.why}))?;
    operator_event
        .print_decision(&decision, &["Accepted: the session now uses the current policy.".to_owned()])
}
