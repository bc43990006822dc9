//! The task deletion example: a question is never asked twice for one answer, and only a clear approval deletes
//! anything, although every request is a separate process.

use crate::chat_harness::{ChatHarness, SESSION, question};
use flyball::{Event, EventKind};
use flyball_runner::engine::RunEnd;

const REQUEST: &str = "Удали 2 задачи про Варю";
const QUESTION: &str = "Подтверди удаление: task-20251009-1123-cfb2cc5f, task-20251009-1108-960126e8. Это действие необратимо. Уверен?";

fn tasks() -> ChatHarness {
    ChatHarness::example("tasks")
}

fn stored_tasks(chat: &ChatHarness) -> String {
    std::fs::read_to_string(chat.home().join("store/tasks.json")).expect("the store")
}

/// Number of deletions.
fn delete_count(chat: &ChatHarness) -> usize {
    let deletes =
        |event: &Event| matches!(&event.kind, EventKind::ToolRequested { tool, .. } if tool == "delete_task");
    chat.events(SESSION).iter().filter(|event| deletes(event)).count()
}

fn is_pending(chat: &ChatHarness) -> bool {
    chat.admin_store().pending(SESSION).expect("the row").is_some()
}

#[test]
fn second_yes_does_not_delete_again() {
    let chat = tasks();
    let end = chat.run_per_message(&[REQUEST]);
    assert_eq!(question(&end), QUESTION);
    assert!(is_pending(&chat), "one plan is pending in the store");
    assert_eq!(chat.file("tasks.json"), stored_tasks(&chat));
    assert_eq!(chat.run_per_message(&["Да"]), RunEnd::Done);
    assert!(!is_pending(&chat), "the plan is no longer pending");
    let left = chat.file("tasks.json");
    assert!(
        !left.contains("cfb2cc5f") && !left.contains("960126e8") && left.contains("Сдать отчёт"),
        "{left}"
    );
    assert_eq!(delete_count(&chat), 2);
    assert_eq!(
        chat.said().iter().filter(|text| text.as_str() == QUESTION).count(),
        0,
        "asked by the plan alone"
    );
    assert_eq!(
        chat.said().last().map(String::as_str),
        Some("Удалено: task-20251009-1123-cfb2cc5f, task-20251009-1108-960126e8.")
    );
    // Repeated approvals: nothing is asked or done.
    assert_eq!(chat.run_per_message(&["Да", "Да"]), RunEnd::Done);
    assert_eq!((chat.file("tasks.json"), delete_count(&chat)), (left, 2));
}

#[test]
fn only_a_clear_yes_deletes() {
    let no = tasks();
    assert_eq!(no.run_per_message(&[REQUEST, "не удаляй"]), RunEnd::Done);
    assert_eq!((no.file("tasks.json"), delete_count(&no)), (stored_tasks(&no), 0));
    assert!(!is_pending(&no));
    let cancelled = "Хорошо, операция отменена. Могу помочь с чем-то другим?";
    assert_eq!(no.said().last().map(String::as_str), Some(cancelled));
    assert_eq!(no.run_per_message(&["Да"]), RunEnd::Done);
    assert_eq!(delete_count(&no), 0, "an approval after the denial");

    let list = tasks();
    let end = list.run_per_message(&[REQUEST, "Скинь полный список задач."]);
    assert_eq!(question(&end), format!("Не удалось понять ответ. Всё верно? (да/нет) {QUESTION}"));
    assert_eq!((list.file("tasks.json"), delete_count(&list)), (stored_tasks(&list), 0));
    assert!(is_pending(&list), "the plan is still pending");
    assert_eq!(list.run_per_message(&["Да"]), RunEnd::Done);
    assert_eq!(delete_count(&list), 2);
}

#[test]
fn expired_yes_deletes_nothing() {
    let chat = tasks();
    chat.run_per_message(&[REQUEST]);
    chat.advance_clock(2 * 3_600_000);
    assert_eq!(chat.run_per_message(&["Да"]), RunEnd::Done);
    assert_eq!((chat.file("tasks.json"), delete_count(&chat)), (stored_tasks(&chat), 0));
}

#[test]
fn listing_tasks_deletes_nothing() {
    let chat = tasks();
    assert_eq!(chat.run_per_message(&["Скинь полный список задач."]), RunEnd::Done);
    assert!(chat.said().last().is_some_and(|text| text.contains("купить Варе подарок")));
    assert_eq!(delete_count(&chat), 0);
}

#[test]
fn missing_task_cancels_the_plan_without_asking() {
    let chat = tasks().with("cfb2cc5f", "00000000");
    assert_eq!(chat.run_per_message(&[REQUEST]), RunEnd::Done);
    let last = chat.said().pop().unwrap_or_default();
    assert!(last.contains("Таких задач уже нет") && last.contains("task-20251009-1123-00000000"), "{last}");
    assert_eq!((delete_count(&chat), is_pending(&chat)), (0, false));
}

#[test]
fn resumed_run_gives_the_same_history() {
    for says in [
        &[REQUEST, "Да"] as &[&str],
        &[REQUEST, "не удаляй"],
        &[REQUEST, "Скинь полный список задач.", "hm", "Да"],
        &[REQUEST, "hm", "hm", "hm", "hm"],
        &["Скинь полный список задач."],
    ] {
        let (whole, pieces) = (tasks(), tasks());
        assert_eq!(whole.run(says), pieces.run_per_message(says), "{says:?}");
        assert_eq!(whole.decisions(SESSION), pieces.decisions(SESSION), "{says:?}");
        assert_eq!(whole.file("tasks.json"), pieces.file("tasks.json"), "{says:?}");
    }
}
