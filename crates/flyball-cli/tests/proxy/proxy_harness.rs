//! A running proxy, clients that use it, and the contents of its store.

use flyball_runner::process::CancelToken;
use flyball_runner::provider::{
    ModelReply, ModelRequest, ModelToolSpec, Provider, ProviderConfigs, build_provider,
};
use flyball_store::{EventRecord, StoreAddress};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The API key of the tests.
pub(crate) const TEST_API_KEY: &str = "zq-live-0123456789abcdefghij";
/// Only a hang takes this long.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A new, empty directory for one test.
pub(crate) fn test_dir(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("proxy-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(path.join(".git")).expect("a folder");
    path
}

/// Runs `flyball` to its end in a directory; returns exit code, stdout and stderr.
pub(crate) fn run_flyball(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    command.args(args).current_dir(folder).env_clear().env("USER", "anna").stdin(Stdio::null());
    let output = command.output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A running proxy.
pub(crate) struct ProxyProcess {
    child: Child,
    pub(crate) address: String,
    pub(crate) folder: PathBuf,
    stderr: Arc<Mutex<String>>,
    stderr_thread: Option<JoinHandle<()>>,
}

impl ProxyProcess {
    /// Starts a proxy in a directory, in front of a server, with additional arguments.
    pub(crate) fn start(folder: &Path, upstream: &str, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command.args(["proxy", "--listen", "127.0.0.1:0", "--upstream", upstream]).args(more);
        command.current_dir(folder).env_clear();
        let mut child =
            command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut err = BufReader::new(child.stderr.take().expect("stderr"));
        let mut first = String::new();
        err.read_line(&mut first).expect("a line");
        let address = first.split("http://").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.unwrap_or_else(|| panic!("{first}{}", read_to_end(&mut err))).to_owned();
        let stderr = Arc::new(Mutex::new(first));
        let ear = std::thread::spawn({
            let response = Arc::clone(&stderr);
            move || {
                let mut line = String::new();
                while err.read_line(&mut line).is_ok_and(|read| read > 0) {
                    response.lock().unwrap().push_str(&line);
                    line.clear();
                }
            }
        });
        ProxyProcess { child, address, folder: folder.to_owned(), stderr, stderr_thread: Some(ear) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Stops it as a service manager does; returns its stderr.
    pub(crate) fn stop(self) -> String {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits for its exit; returns its stderr.
    pub(crate) fn wait(mut self) -> String {
        let until = Instant::now() + TEST_TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "{status}");
                break;
            }
            assert!(Instant::now() < until, "the proxy does not exit");
            std::thread::yield_now();
        }
        self.stderr_thread.take().unwrap().join().unwrap();
        self.stderr.lock().unwrap().clone()
    }

    /// The stored events of a session with their decisions.
    pub(crate) fn records(&self, session: &str) -> Vec<EventRecord> {
        let store = StoreAddress::find_project(&self.folder).open_existing().expect("the store");
        store.records(session, 1, u64::MAX >> 1).expect("its events")
    }

    /// Names of all stored sessions.
    pub(crate) fn sessions(&self) -> Vec<String> {
        let (_, out, _) = run_flyball(&self.folder, &["list", "--json"]);
        let mut names = Vec::new();
        find_sessions(&serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}")), &mut names);
        names.sort();
        names.dedup();
        names
    }
}

fn find_sessions(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| find_sessions(value, names)),
        Value::Object(map) => {
            names.extend(map.get("session").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| find_sessions(value, names));
        }
        _ => {}
    }
}

fn read_to_end(from: &mut impl Read) -> String {
    let mut text = String::new();
    let _ = from.read_to_string(&mut text);
    text
}

impl Drop for ProxyProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The type and the verdict of each event.
pub(crate) fn event_outline(records: &[EventRecord]) -> Vec<(String, &'static str)> {
    let kind = |record: &EventRecord| {
        let event: Value = serde_json::from_str(&record.text).unwrap();
        (event["type"].as_str().unwrap().to_owned(), record.verdict.as_str())
    };
    records.iter().map(kind).collect()
}

/// A raw HTTP response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RawHttpResponse {
    pub(crate) status: u16,
    /// Headers by lowercase name, without those of the connection, the date and our own.
    pub(crate) headers: BTreeMap<String, String>,
    /// Our own headers.
    pub(crate) flyball_headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// Whether it is complete.
    pub(crate) complete: bool,
}

impl RawHttpResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends a request on a new connection and reads the whole response.
pub(crate) fn send(address: &str, head: &str, body: &[u8]) -> RawHttpResponse {
    let mut stream = send_and_keep_open(address, head, body);
    let mut bytes = Vec::new();
    // After a reset there is no more data.
    let _ = stream.read_to_end(&mut bytes);
    parse(&bytes)
}

