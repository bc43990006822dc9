//! A server process with its own store on a free port, and a client for it.

use flyball_server::{ApiKeyRequest, ApiKeyStore, AuthRole};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Timeout for the start of a server.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Creates an empty folder for a test.
pub(crate) fn test_dir(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("serve-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A server that runs until it is dropped.
pub(crate) struct TestServer {
    pub(crate) folder: PathBuf,
    pub(crate) store: String,
    /// `http://127.0.0.1:PORT`.
    pub(crate) base_url: String,
    pub(crate) child: Child,
    /// Its stderr so far.
    pub(crate) stderr: Arc<Mutex<String>>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl TestServer {
    /// Starts a server in a folder, on a SQLite store in it, with additional arguments.
    pub(crate) fn start(folder: &Path, args: &[&str]) -> Self {
        let store = format!("sqlite:{}", folder.join("flyball.db").display());
        TestServer::start_on(folder, &store, args)
    }

    /// Starts a server on a store.
    pub(crate) fn start_on(folder: &Path, store: &str, args: &[&str]) -> Self {
        TestServer::start_with_env(folder, store, args, &[])
    }

    /// Starts a server on a store with environment variables.
    pub(crate) fn start_with_env(folder: &Path, store: &str, args: &[&str], env: &[(&str, &str)]) -> Self {
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
        let stderr = Arc::new(Mutex::new(String::new()));
        let (err, kept) = (child.stderr.take().unwrap(), Arc::clone(&stderr));
        std::thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                let mut kept = kept.lock().unwrap();
                kept.push_str(&line);
                kept.push('\n');
            }
        });
        let mut server = TestServer {
            folder: folder.to_owned(),
            store: store.to_owned(),
            base_url: String::new(),
            child,
            stderr,
        };
        server.base_url = server.wait_for_output("the listening address", |stderr| {
            let marks = ["http://0.0.0.0:", "https://127.0.0.1:", "http://127.0.0.1:"];
            let rest = stderr.get(marks.iter().find_map(|mark| stderr.find(mark))?..)?;
            rest.get(..rest.find([' ', ',', '\n'])?).map(|url| url.replace("0.0.0.0", "127.0.0.1"))
        });
        server
    }

    /// Waits until `find` succeeds on stderr.
    pub(crate) fn wait_for_output<T>(&mut self, what: &str, find: impl Fn(&str) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            let stderr = self.stderr.lock().unwrap().clone();
            if let Some(found) = find(&stderr) {
                return found;
            }
            assert!(began.elapsed() < START_TIMEOUT, "timed out waiting for {what}:\n{stderr}");
            assert!(self.child.try_wait().unwrap().is_none(), "the server has exited:\n{stderr}");
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    /// Creates a key like `flyball token create`.
    pub(crate) fn create_key(&self, name: &str, role: AuthRole) -> String {
        let address = flyball_store::StoreAddress::parse(&self.store, &self.folder).unwrap();
        ApiKeyStore::new(address.open().unwrap()).create(name, role, None, None).unwrap().secret
    }

    /// Creates an agent key with access to all sessions.
    #[allow(dead_code, reason = "not every test binary uses it")]
    pub(crate) fn create_key_for_all(&self, name: &str) -> String {
        let address = flyball_store::StoreAddress::parse(&self.store, &self.folder).unwrap();
        let keys = ApiKeyStore::new(address.open().unwrap());
        let wanted =
            ApiKeyRequest { name, role: AuthRole::Agent, sessions: None, all_sessions: true, ttl_ms: None };
        keys.create_requested(wanted).unwrap().secret
    }

    /// Sends a request; returns the status and the body.
    pub(crate) fn request(
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
        self.request_with_headers(method, path, &headers, body)
    }

    /// Sends a request with these headers.
    pub(crate) fn request_with_headers(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> (u16, String) {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(START_TIMEOUT))
            .allow_non_standard_methods(true);
        let agent: ureq::Agent = config.build().into();
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.base_url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.unwrap_or_default().to_owned()).unwrap();
        let mut response = agent.run(request).unwrap();
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    }

    /// Submits an event that must be accepted; returns the decision.
    pub(crate) fn submit_event(&self, key: &str, event: &Value) -> Value {
        let (status, body) = self.request("POST", "/v1/events", Some(key), Some(&event.to_string()));
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }
}
