//! Branches side by side, and where they meet again.
//!
//! Each branch is a session of its own below the one that branched, so that a halt stops its loop and not the others.
//! All of them draw on the same budget. When enough have arrived, the others are stopped.

use super::stop::{Outcome, Status, Stop};
use super::walk::{Arrival, Walk};
use crate::fail::Failure;
use crate::process::Cancel;
use crate::workflow::spec::{Join, Span, Wait};
use crate::workflow::{Node, Work};
use flyball::{Event, Kind, Verdict};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How often those who wait for branches look whether the whole run is to stop.
const GLANCE: Duration = Duration::from_millis(50);

/// How a branch came to its end.
struct Came {
    name: String,
    walk: Walk,
    how: Result<Arrival, Stop>,
}

/// Branches that are under way.
struct Under {
    open: usize,
    stops: Vec<Cancel>,
    take: mpsc::Receiver<Came>,
}

impl Walk {
    /// Walks branches side by side until enough of them have come to the join; gives its name.
    pub(super) fn fork(&mut self, node: &Node, branches: &[String]) -> Result<String, Stop> {
        let world = Arc::clone(&self.world);
        self.lane.settle()?;
        let join = join_of(self, branches)?;
        let Some(Work::Join(spec)) = world.plan.nodes.get(&join).map(|node| &node.work) else {
            return Err(
                Failure::new("workflow_no_join", "the branches do not meet", "lead them to a join").into()
            );
        };
        // In a run that is taken up again, it is known who arrived: the others were stopped then, and stay stopped.
        let arrived = self.lane.upcoming(&join).map(arrived_of);
        let walked: Vec<&String> = branches
            .iter()
            .filter(|name| arrived.as_ref().is_none_or(|arrived| arrived.contains(name)))
            .collect();
        let visit = self.visits.get(&node.name).copied().unwrap_or(1);
        let (give, take) = mpsc::channel();
        let mut under = Under { open: walked.len(), stops: Vec::new(), take };
        for name in walked {
            let mut walk = self.child(&format!("{name}.{visit}"))?;
            walk.cancel = Cancel::new();
            under.stops.push(walk.cancel.clone());
            let (give, name, join, from) = (give.clone(), name.clone(), join.clone(), node.name.clone());
            std::thread::spawn(move || {
                let how = walk.enter(&from, &name).and_then(|()| walk.walk(&name, Some(&join)));
                // If nobody waits any more, the branch is over all the same.
                let _ = give.send(Came { name, walk, how });
            });
        }
        drop(give);
        let gathered = self.gather(spec, branches.len(), under, arrived.is_some());
        // The branches have drawn on the budget of this session.
        self.lane.look_again();
        gathered.map(|()| join)
    }

    /// The first step of a branch.
    fn enter(&mut self, from: &str, to: &str) -> Result<(), Stop> {
        let kind = Kind::TransitionRequested { from: from.to_owned(), to: to.to_owned(), edge: None };
        let past = self.ask(&Event::new("", kind))?;
        if past.decision.decision >= Verdict::Block {
            return Err(Stop::Blocked { decision: Box::new(past.decision), alternatives: Vec::new() });
        }
        Ok(())
    }

    /// Waits for as many branches as the join wants. A branch that stopped keeps only its own join from going on.
    fn gather(&mut self, spec: &Join, all: usize, mut under: Under, known: bool) -> Result<(), Stop> {
        let wanted = match spec.wait {
            _ if known => under.open,
            Wait::All => all,
            Wait::Any => 1,
            Wait::Quorum => usize::try_from(spec.count.unwrap_or(1)).unwrap_or(all).clamp(1, all),
        };
        let time = spec.timeout.as_ref().and_then(Span::millis).filter(|_| !known);
        let until = time.map(|millis| Instant::now() + Duration::from_millis(millis));
        let mut arrived: Vec<String> = Vec::new();
        let mut stop: Option<Stop> = None;
        let mut late = false;
        while under.open > 0 && arrived.len() < wanted && !late {
            late = until.is_some_and(|until| Instant::now() >= until);
            if self.cancel.is_cancelled() {
                break;
            }
            let Ok(Came { name, walk, how }) = under.take.recv_timeout(GLANCE) else { continue };
            under.open -= 1;
            match how {
                Ok(_) => {
                    self.vars.merge(&walk.vars);
                    arrived.push(name);
                }
                Err(why) => {
                    stop.get_or_insert(why);
                }
            }
        }
        // Nobody works on in the background for a join that has gone on.
        under.stops.iter().for_each(Cancel::cancel);
        while under.open > 0 && under.take.recv().is_ok() {
            under.open -= 1;
        }
        if arrived.len() < wanted && !late {
            return Err(stop.unwrap_or(Stop::Interrupted));
        }
        arrived.sort();
        self.vars.set("arrived", json!(arrived));
        self.vars.set("late", json!(late));
        Ok(())
    }

    /// The join itself: which branches arrived is recorded, because it may be another one the next time.
    pub(super) fn join(&mut self, node: &Node, branches: &[String]) -> Result<Outcome, Stop> {
        *self.visits.entry(node.name.clone()).or_insert(0) += 1;
        let arrived: Vec<String> = self
            .vars
            .get("arrived")
            .and_then(|list| serde_json::from_value(list.clone()).ok())
            .unwrap_or_default();
        let late = self.vars.get("late") == Some(&Value::Bool(true));
        let missing: BTreeSet<&String> = branches.iter().filter(|name| !arrived.contains(name)).collect();
        let status = if late { Status::PartialSuccess } else { Status::Success };
        let kind = Kind::TurnFinished {
            output: Some(format!("{} of {} branches arrived", arrived.len(), branches.len())),
            structured: Some(json!({"arrived": arrived, "missing": missing})),
            duration_ms: None,
        };
        let mut event = Event::new("", kind).node(node.name.clone());
        event.extra.insert("outcome".to_owned(), json!(status));
        let past = self.tell(event)?;
        let Kind::TurnFinished { output, structured, .. } = past.event.kind else {
            return Ok(Outcome::failure(""));
        };
        let status = past.event.extra.get("outcome").cloned();
        let status = status.and_then(|status| serde_json::from_value(status).ok()).unwrap_or(status_of(late));
        let outcome = Outcome { status, output: output.unwrap_or_default(), structured, to: None };
        Ok(outcome)
    }
}

const fn status_of(late: bool) -> Status {
    if late { Status::PartialSuccess } else { Status::Success }
}

/// The join where branches meet.
fn join_of(walk: &Walk, branches: &[String]) -> Result<String, Stop> {
    let plan = &walk.world.plan;
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut open: Vec<String> = branches.to_vec();
    while let Some(name) = open.pop() {
        let Some(node) = plan.nodes.get(&name) else { continue };
        if matches!(node.work, Work::Join(_)) {
            return Ok(name);
        }
        if seen.insert(name) {
            open.extend(node.targets());
        }
    }
    Err(Failure::new("workflow_no_join", "the branches do not meet", "lead them to a join").into())
}

fn arrived_of(event: &Event) -> Vec<String> {
    let Kind::TurnFinished { structured: Some(structured), .. } = &event.kind else { return Vec::new() };
    structured.get("arrived").and_then(|list| serde_json::from_value(list.clone()).ok()).unwrap_or_default()
}