/// Sends a request and keeps the connection open.
pub(crate) fn send_and_keep_open(address: &str, head: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let length = body.len();
    let head = format!("{head}\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    stream
}

fn parse(bytes: &[u8]) -> RawHttpResponse {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut answer = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(head)) = answer.parse(bytes) else {
        let headers = BTreeMap::new();
        return RawHttpResponse {
            status: 0,
            flyball_headers: headers.clone(),
            headers,
            body: bytes.to_vec(),
            complete: false,
        };
    };
    let all: BTreeMap<String, String> = answer
        .headers
        .iter()
        .map(|h| (h.name.to_ascii_lowercase(), String::from_utf8_lossy(h.value).into_owned()))
        .collect();
    let status = answer.code.unwrap();
    let rest = &bytes[head..];
    let (body, whole) = if all.get("transfer-encoding").is_some_and(|value| value == "chunked") {
        decode_chunked(rest)
    } else if let Some(length) = all.get("content-length") {
        (rest.to_vec(), rest.len() == length.parse::<usize>().unwrap())
    } else {
        (rest.to_vec(), true)
    };
    let (ours, mut headers): (BTreeMap<_, _>, BTreeMap<_, _>) =
        all.into_iter().partition(|(name, _)| name.starts_with("x-flyball-"));
    headers.retain(|name, _| !["connection", "transfer-encoding", "date"].contains(&name.as_str()));
    RawHttpResponse { status, headers, flyball_headers: ours, body, complete: whole }
}

/// The body of a chunked response, and whether the last chunk arrived.
fn decode_chunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(at) = rest.windows(2).position(|pair| pair == b"\r\n") else { return (body, false) };
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..at]).unwrap().trim(), 16).unwrap();
        rest = &rest[at + 2..];
        if size == 0 {
            return (body, rest.starts_with(b"\r\n"));
        }
        body.extend_from_slice(&rest[..size.min(rest.len())]);
        if rest.len() < size + 2 {
            return (body, false);
        }
        rest = &rest[size + 2..];
    }
}

/// The two protocols of the provider clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProviderProtocol {
    OpenAi,
    Anthropic,
}

pub(crate) const PROTOCOLS: [ProviderProtocol; 2] = [ProviderProtocol::OpenAi, ProviderProtocol::Anthropic];

impl ProviderProtocol {
    /// The head of a request.
    pub(crate) fn request_head(self) -> String {
        match self {
            ProviderProtocol::OpenAi => {
                format!("POST /v1/chat/completions HTTP/1.1\r\nAuthorization: Bearer {TEST_API_KEY}")
            }
            ProviderProtocol::Anthropic => {
                format!(
                    "POST /v1/messages HTTP/1.1\r\nx-api-key: {TEST_API_KEY}\r\nanthropic-version: 2023-06-01"
                )
            }
        }
    }

    /// The body of a request with these messages.
    pub(crate) fn request_body(self, messages: &Value, stream: bool) -> Vec<u8> {
        let mut body = json!({"model": "test-model", "messages": messages, "stream": stream});
        if self == ProviderProtocol::Anthropic {
            body["max_tokens"] = json!(1000);
        }
        body.to_string().into_bytes()
    }

    /// A provider client for a URL.
    pub(crate) fn provider(self, url: &str, stream: bool) -> Box<dyn Provider> {
        let mut config = match self {
            ProviderProtocol::OpenAi => json!({"kind": "openai", "base_url": format!("{url}/v1")}),
            ProviderProtocol::Anthropic => json!({"kind": "anthropic", "base_url": url}),
        };
        config["model"] = json!("test-model");
        config["key_env"] = json!("TEST_KEY");
        config["stream"] = json!(stream);
        config["retry"] = json!({"base": 1, "cap": 2});
        let file = ProviderConfigs::from_value(&json!({"main": config})).unwrap();
        let env = |name: &str| (name == "TEST_KEY").then(|| TEST_API_KEY.to_owned());
        build_provider(file.get("main").unwrap(), "main", &env).unwrap()
    }
}

/// A request with a question and a tool.
pub(crate) fn question_request(text: &str) -> ModelRequest {
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    ModelRequest {
        system: Some("be brief".to_owned()),
        tools: vec![ModelToolSpec {
            name: "bash".to_owned(),
            description: "runs a command".to_owned(),
            schema,
        }],
        deadline: Some(TEST_TIMEOUT),
        ..ModelRequest::new(text)
    }
}

/// Sends a request; panics if there is no reply.
pub(crate) fn ask(provider: &dyn Provider, request: &ModelRequest) -> ModelReply {
    provider
        .ask(request, &CancelToken::new(), &mut |_| {})
        .unwrap_or_else(|error| panic!("{error}; {}", error.help))
}
