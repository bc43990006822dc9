//! `person.message`: what a person wrote answers what waits, or is passed on, and the effects say what to do now.

#![allow(clippy::unwrap_used, reason = "a test may stop where it finds something missing")]

use flyball::{Decision, Event, PolicySource, Preset, Sessions, Verdict};
use serde_json::{Value, json};

struct Bot(Sessions);

impl Bot {
    fn new() -> Self {
        Bot(Sessions::new(PolicySource::preset(Preset::Agent)))
    }

    fn send(&mut self, event: Value) -> Decision {
        self.0.step(&Event::from_json(&event.to_string()).unwrap()).unwrap()
    }

    fn hear(&mut self, text: &str) -> (String, String, Vec<String>) {
        let decision = self.send(json!({"type": "person.message", "text": text, "by": "anna"}));
        let first = &decision.effects[0];
        assert_eq!(first.effect, "person.message");
        let field = |name: &str| first.fields[name].as_str().unwrap().to_owned();
        let rest = decision.effects.iter().skip(1).map(|effect| effect.effect.clone()).collect();
        (field("as"), field("next"), rest)
    }

    fn plan(&mut self) {
        self.send(json!({"type": "confirmation.requested", "question": "Delete 2 tasks?",
            "plan": [{"tool": "task_delete", "args": {"uid": "t1"}}, {"tool": "task_delete", "args": {"uid": "t2"}}]}));
    }
}

fn told(read: &str, next: &str, effects: &[&str]) -> (String, String, Vec<String>) {
    (read.to_owned(), next.to_owned(), effects.iter().map(|effect| (*effect).to_owned()).collect())
}

#[test]
fn every_message_says_what_to_do_now() {
    for (text, expected) in [
        ("Да", told("plan_answer", "run_plan", &["plan.approved", "say"])),
        ("no", told("plan_answer", "drop_plan", &["plan.rejected", "say"])),
        ("never mind", told("plan_answer", "drop_plan", &["plan.rejected", "say"])),
        ("yes, but only the first", told("plan_answer", "change_plan", &["plan.rejected", "say"])),
        ("maybe", told("plan_answer", "ask_again", &["say"])),
        ("Скинь полный список задач.", told("new_request", "pass_on", &["plan.replaced", "say"])),
    ] {
        let mut bot = Bot::new();
        bot.plan();
        assert_eq!(bot.hear(text), expected, "{text}");
    }
    let mut bot = Bot::new();
    assert_eq!(bot.hear("Удали 2 задачи"), told("user_message", "pass_on", &[]));
    bot.send(json!({"type": "question.asked", "text": "Which ones?"}));
    assert_eq!(bot.hear("the first two"), told("question_answer", "answer_question", &[]));
}

#[test]
fn too_many_unclear_answers_drop_the_plan() {
    let mut bot = Bot::new();
    bot.plan();
    for _ in 0..3 {
        assert_eq!(bot.hear("hm").1, "ask_again");
    }
    assert_eq!(bot.hear("hm"), told("plan_answer", "drop_plan", &["plan.aborted", "say"]));
}

#[test]
fn somebody_else_is_told_so_and_the_plan_waits_on() {
    let mut bot = Bot::new();
    bot.send(json!({"type": "confirmation.requested", "requester": "ben", "plan": [{"tool": "x", "args": {}}], "question": "?"}));
    assert_eq!(bot.hear("yes"), told("plan_answer", "wait", &["say"]));
}

#[test]
fn a_yes_that_meets_nothing_is_told_in_a_plain_sentence() {
    let say = |decision: &Decision| {
        let said = decision.effects.iter().find(|effect| effect.effect == "say");
        said.map(|effect| effect.fields["text"].as_str().unwrap().to_owned())
    };
    let nothing = "Nothing is waiting for your approval, so nothing was done.";
    // Nothing was ever asked: the person is told, and the agent hears it as well.
    let mut bot = Bot::new();
    let first = bot.send(json!({"type": "person.message", "text": "yes"}));
    assert_eq!(say(&first).as_deref(), Some(nothing));
    assert_eq!(first.effects[0].fields["next"], "pass_on");
    // A second yes: nobody else needs to hear it.
    let mut bot = Bot::new();
    bot.plan();
    bot.hear("yes");
    assert_eq!(bot.hear("yes"), told("nothing_pending", "none", &["say"]));
    // An answer to what the agent said in between is the agent's.
    bot.send(json!({"type": "assistant.message", "text": "Shall I list what is left?"}));
    assert_eq!(bot.hear("yes"), told("user_message", "pass_on", &[]));
    // Explicit answers are told the same, in the person's language.
    let mut bot = Bot::new();
    let answered = bot.send(json!({"type": "confirmation.answered", "text": "да"}));
    assert_eq!(answered.decision, Verdict::Allow);
    assert_eq!(
        say(&answered).as_deref(),
        Some("Сейчас ничего не ждёт твоего подтверждения, поэтому ничего не сделано.")
    );
}

#[test]
fn a_no_takes_back_what_was_approved_and_has_not_run() {
    let mut bot = Bot::new();
    bot.plan();
    bot.hear("yes");
    assert_eq!(bot.hear("no, stop"), told("plan_answer", "drop_plan", &["plan.rejected", "say"]));
    assert_eq!(bot.hear("no").0, "user_message");
}

#[test]
fn the_value_of_an_answer_may_be_a_boolean_or_null() {
    for (value, effect) in [
        (json!(true), "plan.approved"),
        (json!(false), "plan.rejected"),
        (Value::Null, "say"),
        (json!("yes"), "plan.approved"),
    ] {
        let mut bot = Bot::new();
        bot.plan();
        let answered = bot.send(json!({"type": "confirmation.answered", "value": value}));
        assert_eq!(answered.effects[0].effect, effect, "{value}");
    }
    // Beside a text, null is a field that was left out.
    let mut bot = Bot::new();
    bot.plan();
    let answered = bot.send(json!({"type": "confirmation.answered", "text": "yes", "value": null}));
    assert_eq!(answered.effects[0].effect, "plan.approved");
    for wrong in
        [json!({"type": "confirmation.answered"}), json!({"type": "confirmation.answered", "value": 1})]
    {
        assert!(Event::from_json(&wrong.to_string()).is_err(), "{wrong}");
    }
}
