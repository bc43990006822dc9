//! Tools that the policy calls destructive: a person is asked where the host can ask, and approves elsewhere.

use crate::agent::{Agent, installed};
use crate::kit;
use crate::voice::Ended;
use flyball_adapt::hook::{Host, Understood};
use serde_json::json;

const POLICY: &str = "tools: {deploy: {effect: destructive}}\n";

#[test]
fn hosts_that_can_ask_do() {
    for host in Host::ALL.into_iter().filter(|host| host.can_ask()) {
        let folder = installed(host, "ask");
        std::fs::write(folder.join("flyball.yaml"), POLICY).unwrap();
        kit::trusted(&folder);
        let agent = Agent::new(host, &folder);
        let heard = agent.hear(&agent.voice.before(1, "c1", "deploy", &json!({"to": "prod"})));
        assert!(
            matches!(&heard.means, Understood::Asks(why) if why.contains("destructive")),
            "{:?}",
            heard.means
        );
        let other = agent.hear(&agent.voice.before(2, "c2", "look", &json!({"at": "prod"})));
        assert_eq!(other.means, Understood::GoesOn);
    }
}

/// The reasons and verdicts of the requests of a session, and whether a plan waits in it.
fn requests(agent: &Agent, folder: &std::path::Path) -> (Vec<String>, bool) {
    let explained = kit::flyball(folder, &["status", &agent.session(), "--json"], b"", &[("USER", "anna")]);
    let status: serde_json::Value = serde_json::from_str(&explained.out).unwrap();
    let desk = flyball_journal::Address::project(folder).open_existing().unwrap();
    let records = desk.records(&agent.session(), 1, u64::MAX >> 1).unwrap();
    let asked = records.iter().filter(|record| record.text.contains("\"tool.requested\""));
    (asked.map(|record| record.verdict.as_str().to_owned()).collect(), !status["pending"].is_null())
}

#[test]
fn a_yes_in_the_dialog_of_the_host_is_recorded_with_the_call_that_ran() {
    for host in Host::ALL.into_iter().filter(|host| host.can_ask()) {
        let (folder, at) = (installed(host, "dialog"), host.as_str());
        std::fs::write(folder.join("flyball.yaml"), POLICY).unwrap();
        kit::trusted(&folder);
        let agent = Agent::new(host, &folder);
        let args = json!({"to": "prod"});
        let asked = agent.hear(&agent.voice.before(1, "c1", "deploy", &args));
        let command = format!("flyball approve {}", agent.session());
        assert!(
            matches!(&asked.means, Understood::Asks(why) if why.contains(&command)),
            "{at}: {:?}",
            asked.means
        );
        assert_eq!(
            requests(&agent, &folder),
            (vec!["block".to_owned()], true),
            "{at}: the plan waits for anybody"
        );
        // The person has agreed in the dialog: the call ran, counts, and nobody needs to be asked about it any more.
        let ended = agent.voice.after(2, "c1", "deploy", &args, &Ended::Well(&json!("deployed")));
        agent.hear(&ended);
        assert_eq!(requests(&agent, &folder), (vec!["block".to_owned(), "allow".to_owned()], false), "{at}");
        // The next one is asked about again.
        let next = agent.hear(&agent.voice.before(3, "c3", "deploy", &args));
        assert!(matches!(next.means, Understood::Asks(_)), "{at}: {:?}", next.means);
        // An approval from elsewhere lets the repeated call run without a dialog, once.
        let told = kit::flyball(&folder, &["approve", &agent.session()], b"", &[("USER", "anna")]);
        assert_eq!(told.code, 0, "{}{}", told.out, told.err);
        assert_eq!(
            agent.hear(&agent.voice.before(4, "c4", "deploy", &args)).means,
            Understood::GoesOn,
            "{at}"
        );
        agent.hear(&agent.voice.after(5, "c4", "deploy", &args, &Ended::Well(&json!("deployed"))));
        let again = agent.hear(&agent.voice.before(6, "c6", "deploy", &args));
        assert!(matches!(again.means, Understood::Asks(_)), "{at}: {:?}", again.means);
    }
}

#[test]
fn a_host_that_sends_the_same_call_again_after_the_approval_is_let_through() {
    for host in [Host::ClaudeCode, Host::Codex, Host::Goose] {
        let (folder, at) = (installed(host, "resent"), host.as_str());
        std::fs::write(folder.join("flyball.yaml"), POLICY).unwrap();
        kit::trusted(&folder);
        let agent = Agent::new(host, &folder);
        let call = agent.voice.before(1, "c1", "deploy", &json!({"to": "prod"}));
        assert_ne!(agent.hear(&call).means, Understood::GoesOn, "{at}");
        assert_ne!(agent.hear(&call).means, Understood::GoesOn, "{at}");
        kit::flyball(&folder, &["approve", &agent.session()], b"", &[("USER", "anna")]);
        assert_eq!(agent.hear(&call).means, Understood::GoesOn, "{at}");
        assert_eq!(
            agent.hear(&call).means,
            Understood::GoesOn,
            "{at}: two hooks for one call get one answer"
        );
    }
}

#[test]
fn elsewhere_the_call_is_refused_until_it_is_approved_and_runs_once() {
    for host in Host::ALL.into_iter().filter(|host| !host.can_ask()) {
        let folder = installed(host, "approve");
        std::fs::write(folder.join("flyball.yaml"), POLICY).unwrap();
        kit::trusted(&folder);
        let agent = Agent::new(host, &folder);
        let deploy = |n: u64| agent.voice.before(n, &format!("c{n}"), "deploy", &json!({"to": "prod"}));
        let at = host.as_str();
        let first = agent.hear(&deploy(1));
        let command = format!("flyball approve {}", agent.session());
        assert!(first.stopped(), "{at}");
        assert!(
            format!("{}{}", first.out, first.err).contains(&command),
            "{at}: {} {}",
            first.out,
            first.err
        );
        let told = kit::flyball(&folder, &["approve", &agent.session()], b"", &[("USER", "anna")]);
        assert_eq!(told.code, 0, "{}{}", told.out, told.err);
        assert_eq!(agent.hear(&deploy(2)).means, Understood::GoesOn, "{at}");
        let ended = Ended::Well(&json!("deployed"));
        let ended = agent.voice.after(3, "c2", "deploy", &json!({"to": "prod"}), &ended);
        agent.hear(&ended);
        assert!(agent.hear(&deploy(4)).stopped(), "{at}: one yes, one run");
    }
}
