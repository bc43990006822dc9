//! The rows that a scenario leaves in a store: the session row, its events, the pending plan, the label and the outbox.

use crate::scenario_table::{ExpectedAnswer, Scenario};
use flyball_store::{AdminStore, OutboxState, StoreAddress};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// Delivers every effect to a program that accepts it, so that each one leaves an outbox row.
pub(crate) const DELIVERY_POLICY: &str =
    "journal: {deliver: [{effects: [\"*\"], command: [\"true\"], timeout: 60s}]}\n";

/// Number of outbox rows that are read.
const MAX_OUTBOX_ROWS: usize = 100_000;

/// A store after the scenarios.
pub(crate) struct StoreRows {
    store: Arc<dyn AdminStore>,
    /// Session, key and effect of every outbox row.
    outbox: Vec<(String, String, String)>,
}

impl StoreRows {
    /// Opens a file in a test's folder.
    pub(crate) fn sqlite(folder: &str, file: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder).join(file);
        StoreRows::open(&format!("sqlite:{}", path.display()))
    }

    /// Opens a store by address.
    pub(crate) fn open(address: &str) -> Self {
        let store = StoreAddress::parse(address, Path::new("/")).unwrap().open_existing().unwrap();
        let mut outbox = Vec::new();
        for state in [OutboxState::Waiting, OutboxState::Done, OutboxState::Dead] {
            let rows = store.outbox_messages(state, MAX_OUTBOX_ROWS).unwrap();
            // The effect's key without the sink's name.
            let key = |row: &flyball_store::OutboxMessage| {
                row.key.rsplit_once('/').map_or("", |(key, _)| key).to_owned()
            };
            outbox.extend(rows.into_iter().map(|row| (row.session.clone(), key(&row), row.effect)));
        }
        outbox.sort();
        StoreRows { store, outbox }
    }

    /// Events and decisions of a session, starting with event `from`.
    pub(crate) fn records(&self, session: &str, from: u64) -> Vec<(Value, Value)> {
        let records = self.store.records(session, from, u64::MAX >> 1).unwrap();
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        records.iter().map(|record| (json(&record.text), json(&record.decision_json))).collect()
    }

    /// The errors in a session's rows, which must follow from its stored decisions.
    pub(crate) fn errors_from_stored_decisions(&self, scenario: &Scenario, session: &str) -> Vec<String> {
        let sessions = [(session.to_owned(), false), (format!("{session}/child"), true)];
        let there =
            sessions.into_iter().filter(|(_, child)| scenario.steps.iter().any(|step| step.child == *child));
        let found = there.flat_map(|(session, _)| {
            let stored: Vec<Value> =
                self.records(&session, 1).into_iter().map(|(_, decision)| decision).collect();
            self.derived_row_errors(&session, &stored.iter().collect::<Vec<_>>())
        });
        found.collect()
    }

    /// The errors in the rows of a scenario whose events got these answers.
    pub(crate) fn row_errors(&self, scenario: &Scenario, session: &str, answers: &[Value]) -> Vec<String> {
        let mut sessions = vec![(session.to_owned(), false)];
        if scenario.steps.iter().any(|step| step.child) {
            sessions.push((format!("{session}/child"), true));
        }
        let found = sessions.into_iter().flat_map(|(session, child)| {
            let expected_answers: Vec<(&ExpectedAnswer, &Value)> = scenario
                .steps
                .iter()
                .zip(answers)
                .filter(|(step, _)| step.child == child)
                .map(|(step, answer)| (&step.expected, answer))
                .collect();
            self.event_errors(&session, &expected_answers)
        });
        found.collect()
    }

    fn event_errors(&self, session: &str, expected_answers: &[(&ExpectedAnswer, &Value)]) -> Vec<String> {
        let mut found = Vec::new();
        let decisions: Vec<&Value> = expected_answers
            .iter()
            .filter(|(want, _)| matches!(want, ExpectedAnswer::Decision { .. }))
            .map(|(_, answer)| *answer)
            .collect();
        let stored: Vec<Value> = self.records(session, 1).into_iter().map(|(_, decision)| decision).collect();
        if stored.iter().collect::<Vec<_>>() != decisions {
            found.push(format!(
                "{} events with other decisions are stored, expected {}",
                stored.len(),
                decisions.len()
            ));
        }
        found.extend(self.derived_row_errors(session, &decisions));
        found
    }

    fn derived_row_errors(&self, session: &str, decisions: &[&Value]) -> Vec<String> {
        let mut found = self.session_row_errors(session, decisions);
        let effects =
            decisions.iter().flat_map(|decision| decision["effects"].as_array().cloned().unwrap_or_default());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut wanted: Vec<(String, String, String)> = effects
            .map(|effect| (session.to_owned(), text(&effect["key"]), text(&effect["effect"])))
            .collect();
        wanted.sort();
        let outbox: Vec<_> = self.outbox.iter().filter(|(whose, ..)| whose == session).cloned().collect();
        if outbox != wanted {
            found.push(format!("the outbox contains {outbox:?}, expected {wanted:?}"));
        }
        found
    }

    /// Errors in the session row, which must match the last decision; a pending plan and a set label have rows.
    fn session_row_errors(&self, session: &str, decisions: &[&Value]) -> Vec<String> {
        let Some(loaded) = self.store.load(session).unwrap() else {
            return vec!["no session is stored".to_owned()];
        };
        let mut found = Vec::new();
        let summary = &loaded.head.summary;
        let state = decisions.last().and_then(|decision| decision["state"].as_str()).unwrap_or("running");
        if summary.status.as_str() != state {
            found.push(format!("the session is stored as {}, expected {state}", summary.status.as_str()));
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
        let row = self.store.pending(session).unwrap();
        if row.is_some() != waits {
            found.push(format!("`session_state` has a row: {}, expected: {waits}", row.is_some()));
        }
        if summary.label != label {
            found.push(format!("the label is {:?}, expected {label:?}", summary.label));
        }
        found
    }
}
