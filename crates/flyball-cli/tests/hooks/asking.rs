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
