//! Flags that have no effect together with others. The parser takes each of them alone; together they are refused, so
//! that no flag is dropped silently.

use super::{
    CliCommand, ExplainArgs, GraphArgs, HookAction, HookCommandArgs, OutboxArgs, PolicyArgs, ReleaseModeArg,
    cli_command,
};
use clap::error::ErrorKind;
use std::path::Path;

/// Ends the process with a usage error (exit code 2) if a flag would have no effect.
pub(crate) fn exit_on_ineffective_flags(command: &CliCommand) {
    if let Some(what) = ineffective_flag(command) {
        cli_command().error(ErrorKind::ArgumentConflict, what).exit();
    }
}

/// The problem with a flag that would have no effect, if there is one.
pub(super) fn ineffective_flag(command: &CliCommand) -> Option<String> {
    let without = |flag: &str, why: &str| Some(format!("the argument '{flag}' has no effect {why}"));
    match command {
        CliCommand::Status(args) if args.session.is_none() => {
            without(first_policy_flag(&args.common.policy)?, "without a session")
        }
        CliCommand::Prune(args) if args.older_than.is_some() => {
            without(first_policy_flag(&args.policy)?, "with '--older-than'")
        }
        CliCommand::Release(args) if args.n.is_some() && args.mode != ReleaseModeArg::Grant => {
            without("--n", &format!("with '--mode {}'", args.mode.as_str()))
        }
        CliCommand::Audit(args) if args.force && args.html.is_none() && args.write_policy.is_none() => {
            without("--force", "without '--html' or '--write-policy'")
        }
        CliCommand::Serve(args) if args.no_socket => {
            let uids = [
                ("--agent-uid", &args.agent_uid),
                ("--operator-uid", &args.operator_uid),
                ("--admin-uid", &args.admin_uid),
            ];
            let (flag, _) = uids.into_iter().find(|(_, uids)| !uids.is_empty())?;
            without(flag, "with '--no-socket'")
        }
        // The parser waives what a flag requires if a server command excludes it.
        CliCommand::Mcp(args) if args.url.is_none() => {
            let flags = [("--header", !args.header.is_empty()), ("--listen", args.listen.is_some())];
            let (flag, _) = flags.into_iter().find(|(_, given)| *given)?;
            without(flag, "without '--url'")
        }
        CliCommand::Outbox(args) => outbox_conflict(args).and_then(|(flag, why)| without(flag, why)),
        CliCommand::Graph(GraphArgs { file, session, .. }) => {
            ineffective_for_session(file, &[("--session", session.is_some())])
        }
        CliCommand::Explain(ExplainArgs { file, session, format, .. }) => {
            ineffective_for_session(file, &[("--session", session.is_some()), ("--format", format.is_some())])
        }
        CliCommand::Hook(args) => ineffective_hook_flag(args),
        _ => None,
    }
}

/// The first flag of a policy that was given.
fn first_policy_flag(args: &PolicyArgs) -> Option<&'static str> {
    let all = [
        ("--policy", args.policy.is_some()),
        ("--preset", args.preset.is_some()),
        ("--set", !args.set.is_empty()),
    ];
    all.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
}

/// One thing at a time is done with the outbox.
fn outbox_conflict(args: &OutboxArgs) -> Option<(&'static str, &'static str)> {
    let listed = [("--dead", args.dead), ("--waiting", args.waiting)];
    let listed = listed.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag);
    if args.retry.is_some() {
        let other = if args.deliver { Some("--deliver") } else { listed };
        return Some((other.or(first_policy_flag(&args.policy))?, "with '--retry'"));
    }
    if args.deliver {
        return Some((listed?, "with '--deliver'"));
    }
    Some((first_policy_flag(&args.policy)?, "without '--deliver'"))
}

/// A session of the store is named already, and has no format.
fn ineffective_for_session(file: &Path, flags: &[(&str, bool)]) -> Option<String> {
    if file.exists() || file == Path::new("-") {
        return None;
    }
    let (flag, _) = flags.iter().find(|(_, given)| *given)?;
    Some(format!("the argument '{flag}' has no effect with a session of the store"))
}

/// The flags of the hook itself are written by `install`, but for the event, and are nothing to the other actions.
fn ineffective_hook_flag(args: &HookCommandArgs) -> Option<String> {
    let (action, refused): (&str, Vec<&str>) = match args.action {
        None => return None,
        Some(HookAction::Install(_)) => ("install", vec!["--event"]),
        Some(HookAction::Uninstall(_)) => ("uninstall", args.run.given_flags()),
        Some(HookAction::Test(_)) => ("test", args.run.given_flags()),
    };
    let flag = args.run.given_flags().into_iter().find(|flag| refused.contains(flag))?;
    Some(format!("the argument '{flag}' has no effect with '{action}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every flag of a command and of those below it, as `command --flag`.
    fn collect_flags(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        for arg in command.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str()))
        {
            assert!(!arg.is_hide_set(), "{path}: no test proves a hidden flag");
            found.extend(arg.get_long().map(|long| format!("{path} --{long}")));
        }
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            collect_flags(below, format!("{path} {}", below.get_name()).trim(), found);
        }
    }

    #[test]
    fn flag_list_is_complete() {
        let mut found = Vec::new();
        collect_flags(&cli_command(), "", &mut found);
        found.sort();
        let listed: Vec<&str> = include_str!("../../tests/wired/flags.txt").lines().collect();
        assert_eq!(
            found, listed,
            "tests/wired/flags.txt lists every flag; tests/wired/flags.rs proves its effect"
        );
    }
}
