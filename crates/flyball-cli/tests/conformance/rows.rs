//! The rows that a scenario leaves in a store: the session's head, its events, the plan that waits, the label, the outbox.

use crate::table::{Scenario, Want};
use flyball_journal::{Address, Desk, ErrandState};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// Sends every effect to a program that takes it, so that each one leaves a row in the outbox.
pub(crate) const EVERYTHING_IS_DELIVERED: &str =
    "journal: {deliver: [{effects: [\"*\"], command: [\"true\"], timeout: 60s}]}\n";

/// How many rows of the outbox are looked through.
const OUTBOX_ROWS: usize = 100_000;

/// A store after the scenarios.
pub(crate) struct Store {
    desk: Arc<dyn Desk>,
    /// Session, key and effect of every row in the outbox.
    outbox: Vec<(String, String, String)>,
}

impl Store {
    /// A file in the folder of a test.
    pub(crate) fn sqlite(folder: &str, file: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder).join(file);
        Store::open(&format!("sqlite:{}", path.display()))
    }

    /// A store by its address.
    pub(crate) fn open(address: &str) -> Self {
        let desk = Address::read(address, Path::new("/")).unwrap().open_existing().unwrap();
        let mut outbox = Vec::new();
        for state in [ErrandState::Waiting, ErrandState::Done, ErrandState::Dead] {
            let rows = desk.errands(state, OUTBOX_ROWS).unwrap();
            // The key of the effect, without the name of the sink that it goes to.
            let key = |row: &flyball_journal::Errand| {
                row.key.rsplit_once('/').map_or("", |(key, _)| key).to_owned()
            };
            outbox.extend(rows.into_iter().map(|row| (row.session.clone(), key(&row), row.effect)));
        }
        outbox.sort();
        Store { desk, outbox }
    }

    /// Events and decisions of a session, from one of them on.
    pub(crate) fn records(&self, session: &str, from: u64) -> Vec<(Value, Value)> {
        let records = self.desk.records(session, from, u64::MAX >> 1).unwrap();
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        records.iter().map(|record| (json(&record.text), json(&record.decision))).collect()
    }

    /// What is wrong with the rows of a session beside its events: they must follow from the decisions that are stored.
    pub(crate) fn faults_as_stored(&self, scenario: &Scenario, session: &str) -> Vec<String> {
        let sessions = [(session.to_owned(), false), (format!("{session}/child"), true)];
        let there =
            sessions.into_iter().filter(|(_, child)| scenario.steps.iter().any(|step| step.child == *child));
        let found = there.flat_map(|(session, _)| {
            let stored: Vec<Value> =
                self.records(&session, 1).into_iter().map(|(_, decision)| decision).collect();
            self.faults_beside(&session, &stored.iter().collect::<Vec<_>>())
        });
        found.collect()
    }

    /// What is wrong with the rows of a scenario whose events were answered like this.
    pub(crate) fn faults(&self, scenario: &Scenario, session: &str, answers: &[Value]) -> Vec<String> {
        let mut sessions = vec![(session.to_owned(), false)];
        if scenario.steps.iter().any(|step| step.child) {
            sessions.push((format!("{session}/child"), true));
        }
        let found = sessions.into_iter().flat_map(|(session, child)| {
            let told: Vec<(&Want, &Value)> = scenario
                .steps
                .iter()
                .zip(answers)
                .filter(|(step, _)| step.child == child)
                .map(|(step, answer)| (&step.want, answer))
                .collect();
            self.faults_of(&session, &told)
        });
        found.collect()
    }

    fn faults_of(&self, session: &str, told: &[(&Want, &Value)]) -> Vec<String> {
        let mut found = Vec::new();
        let decisions: Vec<&Value> = told
            .iter()
            .filter(|(want, _)| matches!(want, Want::Decision { .. }))
            .map(|(_, answer)| *answer)
            .collect();
        let stored: Vec<Value> = self.records(session, 1).into_iter().map(|(_, decision)| decision).collect();
        if stored.iter().collect::<Vec<_>>() != decisions {
            found.push(format!(
                "{} events with other decisions are stored, wanted {}",
                stored.len(),
                decisions.len()
            ));
        }
        found.extend(self.faults_beside(session, &decisions));
        found
    }

    fn faults_beside(&self, session: &str, decisions: &[&Value]) -> Vec<String> {
        let mut found = self.head_faults(session, decisions);
        let effects =
            decisions.iter().flat_map(|decision| decision["effects"].as_array().cloned().unwrap_or_default());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut wanted: Vec<(String, String, String)> = effects
            .map(|effect| (session.to_owned(), text(&effect["key"]), text(&effect["effect"])))
            .collect();
        wanted.sort();
        let outbox: Vec<_> = self.outbox.iter().filter(|(whose, ..)| whose == session).cloned().collect();
        if outbox != wanted {
            found.push(format!("the outbox has {outbox:?}, wanted {wanted:?}"));
        }
        found
    }

    /// The head says what the last decision says; a plan has a row while it waits, and a label while it is set.
    fn head_faults(&self, session: &str, decisions: &[&Value]) -> Vec<String> {
        let Some(loaded) = self.desk.load(session).unwrap() else {
            return vec!["no session is stored".to_owned()];
        };
        let mut found = Vec::new();
        let glance = &loaded.head.glance;
        let state = decisions.last().and_then(|decision| decision["state"].as_str()).unwrap_or("running");
        if glance.status.as_str() != state {
            found.push(format!("the session is stored as {}, wanted {state}", glance.status.as_str()));
        }
        let (mut waits, mut label) = (false, None);
        for decision in decisions {
            waits |= decision["state"] == "awaiting_confirmation";
            for effect in decision["effects"].as_array().into_iter().flatten() {
                match effect["effect"].as_str().unwrap_or_default() {
                    "label.added" => label = effect["label"].as_str().map(str::to_owned),
                    "label.removed" => label = None,
                    "plan.approved" | "plan.rejected" | "plan.expired" | "plan.aborted" => waits = false,
                    "plan.replaced" => waits = decision["state"] == "awaiting_confirmation",
                    _ => {}
                }
            }
        }
        let row = self.desk.pending(session).unwrap();
        if row.is_some() != waits {
            found.push(format!("`session_state` has a row: {}, wanted: {waits}", row.is_some()));
        }
        if glance.label != label {
            found.push(format!("the label is {:?}, wanted {label:?}", glance.label));
        }
        found
    }
}
