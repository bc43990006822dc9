//! Calls through the proxy, made and answered by the official library.

use super::mcp_harness::{TEST_TIMEOUT, direct_server, event_outline, guarded_server, records, test_dir};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest, CustomRequest,
    ElicitRequestParams, ElicitResult, ElicitationAction, Implementation, ServerResult,
};
use rmcp::service::{RequestContext, RunningService};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, ErrorData, RoleClient, ServiceExt};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

pub(crate) type McpClient<H> = RunningService<RoleClient, H>;

pub(crate) async fn connect<H: ClientHandler>(handler: H, command: Command) -> McpClient<H> {
    let child = TokioChildProcess::new(tokio::process::Command::from(command)).unwrap();
    tokio::time::timeout(TEST_TIMEOUT, handler.serve(child)).await.expect("in time").expect("a connection")
}

pub(crate) async fn call<H: ClientHandler>(
    client: &McpClient<H>,
    tool: &'static str,
    args: Value,
) -> CallToolResult {
    let params = CallToolRequestParams::new(tool).with_arguments(args.as_object().cloned().unwrap());
    tokio::time::timeout(TEST_TIMEOUT, client.call_tool(params)).await.expect("in time").expect("a result")
}

pub(crate) fn result_texts(result: &CallToolResult) -> Vec<String> {
    let all = serde_json::to_value(result).unwrap();
    let blocks = all["content"].as_array().cloned().unwrap_or_default();
    blocks.iter().filter_map(|block| block["text"].as_str().map(str::to_owned)).collect()
}

pub(crate) fn block_on<F: Future<Output = ()>>(test: F) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test);
}

fn event_verdicts(folder: &Path, kind: &str) -> Vec<&'static str> {
    event_outline(folder)
        .into_iter()
        .filter_map(|(name, verdict)| (name == kind).then_some(verdict))
        .collect()
}

#[test]
fn normal_calls_are_the_same_with_and_without_the_proxy() {
    block_on(async {
        let folder = test_dir("quiet");
        let (plain, through) =
            (connect((), direct_server()).await, connect((), guarded_server(&folder, &[])).await);
        assert_eq!(through.list_all_tools().await.unwrap(), plain.list_all_tools().await.unwrap());
        assert_eq!(through.peer_info(), plain.peer_info());
        for number in 0..20 {
            let args = json!({"number": number, "text": "Żółw \u{1f422}"});
            assert_eq!(call(&through, "echo", args.clone()).await, call(&plain, "echo", args).await);
        }
        let custom =
            || ClientRequest::CustomRequest(CustomRequest::new("x/own", Some(json!({"b": 1, "a": [2]}))));
        let answers =
            (through.send_request(custom()).await.unwrap(), plain.send_request(custom()).await.unwrap());
        let value = |result: ServerResult| serde_json::to_value(result).unwrap();
        assert_eq!(value(answers.0), value(answers.1));
        let unknown = || CallToolRequestParams::new("nobody");
        let errors = (through.call_tool(unknown()).await, plain.call_tool(unknown()).await);
        assert_eq!(errors.0.unwrap_err().to_string(), errors.1.unwrap_err().to_string());
        through.cancel().await.unwrap();
        plain.cancel().await.unwrap();
        assert_eq!(event_verdicts(&folder, "tool.requested"), vec!["allow"; 21]);
        assert_eq!(event_verdicts(&folder, "tool.finished"), vec!["allow"; 21]);
    });
}

#[test]
fn repeated_call_is_warned_then_blocked_then_halted() {
    block_on(async {
        let folder = test_dir("repeated");
        let client = connect((), guarded_server(&folder, &[])).await;
        let mut seen = Vec::new();
        for _ in 0..9 {
            let result = call(&client, "same", json!({"path": "a.txt"})).await;
            seen.push((result.is_error == Some(true), result_texts(&result)));
        }
        for (number, (refused, texts)) in seen.iter().enumerate() {
            let all = texts.join("\n");
            match number {
                0 | 1 => assert_eq!((refused, all.as_str()), (&false, "nothing new")),
                2..=4 => {
                    assert!(!refused && texts.len() == 2 && texts[0] == "nothing new", "{number}: {all}");
                    assert!(texts[1].starts_with("[flyball] Loop guard warning: "), "{all}");
                }
                5 | 6 => assert!(*refused && all.starts_with("[flyball] "), "{number}: {all}"),
                _ => assert!(*refused && all.contains("flyball release 's1'"), "{number}: {all}"),
            }
        }
        let wanted = ["allow", "allow", "warn", "warn", "warn", "block", "block", "halt", "halt"];
        assert_eq!(event_verdicts(&folder, "tool.requested"), wanted);
        assert_eq!(event_verdicts(&folder, "tool.finished").len(), 5, "denied calls did not run");
        // The halt also applies to other tools, and in another process.
        client.cancel().await.unwrap();
        let client = connect((), guarded_server(&folder, &[])).await;
        assert_eq!(call(&client, "echo", json!({})).await.is_error, Some(true));
        client.cancel().await.unwrap();
    });
}

