//! A server as a process of its own, with a store of its own on a free port, and a client that asks it.

use flyball_serve::{KeyRequest, Keys, Role};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder of its own for a test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("serve-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A server that runs until it is dropped.
pub(crate) struct Server {
    pub(crate) folder: PathBuf,
    pub(crate) store: String,
    /// `http://127.0.0.1:PORT`.
    pub(crate) place: String,
    pub(crate) child: Child,
    /// What it has written to stderr so far.
    pub(crate) said: Arc<Mutex<String>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a server in a folder, on a SQLite store in it, with more arguments.
    pub(crate) fn start(folder: &Path, args: &[&str]) -> Self {
        let store = format!("sqlite:{}", folder.join("flyball.db").display());
        Server::on(folder, &store, args)
    }

    /// Starts a server on a store.
    pub(crate) fn on(folder: &Path, store: &str, args: &[&str]) -> Self {
        Server::with(folder, store, args, &[])
    }

    /// Starts a server on a store, with variables in its environment.
    pub(crate) fn with(folder: &Path, store: &str, args: &[&str], env: &[(&str, &str)]) -> Self {
        let listen: &[&str] = if args.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        let mut child = Command::new(env!("CARGO_BIN_EXE_flyball"))
            .args(["serve", "--store", store])
            .args(listen)
            .args(args)
            .current_dir(folder)
            .env_remove("FLYBALL_STORE")
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (err, kept) = (child.stderr.take().unwrap(), Arc::clone(&said));
        std::thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                let mut kept = kept.lock().unwrap();
                kept.push_str(&line);
                kept.push('\n');
            }
        });
        let mut server =
            Server { folder: folder.to_owned(), store: store.to_owned(), place: String::new(), child, said };
        server.place = server.until("where it listens", |said| {
            let marks = ["http://0.0.0.0:", "https://127.0.0.1:", "http://127.0.0.1:"];
            let rest = said.get(marks.iter().find_map(|mark| said.find(mark))?..)?;
            rest.get(..rest.find([' ', ',', '\n'])?).map(|place| place.replace("0.0.0.0", "127.0.0.1"))
        });
        server
    }

    /// Waits until something was said.
    pub(crate) fn until<T>(&mut self, what: &str, find: impl Fn(&str) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            let said = self.said.lock().unwrap().clone();
            if let Some(found) = find(&said) {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "{what} was not said:\n{said}");
            assert!(self.child.try_wait().unwrap().is_none(), "the server has ended:\n{said}");
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    /// Makes a key, as `flyball token create` does.
    pub(crate) fn key(&self, name: &str, role: Role) -> String {
        let address = flyball_journal::Address::read(&self.store, &self.folder).unwrap();
        Keys::new(address.open().unwrap()).create(name, role, None, None).unwrap().secret
    }

    /// Makes a key of an agent that sees all sessions.
    #[allow(dead_code, reason = "not every test that uses the kit needs it")]
    pub(crate) fn key_for_all(&self, name: &str) -> String {
        let address = flyball_journal::Address::read(&self.store, &self.folder).unwrap();
        let keys = Keys::new(address.open().unwrap());
        let wanted = KeyRequest { name, role: Role::Agent, sessions: None, all_sessions: true, ttl_ms: None };
        keys.create_requested(wanted).unwrap().secret
    }

    /// Asks; gives the status and the body.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        key: Option<&str>,
        body: Option<&str>,
    ) -> (u16, String) {
        let mut headers: Vec<(&str, String)> = Vec::new();
        if let Some(key) = key {
            headers.push(("Authorization", format!("Bearer {key}")));
        }
        if body.is_some() {
            headers.push(("Content-Type", "application/json".to_owned()));
        }
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.ask_with(method, path, &headers, body)
    }

    /// Asks with headers of one's own.
    pub(crate) fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> (u16, String) {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(PATIENCE))
            .allow_non_standard_methods(true);
        let agent: ureq::Agent = config.build().into();
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.place));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.unwrap_or_default().to_owned()).unwrap();
        let mut response = agent.run(request).unwrap();
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    }

    /// Submits an event, which must be taken; gives the decision.
    pub(crate) fn event(&self, key: &str, event: &Value) -> Value {
        let (status, body) = self.ask("POST", "/v1/events", Some(key), Some(&event.to_string()));
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }
}
