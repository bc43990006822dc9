//! `flyball policy`: what a person decides about the policy of a session.
//!
//! A session is pinned to the policy that it started under. A newer policy tightens it at once; what it would loosen
//! waits until a person accepts it here.

use super::word::Word;
use crate::args::{AcceptPolicy, PolicyAct, PolicyCommand};
use crate::fail::{Exit, Failure};
use crate::load;
use crate::person;
use crate::store;
use crate::words::typed;
use flyball::Preset;
use flyball_journal::{PolicyChanges, Recorder, RecorderOptions};
use serde_json::json;

/// Runs the command.
pub(crate) fn run(args: &PolicyCommand) -> Result<Exit, Failure> {
    match &args.act {
        PolicyAct::Accept(args) => accept(args),
    }
}

fn accept(args: &AcceptPolicy) -> Result<Exit, Failure> {
    person::speaks(&args.session)?;
    let desk = store::open(&args.who.store)?;
    if flyball_view::whereabouts::file_of(desk.as_ref(), &args.session)?.is_some() {
        let what = "this session is a run, and takes the policy that it is resumed with";
        let advice = format!("flyball resume {}", typed(&args.session));
        return Err(Failure::new("policy_of_a_run", "", what, advice));
    }
    let source = load::source(&args.who.policy, Preset::Agent)?;
    let options = RecorderOptions { policy_changes: PolicyChanges::Accept, ..RecorderOptions::default() };
    let recorder = Recorder::new(desk, source, options);
    let mut word = Word::over(recorder, &args.who, &args.session, args.by.as_deref())?;
    let decision = word.submit(json!({"type": "policy.changed", "why": args.why}))?;
    word.tell(&decision, &["Accepted: the session is under the present policy from now on.".to_owned()])
}