#[test]
fn tool_that_keeps_failing_the_same_way_is_stopped() {
    block_on(async {
        let folder = test_dir("failing");
        let client = connect((), guarded_server(&folder, &[])).await;
        let mut stopped = false;
        for number in 0..12 {
            let result = call(&client, "fail", json!({"number": number})).await;
            assert_eq!(result.is_error, Some(true));
            stopped |= result_texts(&result).join("").starts_with("[flyball]");
        }
        assert!(stopped, "{:?}", event_outline(&folder));
        client.cancel().await.unwrap();
    });
}

#[test]
fn a_huge_result_has_a_reference_that_the_client_reads_in_slices() {
    block_on(async {
        let folder = test_dir("huge-slices");
        let client = connect((), guarded_server(&folder, &[])).await;
        let before = client.list_all_tools().await.unwrap().len();
        let result = call(&client, "huge", json!({})).await;
        let output = result.structured_content.clone().expect("structured content")["output"].clone();
        let reference = output["ref"].as_str().unwrap().to_owned();
        assert_eq!((&output["bytes"], &output["preview"]), (&json!(600_000), &json!("é".repeat(1_000))));
        let listed = client.list_all_tools().await.unwrap();
        assert_eq!(listed.len(), before + 1, "a tool to read it is listed");
        assert_eq!(listed.last().unwrap().name, "flyball_read_output");
        let (mut whole, mut offset) = (String::new(), 0_u64);
        loop {
            let arguments = json!({"ref": reference, "offset": offset, "limit": 100_000});
            let slice = call(&client, "flyball_read_output", arguments).await.structured_content.unwrap();
            whole.push_str(slice["text"].as_str().unwrap());
            match slice["next"].as_u64() {
                Some(next) => offset = next,
                None => break,
            }
        }
        assert_eq!(whole, "é".repeat(300_000));
        let other = format!("{}-{}", "0".repeat(32), "0".repeat(32));
        let unknown = call(&client, "flyball_read_output", json!({"ref": other})).await;
        assert_eq!(unknown.is_error, Some(true));
        client.cancel().await.unwrap();
    });
}

#[test]
fn huge_structured_content_is_replaced_by_its_reference() {
    block_on(async {
        let folder = test_dir("huge-structured");
        let client = connect((), guarded_server(&folder, &[])).await;
        let result = call(&client, "rows", json!({})).await;
        let structured = result.structured_content.clone().expect("structured content");
        assert!(structured.to_string().len() < 4_000, "{:.300}", structured.to_string());
        assert!(structured["output"]["preview"].as_str().unwrap().starts_with("{"), "{structured:.300}");
        let reference = structured["output"]["ref"].as_str().unwrap();
        let arguments = json!({"ref": reference, "search": "\"total\":20000"});
        let found = call(&client, "flyball_read_output", arguments).await;
        assert_eq!(found.is_error, Some(false), "{found:?}");
        assert_eq!(result_texts(&result)[0], "20000 rows", "a small text stays");
        client.cancel().await.unwrap();
    });
}

