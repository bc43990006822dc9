//! The example that deletes tasks: the same question is never put twice for one answer, and nothing but a clear yes
//! deletes anything, though every request is a process of its own.

use crate::kit::{Chat, SESSION, question};
use flyball::{Event, Kind};
use flyball_run::engine::End;

const REQUEST: &str = "Удали 2 задачи про Варю";
const QUESTION: &str = "Подтверди удаление: task-20251009-1123-cfb2cc5f, task-20251009-1108-960126e8. Это действие необратимо. Уверен?";

fn tasks() -> Chat {
    Chat::example("tasks")
}

fn all(chat: &Chat) -> String {
    std::fs::read_to_string(chat.home().join("store/tasks.json")).expect("the store")
}

/// How often something was deleted.
fn deletions(chat: &Chat) -> usize {
    let deletes =
        |event: &Event| matches!(&event.kind, Kind::ToolRequested { tool, .. } if tool == "delete_task");
    chat.events(SESSION).iter().filter(|event| deletes(event)).count()
}

fn waits(chat: &Chat) -> bool {
    chat.desk().pending(SESSION).expect("the row").is_some()
}

#[test]
fn a_yes_deletes_once_and_a_second_yes_is_harmless() {
    let chat = tasks();
    let end = chat.in_pieces(&[REQUEST]);
    assert_eq!(question(&end), QUESTION);
    assert!(waits(&chat), "one row waits in the store");
    assert_eq!(chat.file("tasks.json"), all(&chat));
    assert_eq!(chat.in_pieces(&["Да"]), End::Done);
    assert!(!waits(&chat), "and it is gone");
    let left = chat.file("tasks.json");
    assert!(
        !left.contains("cfb2cc5f") && !left.contains("960126e8") && left.contains("Сдать отчёт"),
        "{left}"
    );
    assert_eq!(deletions(&chat), 2);
    assert_eq!(
        chat.said().iter().filter(|text| text.as_str() == QUESTION).count(),
        0,
        "asked by the plan alone"
    );
    assert_eq!(
        chat.said().last().map(String::as_str),
        Some("Удалено: task-20251009-1123-cfb2cc5f, task-20251009-1108-960126e8.")
    );
    // Again, twice: nothing is asked and nothing is done.
    assert_eq!(chat.in_pieces(&["Да", "Да"]), End::Done);
    assert_eq!((chat.file("tasks.json"), deletions(&chat)), (left, 2));
}

#[test]
fn nothing_but_a_clear_yes_deletes_anything() {
    let no = tasks();
    assert_eq!(no.in_pieces(&[REQUEST, "не удаляй"]), End::Done);
    assert_eq!((no.file("tasks.json"), deletions(&no)), (all(&no), 0));
    assert!(!waits(&no));
    let cancelled = "Хорошо, операция отменена. Могу помочь с чем-то другим?";
    assert_eq!(no.said().last().map(String::as_str), Some(cancelled));
    assert_eq!(no.in_pieces(&["Да"]), End::Done);
    assert_eq!(deletions(&no), 0, "a yes after the no");

    let list = tasks();
    let end = list.in_pieces(&[REQUEST, "Скинь полный список задач."]);
    assert_eq!(question(&end), format!("Не удалось понять ответ. Всё верно? (да/нет) {QUESTION}"));
    assert_eq!((list.file("tasks.json"), deletions(&list)), (all(&list), 0));
    assert!(waits(&list), "the plan still waits");
    assert_eq!(list.in_pieces(&["Да"]), End::Done);
    assert_eq!(deletions(&list), 2);
}

#[test]
fn a_late_yes_deletes_nothing() {
    let chat = tasks();
    chat.in_pieces(&[REQUEST]);
    chat.wait(2 * 3_600_000);
    assert_eq!(chat.in_pieces(&["Да"]), End::Done);
    assert_eq!((chat.file("tasks.json"), deletions(&chat)), (all(&chat), 0));
}

#[test]
fn the_list_of_tasks_is_a_request_like_any_other() {
    let chat = tasks();
    assert_eq!(chat.in_pieces(&["Скинь полный список задач."]), End::Done);
    assert!(chat.said().last().is_some_and(|text| text.contains("купить Варе подарок")));
    assert_eq!(deletions(&chat), 0);
}

#[test]
fn a_task_that_is_gone_makes_the_plan_void_and_nobody_is_asked() {
    let chat = tasks().with("cfb2cc5f", "00000000");
    assert_eq!(chat.in_pieces(&[REQUEST]), End::Done);
    let last = chat.said().pop().unwrap_or_default();
    assert!(last.contains("Таких задач уже нет") && last.contains("task-20251009-1123-00000000"), "{last}");
    assert_eq!((deletions(&chat), waits(&chat)), (0, false));
}

#[test]
fn in_pieces_is_the_same_as_in_one_go() {
    for says in [
        &[REQUEST, "Да"] as &[&str],
        &[REQUEST, "не удаляй"],
        &[REQUEST, "Скинь полный список задач.", "hm", "Да"],
        &[REQUEST, "hm", "hm", "hm", "hm"],
        &["Скинь полный список задач."],
    ] {
        let (whole, pieces) = (tasks(), tasks());
        assert_eq!(whole.go(says), pieces.in_pieces(says), "{says:?}");
        assert_eq!(whole.decisions(SESSION), pieces.decisions(SESSION), "{says:?}");
        assert_eq!(whole.file("tasks.json"), pieces.file("tasks.json"), "{says:?}");
    }
}
