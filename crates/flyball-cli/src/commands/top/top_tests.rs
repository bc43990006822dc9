//! Who stands where in the table, and what a narrow terminal shows of it.

use super::reader::{Last, Need, Seen};
use super::{Table, as_json, fitting, lines, placed, rows};
use crate::screen::Size;
use flyball::Verdict;
use flyball_journal::{Glance, Head};
use flyball_view::{SessionActivity, SessionStatus};
use std::collections::BTreeMap;

fn seen(name: &str, parent: Option<&str>, status: SessionStatus, need: Need, updated: u64) -> Seen {
    let glance = Glance { parent: parent.map(str::to_owned), ..Glance::default() };
    Seen {
        head: Head { session: name.to_owned(), updated, glance, ..Head::default() },
        need,
        activity: SessionActivity { status, is_held: false, idle_ms: None, question: None },
        node: Some("coder".to_owned()),
        badge: Some("Loop 3/8".to_owned()),
        loops: Vec::new(),
        trend: Some("failing tests 7 → 4 → 2".to_owned()),
        trends: BTreeMap::new(),
        tokens: 4_455,
        cost_micro_usd: 1_500_000,
        halt_reason: None,
        last: Some(Last {
            seq: 3,
            decision: Verdict::Block,
            message: "completion blocked by tests".to_owned(),
        }),
        trouble: None,
    }
}

fn several() -> Table {
    let rows = vec![
        seen("over", None, SessionStatus::Ended, Need::Nobody, 900),
        seen("runs", None, SessionStatus::Running, Need::Time, 800),
        seen("warned", None, SessionStatus::Running, Need::Eye, 100),
        seen("family/b.1", Some("family"), SessionStatus::Halted, Need::Person, 200),
        seen("family", None, SessionStatus::Running, Need::Time, 150),
        seen("family/a.1", Some("family"), SessionStatus::Running, Need::Time, 210),
        seen("asks", None, SessionStatus::AwaitingConfirmation, Need::Person, 300),
        seen("orphan/x.1", Some("orphan"), SessionStatus::Running, Need::Time, 10),
    ];
    Table { store: "sqlite:x".to_owned(), rows, now: 61_000, trouble: None }
}

#[test]
fn whoever_needs_a_person_is_first_and_families_stay_together() {
    let table = several();
    let order: Vec<(usize, &str)> =
        placed(&table.rows).iter().map(|placed| (placed.depth, placed.name)).collect();
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
    let all: Vec<String> = lines(&several(), None).into_iter().map(|(_, text)| text).collect();
    assert!(all[0].starts_with("sqlite:x · 8 sessions: 5 running"), "{}", all[0]);
    assert!(all[2].contains("awaiting approval"), "{}", all[2]);
    for part in [
        "└ b.1",
        "halted",
        "coder",
        "Loop 3/8",
        "failing tests 7 → 4 → 2",
        "4455",
        "$1.5000",
        "1m",
        "block completion",
    ] {
        assert!(all[4].contains(part), "{part}: {}", all[4]);
    }
    let json = as_json(&several().rows[3], 61_000);
    assert_eq!((&json["loop"], &json["needs_person"]), (&"Loop 3/8".into(), &true.into()));
    assert_eq!((&json["last_decision"]["decision"], &json["age_ms"]), (&"block".into(), &60_800.into()));
}

#[test]
fn a_narrow_terminal_shows_why_rather_than_the_cost() {
    let cells = || {
        vec![
            ["family", "halted", "coder", "Loop 3/8", "failing tests 7 → 4", "4455", "-", "1m", "halt"]
                .map(str::to_owned)
                .to_vec(),
        ]
    };
    assert_eq!(fitting(cells(), None).0.len(), 9);
    assert_eq!(fitting(cells(), Some(200)).0.len(), 9);
    let (heading, rows) = fitting(cells(), Some(80));
    assert_eq!(heading, ["SESSION", "STATE", "NODE", "LOOP", "AGE", "LAST DECISION"]);
    assert_eq!(rows[0], ["family", "halted", "coder", "Loop 3/8", "1m", "halt"]);
}

#[test]
fn a_low_terminal_says_how_many_do_not_fit() {
    let shown: Vec<String> =
        rows(&several(), Size { columns: 80, rows: 7 }).iter().map(|row| row.text()).collect();
    assert_eq!(shown.len(), 5, "{shown:?}");
    assert!(shown.last().is_some_and(|last| last.starts_with("6 more do not fit")), "{shown:?}");
    let whole = rows(&several(), Size { columns: 80, rows: 40 });
    assert!(whole.last().is_some_and(|last| last.text() == "q or Ctrl-C ends"));
}
