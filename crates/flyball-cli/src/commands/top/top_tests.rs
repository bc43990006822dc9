//! Tests of the row order and of the columns shown on narrow terminals.

use super::session_reader::{Attention, LastDecision, TopSession};
use super::{TopTable, as_json, fit_columns, order_sessions, screen_rows, table_lines};
use crate::live_screen::TerminalSize;
use flyball::Verdict;
use flyball_store::{SessionRow, SessionSummary};
use flyball_view::{SessionActivity, SessionStatus};
use std::collections::BTreeMap;

fn session(
    name: &str,
    parent: Option<&str>,
    status: SessionStatus,
    need: Attention,
    updated: u64,
) -> TopSession {
    let summary = SessionSummary { parent: parent.map(str::to_owned), ..SessionSummary::default() };
    TopSession {
        row: SessionRow { session: name.to_owned(), updated, summary, ..SessionRow::default() },
        attention: need,
        activity: SessionActivity { status, is_held: false, idle_ms: None, question: None },
        node: Some("coder".to_owned()),
        badge: Some("Loop 3/8".to_owned()),
        loops: Vec::new(),
        trend: Some("failing tests 7 → 4 → 2".to_owned()),
        trends: BTreeMap::new(),
        tokens: 4_455,
        cost_micro_usd: 1_500_000,
        halt_reason: None,
        last: Some(LastDecision {
            seq: 3,
            decision: Verdict::Block,
            message: "completion blocked by tests".to_owned(),
        }),
        error: None,
    }
}

fn sample_table() -> TopTable {
    let rows = vec![
        session("over", None, SessionStatus::Ended, Attention::Done, 900),
        session("runs", None, SessionStatus::Running, Attention::Working, 800),
        session("warned", None, SessionStatus::Running, Attention::Warned, 100),
        session("family/b.1", Some("family"), SessionStatus::Halted, Attention::Person, 200),
        session("family", None, SessionStatus::Running, Attention::Working, 150),
        session("family/a.1", Some("family"), SessionStatus::Running, Attention::Working, 210),
        session("asks", None, SessionStatus::AwaitingConfirmation, Attention::Person, 300),
        session("orphan/x.1", Some("orphan"), SessionStatus::Running, Attention::Working, 10),
    ];
    TopTable { store: "sqlite:x".to_owned(), rows, now: 61_000, error: None }
}

#[test]
fn sessions_needing_a_person_come_first_with_their_families() {
    let table = sample_table();
    let order: Vec<(usize, &str)> =
        order_sessions(&table.rows).iter().map(|ordered| (ordered.depth, ordered.name)).collect();
    let wanted = [
        (0, "asks"),
        (0, "family"),
        (1, "b.1"),
        (1, "a.1"),
        (0, "warned"),
        (0, "runs"),
        (0, "orphan/x.1"),
        (0, "over"),
    ];
    assert_eq!(order, wanted);
}

#[test]
fn the_table_shows_loop_trend_spend_and_age() {
    let all: Vec<String> = table_lines(&sample_table(), None).into_iter().map(|(_, text)| text).collect();
    assert!(all[0].starts_with("sqlite:x · 8 sessions: 5 running"), "{}", all[0]);
    assert!(all[2].contains("awaiting approval"), "{}", all[2]);
    for part in [
        "└ b.1",
        "halted",
        "coder",
        "Loop 3/8",
        "failing tests 7 → 4 → 2",
        "4,455",
        "$1.50",
        "1 min",
        "block completion",
    ] {
        assert!(all[4].contains(part), "{part}: {}", all[4]);
    }
    let json = as_json(&sample_table().rows[3], 61_000);
    assert_eq!((&json["loop"], &json["needs_person"]), (&"Loop 3/8".into(), &true.into()));
    assert_eq!((&json["last_decision"]["decision"], &json["age_ms"]), (&"block".into(), &60_800.into()));
}

#[test]
fn narrow_terminal_keeps_the_decision_and_drops_the_cost() {
    let cells = || {
        vec![
            ["family", "halted", "coder", "Loop 3/8", "failing tests 7 → 4", "4,455", "-", "1 min", "halt"]
                .map(str::to_owned)
                .to_vec(),
        ]
    };
    assert_eq!(fit_columns(cells(), None).0.len(), 9);
    assert_eq!(fit_columns(cells(), Some(200)).0.len(), 9);
    let (heading, rows) = fit_columns(cells(), Some(80));
    assert_eq!(heading, ["SESSION", "STATE", "NODE", "LOOP", "AGE", "LAST DECISION"]);
    assert_eq!(rows[0], ["family", "halted", "coder", "Loop 3/8", "1 min", "halt"]);
}

#[test]
fn short_terminal_shows_how_many_rows_are_hidden() {
    let shown: Vec<String> = screen_rows(&sample_table(), TerminalSize { columns: 80, rows: 7 })
        .iter()
        .map(|row| row.text())
        .collect();
    assert_eq!(shown.len(), 5, "{shown:?}");
    assert!(shown.last().is_some_and(|last| last.starts_with("6 more sessions")), "{shown:?}");
    let whole = screen_rows(&sample_table(), TerminalSize { columns: 80, rows: 40 });
    assert!(whole.last().is_some_and(|last| last.text() == "q or Ctrl-C quits"));
}
