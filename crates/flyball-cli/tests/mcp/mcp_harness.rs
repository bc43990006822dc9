//! A server process built with the official library, and clients for it.
//!
//! The server is this test program itself, started again to run `mcp_harness::serve` alone. The test harness prints on stdout,
//! so the server speaks through descriptor 3, which the shell makes of the pipe.

use flyball_store::{EventRecord, StoreAddress};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, CustomRequest, CustomResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Set in the process that acts as a server.
const SERVER_VARIABLE: &str = "FLYBALL_TEST_MCP_SERVER";
/// Only a hang takes this long.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A new, empty directory for one test.
pub(crate) fn test_dir(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mcp-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(path.join(".git")).expect("a folder");
    path
}

/// `flyball mcp` in front of a shell command, with additional arguments.
pub(crate) fn proxy_command(folder: &Path, more: &[&str], shell: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    command.args(["mcp", "--session", "s1"]).args(more).args(["--", "sh", "-c", shell]);
    command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// The server behind `flyball mcp`.
pub(crate) fn guarded_server(folder: &Path, more: &[&str]) -> Command {
    let mut command = proxy_command(
        folder,
        more,
        "exec \"$TEST_PROGRAM\" mcp_harness::serve --exact --nocapture 3>&1 >/dev/null",
    );
    command.env(SERVER_VARIABLE, "1").env("TEST_PROGRAM", std::env::current_exe().unwrap());
    command
}

/// The server without a proxy.
pub(crate) fn direct_server() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$TEST_PROGRAM\" mcp_harness::serve --exact --nocapture 3>&1 >/dev/null"]);
    command.env(SERVER_VARIABLE, "1").env("TEST_PROGRAM", std::env::current_exe().unwrap());
    command
}

/// The events of the session with their decisions.
pub(crate) fn records(folder: &Path) -> Vec<EventRecord> {
    let store = StoreAddress::find_project(folder).open_existing().expect("the store");
    store.records("s1", 1, u64::MAX >> 1).expect("its events")
}

/// The type and the verdict of each event.
pub(crate) fn event_outline(folder: &Path) -> Vec<(String, &'static str)> {
    let kind = |record: &EventRecord| {
        let event: Value = serde_json::from_str(&record.text).unwrap();
        (event["type"].as_str().unwrap().to_owned(), record.verdict.as_str())
    };
    records(folder).iter().map(kind).collect()
}

/// A server with a few tools.
#[derive(Clone)]
pub(crate) struct McpTestServer;

impl ServerHandler for McpTestServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object", "z_first": 1, "a_last": 2});
        let schema = Arc::new(schema.as_object().cloned().unwrap_or_default());
        let tools = ["echo", "same", "fail", "huge", "delete"]
            .map(|name| Tool::new(name, "a tool", Arc::clone(&schema)));
        Ok(ListToolsResult::with_all_items(tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<rmcp::model::CallToolResponse, ErrorData> {
        let args = Value::from(request.arguments.clone().unwrap_or_default());
        if let Some(token) = context.meta.get_progress_token() {
            let _ = context.peer.notify_progress(ProgressNotificationParam::new(token, 1.0)).await;
        }
        let text = |text: String| CallToolResult::success(vec![ContentBlock::text(text)]);
        Ok(match request.name.as_ref() {
            "echo" => text(args.to_string()),
            "same" => text("nothing new".to_owned()),
            "delete" => text("deleted".to_owned()),
            "fail" => CallToolResult::error(vec![ContentBlock::text("it does not work")]),
            "huge" => text("é".repeat(300_000)),
            // Not listed, like tools that a real server lists on another page.
            "rows" => {
                let rows: Vec<Value> = (0..20_000).map(|n| json!({"id": n, "name": "a row"})).collect();
                let mut result = CallToolResult::structured(json!({"rows": rows, "total": 20_000}));
                result.content = vec![ContentBlock::text("20000 rows")];
                result
            }
            other => return Err(ErrorData::invalid_params(format!("Unknown tool: {other}"), None)),
        }
        .into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Ok(CustomResult::new(json!({"method": request.method, "params": request.params})))
    }
}

/// The server in a separate process; as a test it does nothing.
#[test]
fn serve() {
    if std::env::var_os(SERVER_VARIABLE).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let out =
            tokio::fs::File::from_std(std::fs::OpenOptions::new().write(true).open("/dev/fd/3").unwrap());
        let server = McpTestServer.serve((tokio::io::stdin(), out)).await.unwrap();
        let _ = server.waiting().await;
    });
    runtime.shutdown_background();
}
