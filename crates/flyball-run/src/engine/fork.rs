//! Branches side by side, and where they meet again.
//!
//! Each branch is a session of its own below the one that branched, so that a halt stops its loop and not the others.
//! All of them draw on the same budget. When enough have arrived, the others are stopped.

use super::lane::Lane;
use super::stop::{Outcome, Status, Stop};
use super::walk::{Arrival, Walk, finished};
use crate::fail::Failure;
use crate::process::Cancel;
use crate::workflow::spec::{Join, Span, Wait};
use crate::workflow::{Node, Work, join_of};
use flyball::{Event, Kind, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
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

/// The field of the step to a join that tells what became of the branches.
pub(super) const MET: &str = "met";

/// What became of the branches that lead to a join.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Met {
    /// All that there are, in the order of the file.
    all: Vec<String>,
    /// Those that have come to the join.
    arrived: Vec<String>,
    /// The join did not wait for the others: its time was up.
    late: bool,
    /// How many the join wanted.
    wanted: usize,
    /// Which visit of the node that branched this was: it is part of the names of their sessions.
    visit: u64,
}

impl Walk {
    /// Walks branches side by side until enough of them have come to the join; gives its name, and who came.
    pub(super) fn fork(&mut self, node: &Node, branches: &[String]) -> Result<(String, Met), Stop> {
        let world = Arc::clone(&self.world);
        self.lane.settle()?;
        let no_join = || Failure::new("workflow_no_join", "the branches do not meet", "lead them to a join");
        let join = join_of(&world.plan.nodes, branches).ok_or_else(no_join)?;
        let Some(Work::Join(spec)) = world.plan.nodes.get(&join).map(|node| &node.work) else {
            return Err(no_join().into());
        };
        // In a run that is taken up again, it is known who arrived: the others were stopped then, and stay stopped.
        let known: Option<Met> = self
            .lane
            .upcoming_step(&node.name, &join)
            .and_then(|event| serde_json::from_value(event.extra.get(MET)?.clone()).ok());
        let arrived = |name: &&String| known.as_ref().is_none_or(|known| known.arrived.contains(name));
        let walked: Vec<&String> = branches.iter().filter(arrived).collect();
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
                let how = how.and_then(|arrival| walk.end(arrival.outcome()).map(|()| arrival));
                // If nobody waits any more, the branch is over all the same.
                let _ = give.send(Came { name, walk, how });
            });
        }
        drop(give);
        let gathered = match known {
            Some(met) => self.gather_again(branches, met, under),
            None => self.gather(spec, branches, visit, under),
        };
        // The branches have drawn on the budget of this session.
        self.lane.look_again();
        let met = gathered?;
        Ok((join, met))
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

    /// Waits for as many branches as the join wants. A branch that was stopped keeps its join from going on; one that
    /// has failed is over.
    fn gather(
        &mut self,
        spec: &Join,
        branches: &[String],
        visit: u64,
        mut under: Under,
    ) -> Result<Met, Stop> {
        let all = branches.len();
        let wanted = match spec.wait {
            Wait::All => all,
            Wait::Any => 1,
            Wait::Quorum => usize::try_from(spec.count.unwrap_or(1)).unwrap_or(all).clamp(1, all),
        };
        let time = spec.timeout.as_ref().and_then(Span::millis);
        let until = time.map(|millis| Instant::now() + Duration::from_millis(millis));
        let mut came: Vec<Came> = Vec::new();
        let mut stop: Option<Stop> = None;
        let mut late = false;
        while under.open > 0 && came.len() < wanted && !late {
            late = until.is_some_and(|until| Instant::now() >= until);
            if self.cancel.is_cancelled() {
                break;
            }
            let Ok(one) = under.take.recv_timeout(GLANCE) else { continue };
            under.open -= 1;
            match one.how {
                Ok(Arrival::Join) => came.push(one),
                Ok(Arrival::End(_)) => {}
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
        if self.cancel.is_cancelled() && came.len() < wanted {
            return Err(Stop::Interrupted);
        }
        if let Some(stop) = stop.filter(|_| came.len() < wanted && !late) {
            return Err(stop);
        }
        let late = late && came.len() < wanted;
        let arrived = self.bring_together(branches, came);
        Ok(Met { all: branches.to_vec(), arrived, late, wanted, visit })
    }

    /// The same in a run that is taken up again: those who arrived then arrive again, out of their histories.
    fn gather_again(&mut self, branches: &[String], met: Met, under: Under) -> Result<Met, Stop> {
        let mut came: Vec<Came> = Vec::new();
        while let Ok(one) = under.take.recv() {
            match one.how {
                Err(stop) => return Err(stop),
                Ok(_) => came.push(one),
            }
        }
        self.bring_together(branches, came);
        Ok(met)
    }

    /// Takes over what the branches have found out, in the order of the file, whoever came first.
    fn bring_together(&mut self, branches: &[String], mut came: Vec<Came>) -> Vec<String> {
        came.sort_by_key(|one| branches.iter().position(|name| *name == one.name));
        let before = self.vars.clone();
        for one in &came {
            self.vars.merge(&before, &one.walk.vars);
            self.lane.messages.merge(&one.walk.lane.messages);
            for (name, talk) in &one.walk.talks {
                if self.talks.get(name) != Some(talk) {
                    self.talks.insert(name.clone(), talk.clone());
                }
            }
            raise(&mut self.visits, &one.walk.visits);
            raise(&mut self.turns, &one.walk.turns);
        }
        came.into_iter().map(|one| one.name).collect()
    }

    /// The join itself.
    pub(super) fn join(&mut self, node: &Node, met: &Met) -> Result<Outcome, Stop> {
        *self.visits.entry(node.name.clone()).or_insert(0) += 1;
        let missing: BTreeSet<&String> = met.all.iter().filter(|name| !met.arrived.contains(name)).collect();
        let status = if met.late {
            Status::PartialSuccess
        } else if met.arrived.len() < met.wanted {
            Status::Failure
        } else {
            Status::Success
        };
        let kind = Kind::TurnFinished {
            output: Some(format!("{} of {} branches arrived", met.arrived.len(), met.all.len())),
            structured: Some(json!({"arrived": met.arrived, "missing": missing})),
            duration_ms: None,
        };
        let mut event = Event::new("", kind).node(node.name.clone());
        event.extra.insert("outcome".to_owned(), json!(status));
        let past = self.tell(event)?;
        // Now that it is stored who arrived, the others are over for good.
        for name in missing {
            let session = self.below(&format!("{name}.{}", met.visit));
            Lane::open(&self.world.book, &self.world.watcher, &session)?.close("abandoned")?;
        }
        Ok(finished(&past.event))
    }
}

/// Takes over counts that have grown.
fn raise(counts: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (name, count) in more {
        let own = counts.entry(name.clone()).or_insert(0);
        *own = (*own).max(*count);
    }
}
