//! HTTP servers built with the official library, with a stdio client and with HTTP clients.

use super::mcp_harness::{McpTestServer, TEST_TIMEOUT, event_outline, test_dir};
use super::tool_calls::{DESTRUCTIVE, ElicitingClient, McpClient, block_on, call, connect, result_texts};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Starts a server on a free port; it stops with the runtime of the test.
async fn start_server(json: bool) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let config = StreamableHttpServerConfig::default().with_json_response(json).with_sse_keep_alive(None);
    let service =
        StreamableHttpService::new(|| Ok(McpTestServer), Arc::new(LocalSessionManager::default()), config);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper_util::service::TowerToHyperService::new(service.clone());
            let io = hyper_util::rt::TokioIo::new(stream);
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(io, service));
        }
    });
    url
}

/// `flyball mcp` in front of an HTTP server, for a stdio client.
fn bridge_command(folder: &Path, url: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    command.args(["mcp", "--session", "s1", "--url", url]).args(more).current_dir(folder).env_clear();
    command
}

/// `flyball mcp` in front of an HTTP server, for HTTP clients.
struct McpHttpProxyProcess {
    child: Child,
    url: String,
}

impl McpHttpProxyProcess {
    fn start(folder: &Path, url: &str) -> Self {
        let mut command = bridge_command(folder, url, &["--listen", "127.0.0.1:0"]);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(' ').next());
        let url = format!("http://{}/", address.unwrap_or_else(|| panic!("{line}")));
        McpHttpProxyProcess { child, url }
    }
}

impl Drop for McpHttpProxyProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Repeats a call until it is warned about, denied and halted.
async fn check_repeated_call(client: &McpClient<()>) {
    assert_eq!(client.list_all_tools().await.unwrap().len(), 5);
    for number in 0..6 {
        let args = json!({"number": number});
        assert_eq!(result_texts(&call(client, "echo", args.clone()).await), [args.to_string()]);
    }
    let mut seen = Vec::new();
    for _ in 0..8 {
        let result = call(client, "same", json!({"path": "a"})).await;
        seen.push((result.is_error == Some(true), result_texts(&result).len()));
    }
    let expected =
        [(false, 1), (false, 1), (false, 2), (false, 2), (false, 2), (true, 1), (true, 1), (true, 1)];
    assert_eq!(seen, expected);
}

#[test]
fn a_client_on_stdin_and_a_server_behind_http() {
    for as_json in [false, true] {
        block_on(async {
            let folder = test_dir(&format!("bridge-{as_json}"));
            let client = connect((), bridge_command(&folder, &start_server(as_json).await, &[])).await;
            check_repeated_call(&client).await;
            client.cancel().await.unwrap();
            let finished =
                event_outline(&folder).into_iter().filter(|(kind, _)| kind == "tool.finished").count();
            assert_eq!(finished, 6 + 5, "{:?}", event_outline(&folder));
        });
    }
}

#[test]
fn bridge_forwards_elicitation() {
    block_on(async {
        let folder = test_dir("bridge-asked");
        let client = connect(
            ElicitingClient(Some(true)),
            bridge_command(&folder, &start_server(false).await, &DESTRUCTIVE),
        )
        .await;
        assert_eq!(result_texts(&call(&client, "delete", json!({"id": 1})).await), ["deleted"]);
        client.cancel().await.unwrap();
    });
}

#[test]
fn clients_over_http() {
    for as_json in [false, true] {
        block_on(async {
            let (inner, outer) =
                (test_dir(&format!("listen-{as_json}")), test_dir(&format!("listen-out-{as_json}")));
            let served = McpHttpProxyProcess::start(&inner, &start_server(as_json).await);
            // The client's side is a bridge that allows everything, so denials come from the proxy in between.
            let client = connect((), bridge_command(&outer, &served.url, &["--preset", "off"])).await;
            check_repeated_call(&client).await;
            client.cancel().await.unwrap();
            assert!(event_outline(&outer).iter().all(|(_, verdict)| *verdict == "allow"));
        });
    }
}

#[test]
fn unreachable_server_is_reported_to_the_client() {
    block_on(async {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = bridge_command(&test_dir("bridge-nobody"), &format!("http://{free}/mcp"), &[]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let line = b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"ping\"}\n";
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), line).unwrap();
        let ended = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
        let output = tokio::time::timeout(TEST_TIMEOUT, ended).await.expect("in time").unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("x"), &json!(-32000)));
    });
}

#[test]
fn foreign_origin_is_rejected() {
    block_on(async {
        let served = McpHttpProxyProcess::start(&test_dir("origin"), &start_server(true).await);
        let address = served.url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let status = move |origin: &str| {
            let mut stream = std::net::TcpStream::connect(&address).unwrap();
            let body = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
            let head =
                format!("POST / HTTP/1.1\r\nHost: {address}\r\nOrigin: {origin}\r\nConnection: close\r\n");
            let length = body.len();
            let request =
                format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
            std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).unwrap();
            line.split(' ').nth(1).unwrap().to_owned()
        };
        let answers = tokio::task::spawn_blocking(move || {
            ["https://evil.example", "null", "http://localhost:3000"].map(status)
        });
        let [evil, null, own] = answers.await.unwrap();
        assert_eq!((evil.as_str(), null.as_str()), ("403", "403"));
        assert_ne!(own, "403");
    });
}