#[test]
fn proxy_files_are_removed_on_exit() {
    block_on(async {
        let folder = test_dir("huge-ended");
        let client = connect((), guarded_server(&folder, &[])).await;
        let text = result_texts(&call(&client, "huge", json!({})).await).join("");
        let path = text.split("saved to: ").nth(1).and_then(|rest| rest.lines().next()).unwrap().to_owned();
        assert!(std::path::Path::new(&path).exists());
        client.cancel().await.unwrap();
        let began = std::time::Instant::now();
        while std::path::Path::new(&path).parent().unwrap().exists() {
            assert!(began.elapsed() < std::time::Duration::from_secs(30), "{path} still exists");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
}

#[test]
fn a_huge_result_goes_to_a_file() {
    block_on(async {
        let folder = test_dir("huge");
        let client = connect((), guarded_server(&folder, &[])).await;
        let text = result_texts(&call(&client, "huge", json!({})).await).join("");
        assert!(text.starts_with("Tool response too large (300000 characters)"), "{:.200}", text);
        assert!(text.chars().count() < 2_000);
        let path = text.split("saved to: ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "é".repeat(300_000));
        client.cancel().await.unwrap();
        assert_eq!(records(&folder).len(), 2);
    });
}

/// A client whose user answers elicitations.
pub(crate) struct ElicitingClient(pub(crate) Option<bool>);

impl ClientHandler for ElicitingClient {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("a client", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let request = serde_json::to_value(request).unwrap();
        assert!(request["message"].as_str().unwrap().contains("'delete'"), "{request}");
        Ok(match self.0 {
            Some(yes) => ElicitResult::new(ElicitationAction::Accept).with_content(json!({"approve": yes})),
            None => ElicitResult::new(ElicitationAction::Decline),
        })
    }
}

pub(crate) const DESTRUCTIVE: [&str; 2] = ["--set", "tools.delete.effect=destructive"];

#[test]
fn tool_requiring_approval_elicits_from_the_client() {
    block_on(async {
        for (person, wanted) in
            [(Some(true), "deleted"), (Some(false), "did not approve"), (None, "did not approve")]
        {
            let folder = test_dir(&format!("asked-{person:?}"));
            let client = connect(ElicitingClient(person), guarded_server(&folder, &DESTRUCTIVE)).await;
            let text = result_texts(&call(&client, "delete", json!({"id": 7})).await).join("");
            assert!(text.contains(wanted), "{person:?}: {text}");
            // Other tools need no approval.
            assert_eq!(result_texts(&call(&client, "echo", json!({})).await), ["{}"]);
            client.cancel().await.unwrap();
        }
    });
}

#[test]
fn pending_approval_is_listed_until_the_dialog_ends() {
    block_on(async {
        for (person, pending) in [(Some(true), false), (Some(false), false)] {
            let folder = test_dir(&format!("listed-{person:?}"));
            let client = connect(ElicitingClient(person), guarded_server(&folder, &DESTRUCTIVE)).await;
            call(&client, "delete", json!({"id": 7})).await;
            client.cancel().await.unwrap();
            assert_eq!(is_pending(&folder), pending, "{person:?}");
        }
        let folder = test_dir("listed");
        let client = connect((), guarded_server(&folder, &DESTRUCTIVE)).await;
        let refused = result_texts(&call(&client, "delete", json!({"id": 7})).await).join("");
        assert!(refused.contains("Approval required") && refused.contains("Ask a person"), "{refused}");
        assert!(is_pending(&folder));
        client.cancel().await.unwrap();
    });
}

/// Whether a plan is pending in the session, according to `flyball list --waiting`.
fn is_pending(folder: &std::path::Path) -> bool {
    let mut list = Command::new(env!("CARGO_BIN_EXE_flyball"));
    list.args(["list", "--waiting"]).current_dir(folder).env_clear().env("USER", "anna");
    let output = list.output().unwrap();
    String::from_utf8_lossy(&output.stdout).contains("s1")
}

#[test]
fn client_without_elicitation_gets_the_approval_command() {
    block_on(async {
        let folder = test_dir("typed");
        let client = connect((), guarded_server(&folder, &DESTRUCTIVE)).await;
        let result = call(&client, "delete", json!({"id": 7})).await;
        assert_eq!(result.is_error, Some(true));
        assert!(
            result_texts(&result).join("").contains("flyball approve 's1'"),
            "{:?}",
            result_texts(&result)
        );
        let mut approve = Command::new(env!("CARGO_BIN_EXE_flyball"));
        approve.args(["approve", "s1"]).current_dir(&folder).env_clear().env("USER", "anna");
        let output = approve.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(result_texts(&call(&client, "delete", json!({"id": 7})).await), ["deleted"]);
        let again = call(&client, "delete", json!({"id": 7})).await;
        assert_eq!(again.is_error, Some(true), "an approval is valid once");
        let other = call(&client, "delete", json!({"id": 8})).await;
        assert_eq!(other.is_error, Some(true), "and for one call");
        client.cancel().await.unwrap();
    });
}
