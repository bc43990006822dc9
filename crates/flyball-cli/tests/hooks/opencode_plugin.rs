//! The plugin for opencode, run in a JavaScript engine with opencode's calls.

use crate::scripted_host::{install_hook, run_with_stdin, settings_file};
use flyball_integrations::hook::Host;
use std::process::{Command, Stdio};

/// Six identical calls, then others: prints which of them throw, and whether the session was aborted.
const SCRIPT: &str = r#"
import { Flyball } from PLUGIN;
const aborted = [];
const toasts = [];
const client = {
  session: { abort: async ({ path }) => aborted.push(path.id) },
  tui: { showToast: async ({ body }) => toasts.push(body.message) },
};
const hooks = await Flyball({ client, directory: FOLDER });
await hooks.event({ event: { type: "session.created", properties: { info: { id: "s1" } } } });
await hooks["chat.message"]({ sessionID: "s1" }, { message: { id: "m1" }, parts: [{ type: "text", text: "go" }] });
const thrown = [];
const outputs = [];
for (let n = 1; n <= 8; n += 1) {
  const input = { tool: "bash", sessionID: "s1", callID: `c${n}` };
  const args = { command: "ls" };
  try {
    await hooks["tool.execute.before"](input, { args });
    const output = { title: "ls", output: "a b c", metadata: { exit: 0 } };
    await hooks["tool.execute.after"]({ ...input, args }, output);
    outputs.push(output.output);
  } catch (error) {
    thrown.push([n, error.message]);
  }
}
const shell = { env: {} };
await hooks["shell.env"]({ cwd: ".", sessionID: "s1" }, shell);
await hooks["shell.env"]({ cwd: "." }, { env: {} });
const permission = { status: "allow" };
await hooks["permission.ask"]({ type: "bash", sessionID: "s1", metadata: { command: "ls" } }, permission);
await hooks.event({ event: { type: "session.idle", properties: { sessionID: "s1" } } });
console.log(JSON.stringify({ thrown, outputs, aborted, toasts, permission: permission.status, env: shell.env }));
"#;

#[test]
fn plugin_throws_aborts_and_appends_feedback() {
    if Command::new("node").arg("--version").output().is_err() {
        // Without an engine the plugin cannot run here; the command line that it calls is tested separately.
        return;
    }
    let folder = install_hook(Host::Opencode, "plugin");
    let plugin = std::fs::read_to_string(settings_file(Host::Opencode, &folder)).unwrap();
    std::fs::write(folder.join("plugin.mjs"), plugin).unwrap();
    let script = SCRIPT.replace("PLUGIN", "\"./plugin.mjs\"").replace("FOLDER", &format!("{folder:?}"));
    std::fs::write(folder.join("host.mjs"), script).unwrap();
    let mut command = Command::new("node");
    command.arg("host.mjs").current_dir(&folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = run_with_stdin(command, b"");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{err}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let thrown: Vec<u64> =
        report["thrown"].as_array().unwrap().iter().map(|pair| pair[0].as_u64().unwrap()).collect();
    assert_eq!(thrown, [6, 7, 8], "{report}");
    let outputs: Vec<&str> =
        report["outputs"].as_array().unwrap().iter().map(|output| output.as_str().unwrap()).collect();
    let warned: Vec<bool> = outputs.iter().map(|output| output.contains("[Flyball]")).collect();
    assert_eq!(warned, [false, false, true, true, true], "{report}");
    assert_eq!(report["aborted"], serde_json::json!(["s1"]), "{report}");
    assert_eq!(report["permission"], "deny", "{report}");
    assert_eq!(report["env"], serde_json::json!({"FLYBALL_SESSION": "opencode:s1"}), "{report}");
    assert!(report["toasts"].to_string().contains("flyball release opencode:s1"), "{report}");
}
