//! Tools that the policy marks as destructive: the host asks its user if it can; otherwise a person approves
//! elsewhere.

use crate::command_harness;
use crate::host_payloads::ToolCallEnd;
use crate::scripted_host::{ScriptedHost, install_hook};
use flyball_integrations::hook::{Host, HostReaction};
use serde_json::json;

const POLICY: &str = "tools: {deploy: {effect: destructive}}\n";

#[test]
fn hosts_that_can_ask_ask_the_user() {
    for host in Host::ALL.into_iter().filter(|host| host.can_ask()) {
        let folder = install_hook(host, "ask");
        std::fs::write(folder.join("flyball.yaml"), POLICY).unwrap();
        command_harness::trust_policy(&folder);
        let agent = ScriptedHost::new(host, &folder);
        let result = agent.call_hook(&agent.payloads.before_tool(1, "c1", "deploy", &json!({"to": "prod"})));
        assert!(
            matches!(&result.reaction, HostReaction::AsksUser(why) if why.contains("destructive")),
            "{:?}",
            result.reaction
        );
        let other = agent.call_hook(&agent.payloads.before_tool(2, "c2", "look", &json!({"at": "prod"})));
        assert_eq!(other.reaction, HostReaction::Continues);
    }
}

/// The reasons and verdicts of a session's requests, and whether a plan is pending.
fn request_decisions(agent: &ScriptedHost, folder: &std::path::Path) -> (Vec<String>, bool) {
    let explained = command_harness::run_flyball(
        folder,
        &["status", &agent.session(), "--json"],
        b"",
        &[("USER", "anna")],
    );
    let status: serde_json::Value = serde_json::from_str(&explained.out).unwrap();
    let store = flyball_store::StoreAddress::find_project(folder).open_existing().unwrap();
    let records = store.records(&agent.session(), 1, u64::MAX >> 1).unwrap();
    let asked = records.iter().filter(|record| record.text.contains("\"tool.requested\""));
    (asked.map(|record| record.verdict.as_str().to_owned()).collect(), !status["pending"].is_null())
}

#[test]
fn approval_in_the_host_dialog_is_recorded_with_the_call() {
    for host in Host::ALL.into_iter().filter(|host| host.can_ask()) {
        let (folder, at) = (install_hook(host, "dialog"), host.as_str());
        std::fs::write(folder.join("flyball.yaml"), POLICY).unwrap();
        command_harness::trust_policy(&folder);
        let agent = ScriptedHost::new(host, &folder);
        let args = json!({"to": "prod"});
        let asked = agent.call_hook(&agent.payloads.before_tool(1, "c1", "deploy", &args));
        let command = format!("flyball approve {}", agent.session());
        assert!(
            matches!(&asked.reaction, HostReaction::AsksUser(why) if why.contains(&command)),
            "{at}: {:?}",
            asked.reaction
        );
        assert_eq!(
            request_decisions(&agent, &folder),
            (vec!["block".to_owned()], true),
            "{at}: any person may approve the plan"
        );
        // The user agreed in the dialog: the call ran and counts, and no further approval is needed.
        let ended =
            agent.payloads.after_tool(2, "c1", "deploy", &args, &ToolCallEnd::Succeeded(&json!("deployed")));
        agent.call_hook(&ended);
        assert_eq!(
            request_decisions(&agent, &folder),
            (vec!["block".to_owned(), "allow".to_owned()], false),
            "{at}"
        );
        // The next one needs approval again.
        let next = agent.call_hook(&agent.payloads.before_tool(3, "c3", "deploy", &args));
        assert!(matches!(next.reaction, HostReaction::AsksUser(_)), "{at}: {:?}", next.reaction);
        // An approval from elsewhere lets the repeated call run once, without a dialog.
        let output =
            command_harness::run_flyball(&folder, &["approve", &agent.session()], b"", &[("USER", "anna")]);
        assert_eq!(output.code, 0, "{}{}", output.out, output.err);
        assert_eq!(
            agent.call_hook(&agent.payloads.before_tool(4, "c4", "deploy", &args)).reaction,
            HostReaction::Continues,
            "{at}"
        );
        agent.call_hook(&agent.payloads.after_tool(
            5,
            "c4",
            "deploy",
            &args,
            &ToolCallEnd::Succeeded(&json!("deployed")),
        ));
        let again = agent.call_hook(&agent.payloads.before_tool(6, "c6", "deploy", &args));
        assert!(matches!(again.reaction, HostReaction::AsksUser(_)), "{at}: {:?}", again.reaction);
    }
}

#[test]
fn resent_call_after_approval_is_allowed() {
    for host in [Host::ClaudeCode, Host::Codex, Host::Goose] {
        let (folder, at) = (install_hook(host, "resent"), host.as_str());
        std::fs::write(folder.join("flyball.yaml"), POLICY).unwrap();
        command_harness::trust_policy(&folder);
        let agent = ScriptedHost::new(host, &folder);
        let call = agent.payloads.before_tool(1, "c1", "deploy", &json!({"to": "prod"}));
        assert_ne!(agent.call_hook(&call).reaction, HostReaction::Continues, "{at}");
        assert_ne!(agent.call_hook(&call).reaction, HostReaction::Continues, "{at}");
        command_harness::run_flyball(&folder, &["approve", &agent.session()], b"", &[("USER", "anna")]);
        assert_eq!(agent.call_hook(&call).reaction, HostReaction::Continues, "{at}");
        assert_eq!(
            agent.call_hook(&call).reaction,
            HostReaction::Continues,
            "{at}: two hooks for one call get one answer"
        );
    }
}

#[test]
fn hosts_that_cannot_ask_block_the_call_until_approved_once() {
    for host in Host::ALL.into_iter().filter(|host| !host.can_ask()) {
        let folder = install_hook(host, "approve");
        std::fs::write(folder.join("flyball.yaml"), POLICY).unwrap();
        command_harness::trust_policy(&folder);
        let agent = ScriptedHost::new(host, &folder);
        let deploy =
            |n: u64| agent.payloads.before_tool(n, &format!("c{n}"), "deploy", &json!({"to": "prod"}));
        let at = host.as_str();
        let first = agent.call_hook(&deploy(1));
        let command = format!("flyball approve {}", agent.session());
        assert!(first.is_stopped(), "{at}");
        assert!(
            format!("{}{}", first.out, first.err).contains(&command),
            "{at}: {} {}",
            first.out,
            first.err
        );
        let output =
            command_harness::run_flyball(&folder, &["approve", &agent.session()], b"", &[("USER", "anna")]);
        assert_eq!(output.code, 0, "{}{}", output.out, output.err);
        assert_eq!(agent.call_hook(&deploy(2)).reaction, HostReaction::Continues, "{at}");
        let ended = ToolCallEnd::Succeeded(&json!("deployed"));
        let ended = agent.payloads.after_tool(3, "c2", "deploy", &json!({"to": "prod"}), &ended);
        agent.call_hook(&ended);
        assert!(agent.call_hook(&deploy(4)).is_stopped(), "{at}: one approval, one run");
    }
}
