//! A proxy that runs, clients that talk through it, and what is in its store afterwards.

use flyball_journal::{Address, Record};
use flyball_run::process::Cancel;
use flyball_run::provider::{Provider, Providers, Reply, Request, ToolSpec, build};
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

/// The key that tests send.
pub(crate) const KEY: &str = "zq-live-0123456789abcdefghij";
/// Long enough that nothing but a hang reaches it.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A folder of its own for one test, empty at the start.
pub(crate) fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("proxy-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(path.join(".git")).expect("a folder");
    path
}

/// Runs `flyball` to its end in a folder; gives exit code, stdout and stderr.
pub(crate) fn flyball(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    command.args(args).current_dir(folder).env_clear().env("USER", "anna").stdin(Stdio::null());
    let output = command.output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A proxy that runs.
pub(crate) struct Proxy {
    child: Child,
    pub(crate) address: String,
    pub(crate) folder: PathBuf,
    heard: Arc<Mutex<String>>,
    ear: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts one in a folder, before this server, with these arguments besides.
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
        let address = address.unwrap_or_else(|| panic!("{first}{}", rest_of(&mut err))).to_owned();
        let heard = Arc::new(Mutex::new(first));
        let ear = std::thread::spawn({
            let heard = Arc::clone(&heard);
            move || {
                let mut line = String::new();
                while err.read_line(&mut line).is_ok_and(|read| read > 0) {
                    heard.lock().unwrap().push_str(&line);
                    line.clear();
                }
            }
        });
        Proxy { child, address, folder: folder.to_owned(), heard, ear: Some(ear) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Ends it, as a service manager does; gives what it said on stderr.
    pub(crate) fn stop(self) -> String {
        self.signal(Signal::TERM);
        self.ended()
    }

    /// Waits until it has ended by itself; gives what it said on stderr.
    pub(crate) fn ended(mut self) -> String {
        let until = Instant::now() + LONG;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "{status}");
                break;
            }
            assert!(Instant::now() < until, "the proxy does not end");
            std::thread::yield_now();
        }
        self.ear.take().unwrap().join().unwrap();
        self.heard.lock().unwrap().clone()
    }

    /// The events of a session with their decisions, from the store.
    pub(crate) fn records(&self, session: &str) -> Vec<Record> {
        let desk = Address::project(&self.folder).open_existing().expect("the store");
        desk.records(session, 1, u64::MAX >> 1).expect("its events")
    }

    /// The names of all sessions in the store.
    pub(crate) fn sessions(&self) -> Vec<String> {
        let (_, out, _) = flyball(&self.folder, &["list", "--json"]);
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

fn rest_of(from: &mut impl Read) -> String {
    let mut text = String::new();
    let _ = from.read_to_string(&mut text);
    text
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The type and the verdict of each event.
pub(crate) fn outline(records: &[Record]) -> Vec<(String, &'static str)> {
    let kind = |record: &Record| {
        let event: Value = serde_json::from_str(&record.text).unwrap();
        (event["type"].as_str().unwrap().to_owned(), record.verdict.as_str())
    };
    records.iter().map(kind).collect()
}

/// An HTTP answer as it came over the wire.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heard {
    pub(crate) status: u16,
    /// Names in small letters; those of the connection, the date and our own are left out.
    pub(crate) headers: BTreeMap<String, String>,
    /// Our own.
    pub(crate) ours: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// It came to its end.
    pub(crate) whole: bool,
}

impl Heard {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends a request over a connection of its own and reads everything that comes back.
pub(crate) fn send(address: &str, head: &str, body: &[u8]) -> Heard {
    let mut stream = connect(address, head, body);
    let mut bytes = Vec::new();
    // A connection that is reset has said all it will say.
    let _ = stream.read_to_end(&mut bytes);
    parse(&bytes)
}

/// Sends a request, and leaves the connection open.
pub(crate) fn connect(address: &str, head: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(LONG)).unwrap();
    let length = body.len();
    let head = format!("{head}\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    stream
}

fn parse(bytes: &[u8]) -> Heard {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut answer = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(head)) = answer.parse(bytes) else {
        let headers = BTreeMap::new();
        return Heard { status: 0, ours: headers.clone(), headers, body: bytes.to_vec(), whole: false };
    };
    let all: BTreeMap<String, String> = answer
        .headers
        .iter()
        .map(|h| (h.name.to_ascii_lowercase(), String::from_utf8_lossy(h.value).into_owned()))
        .collect();
    let status = answer.code.unwrap();
    let rest = &bytes[head..];
    let (body, whole) = if all.get("transfer-encoding").is_some_and(|value| value == "chunked") {
        unchunk(rest)
    } else if let Some(length) = all.get("content-length") {
        (rest.to_vec(), rest.len() == length.parse::<usize>().unwrap())
    } else {
        (rest.to_vec(), true)
    };
    let (ours, mut headers): (BTreeMap<_, _>, BTreeMap<_, _>) =
        all.into_iter().partition(|(name, _)| name.starts_with("x-flyball-"));
    headers.retain(|name, _| !["connection", "transfer-encoding", "date"].contains(&name.as_str()));
    Heard { status, headers, ours, body, whole }
}

/// The body of an answer in chunks, and whether the last one is there.
fn unchunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
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

/// The two protocols that the providers' own code speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    OpenAi,
    Anthropic,
}

pub(crate) const BOTH: [Kind; 2] = [Kind::OpenAi, Kind::Anthropic];

impl Kind {
    /// The head of a request.
    pub(crate) fn head(self) -> String {
        match self {
            Kind::OpenAi => format!("POST /v1/chat/completions HTTP/1.1\r\nAuthorization: Bearer {KEY}"),
            Kind::Anthropic => {
                format!("POST /v1/messages HTTP/1.1\r\nx-api-key: {KEY}\r\nanthropic-version: 2023-06-01")
            }
        }
    }

    /// A request with these messages.
    pub(crate) fn body(self, messages: &Value, stream: bool) -> Vec<u8> {
        let mut body = json!({"model": "test-model", "messages": messages, "stream": stream});
        if self == Kind::Anthropic {
            body["max_tokens"] = json!(1000);
        }
        body.to_string().into_bytes()
    }

    /// The providers' own code, asking at an address.
    pub(crate) fn provider(self, url: &str, stream: bool) -> Box<dyn Provider> {
        let mut config = match self {
            Kind::OpenAi => json!({"kind": "openai", "base_url": format!("{url}/v1")}),
            Kind::Anthropic => json!({"kind": "anthropic", "base_url": url}),
        };
        config["model"] = json!("test-model");
        config["key_env"] = json!("TEST_KEY");
        config["stream"] = json!(stream);
        config["retry"] = json!({"base": 1, "cap": 2});
        let file = Providers::from_value(&json!({"main": config})).unwrap();
        let env = |name: &str| (name == "TEST_KEY").then(|| KEY.to_owned());
        build(file.get("main").unwrap(), "main", &env).unwrap()
    }
}

/// A question with a tool.
pub(crate) fn question(text: &str) -> Request {
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    Request {
        system: Some("be brief".to_owned()),
        tools: vec![ToolSpec { name: "bash".to_owned(), description: "runs a command".to_owned(), schema }],
        deadline: Some(LONG),
        ..Request::new(text)
    }
}

/// Asks, and panics if there is no answer.
pub(crate) fn ask(provider: &dyn Provider, request: &Request) -> Reply {
    provider
        .ask(request, &Cancel::new(), &mut |_| {})
        .unwrap_or_else(|error| panic!("{error}; {}", error.advice))
}
