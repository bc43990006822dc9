//! `person.message`: a person's text answers a pending plan or question, or is passed on, and the effects state the
//! next step.

#![allow(clippy::unwrap_used, reason = "a test may panic on missing data")]

use flyball::{Decision, Event, PolicySource, Preset, Sessions, Verdict};
use serde_json::{Value, json};

struct ChatBot(Sessions);

impl ChatBot {
    fn new() -> Self {
        ChatBot(Sessions::new(PolicySource::preset(Preset::Agent)))
    }

    fn send(&mut self, event: Value) -> Decision {
        self.0.step(&Event::from_json(&event.to_string()).unwrap()).unwrap()
    }

    fn send_message(&mut self, text: &str) -> (String, String, Vec<String>) {
        let decision = self.send(json!({"type": "person.message", "text": text, "by": "anna"}));
        let first = &decision.effects[0];
        assert_eq!(first.effect, "person.message");
        let field = |name: &str| first.fields[name].as_str().unwrap().to_owned();
        let rest = decision.effects.iter().skip(1).map(|effect| effect.effect.clone()).collect();
        (field("as"), field("next"), rest)
    }

    fn request_plan(&mut self) {
        self.send(json!({"type": "confirmation.requested", "question": "Delete 2 tasks?",
            "plan": [{"tool": "task_delete", "args": {"uid": "t1"}}, {"tool": "task_delete", "args": {"uid": "t2"}}]}));
    }
}

fn expected_reply(read: &str, next: &str, effects: &[&str]) -> (String, String, Vec<String>) {
    (read.to_owned(), next.to_owned(), effects.iter().map(|effect| (*effect).to_owned()).collect())
}

#[test]
fn every_message_says_what_to_do_now() {
    for (text, expected) in [
        ("Да", expected_reply("plan_answer", "run_plan", &["plan.approved", "say"])),
        ("no", expected_reply("plan_answer", "drop_plan", &["plan.rejected", "say"])),
        ("never mind", expected_reply("plan_answer", "drop_plan", &["plan.rejected", "say"])),
        ("yes, but only the first", expected_reply("plan_answer", "change_plan", &["plan.rejected", "say"])),
        ("maybe", expected_reply("plan_answer", "ask_again", &["say"])),
        ("Скинь полный список задач.", expected_reply("new_request", "pass_on", &["plan.replaced", "say"])),
    ] {
        let mut bot = ChatBot::new();
        bot.request_plan();
        assert_eq!(bot.send_message(text), expected, "{text}");
    }
    let mut bot = ChatBot::new();
    assert_eq!(bot.send_message("Удали 2 задачи"), expected_reply("user_message", "pass_on", &[]));
    bot.send(json!({"type": "question.asked", "text": "Which ones?"}));
    assert_eq!(bot.send_message("the first two"), expected_reply("question_answer", "answer_question", &[]));
}

#[test]
fn too_many_unclear_answers_drop_the_plan() {
    let mut bot = ChatBot::new();
    bot.request_plan();
    for _ in 0..3 {
        assert_eq!(bot.send_message("hm").1, "ask_again");
    }
    assert_eq!(bot.send_message("hm"), expected_reply("plan_answer", "drop_plan", &["plan.aborted", "say"]));
}

#[test]
fn answer_by_another_person_leaves_the_plan_pending() {
    let mut bot = ChatBot::new();
    bot.send(json!({"type": "confirmation.requested", "requester": "ben", "plan": [{"tool": "x", "args": {}}], "question": "?"}));
    assert_eq!(bot.send_message("yes"), expected_reply("plan_answer", "wait", &["say"]));
}

#[test]
fn approval_without_a_pending_plan_gets_a_plain_reply() {
    let say = |decision: &Decision| {
        let said = decision.effects.iter().find(|effect| effect.effect == "say");
        said.map(|effect| effect.fields["text"].as_str().unwrap().to_owned())
    };
    let nothing = "Nothing is waiting for your approval, so nothing was done.";
    // Nothing was ever asked: the person is notified, and the agent receives the message as well.
    let mut bot = ChatBot::new();
    let first = bot.send(json!({"type": "person.message", "text": "yes"}));
    assert_eq!(say(&first).as_deref(), Some(nothing));
    assert_eq!(first.effects[0].fields["next"], "pass_on");
    // A repeated approval: not passed on.
    let mut bot = ChatBot::new();
    bot.request_plan();
    bot.send_message("yes");
    assert_eq!(bot.send_message("yes"), expected_reply("nothing_pending", "none", &["say"]));
    // A reply to something the agent said in between is passed to the agent.
    bot.send(json!({"type": "assistant.message", "text": "Shall I list what is left?"}));
    assert_eq!(bot.send_message("yes"), expected_reply("user_message", "pass_on", &[]));
    // Explicit answers get the same reply, in the person's language.
    let mut bot = ChatBot::new();
    let answered = bot.send(json!({"type": "confirmation.answered", "text": "да"}));
    assert_eq!(answered.decision, Verdict::Allow);
    assert_eq!(
        say(&answered).as_deref(),
        Some("Сейчас ничего не ждёт твоего подтверждения, поэтому ничего не сделано.")
    );
}

#[test]
fn denial_revokes_unused_approvals() {
    let mut bot = ChatBot::new();
    bot.request_plan();
    bot.send_message("yes");
    assert_eq!(
        bot.send_message("no, stop"),
        expected_reply("plan_answer", "drop_plan", &["plan.rejected", "say"])
    );
    assert_eq!(bot.send_message("no").0, "user_message");
}

#[test]
fn the_value_of_an_answer_may_be_a_boolean_or_null() {
    for (value, effect) in [
        (json!(true), "plan.approved"),
        (json!(false), "plan.rejected"),
        (Value::Null, "say"),
        (json!("yes"), "plan.approved"),
    ] {
        let mut bot = ChatBot::new();
        bot.request_plan();
        let answered = bot.send(json!({"type": "confirmation.answered", "value": value}));
        assert_eq!(answered.effects[0].effect, effect, "{value}");
    }
    // Next to a text, null counts as an omitted field.
    let mut bot = ChatBot::new();
    bot.request_plan();
    let answered = bot.send(json!({"type": "confirmation.answered", "text": "yes", "value": null}));
    assert_eq!(answered.effects[0].effect, "plan.approved");
    for wrong in
        [json!({"type": "confirmation.answered"}), json!({"type": "confirmation.answered", "value": 1})]
    {
        assert!(Event::from_json(&wrong.to_string()).is_err(), "{wrong}");
    }
}
