//! Coverage on the dashboard: a replaced hook, a loosened policy or a killed proxy is shown.

use super::browser_client::BrowserClient;
use super::server_harness::{TestServer, test_dir};
use flyball_server::AuthRole;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take until the page shows it. The server checks every second.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
const ALERT_TEXT: &str = "Coverage lost";

/// A project with a hook and its own home directory.
struct CoverageProject {
    folder: PathBuf,
    store: String,
}

impl CoverageProject {
    fn new(name: &str) -> Self {
        let folder = test_dir(name);
        std::fs::create_dir(folder.join(".git")).unwrap();
        let project =
            CoverageProject { store: format!("sqlite:{}", folder.join("flyball.db").display()), folder };
        assert!(project.run_flyball(&["hook", "claude-code", "install"], &[]).contains("written"));
        project
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command.args(args).current_dir(&self.folder).env("HOME", &self.folder).env_remove("FLYBALL_STORE");
        command
    }

    fn run_flyball(&self, args: &[&str], env: &[(&str, &str)]) -> String {
        let done = self.command(args).envs(env.iter().copied()).output().unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
    }

    fn settings_file(&self) -> PathBuf {
        self.folder.join(".claude/settings.json")
    }

    fn start_server(&self) -> (TestServer, BrowserClient) {
        self.start_server_in(&self.folder, &[])
    }

    /// Starts a server in some folder, on the project's store.
    fn start_server_in(&self, dir: &Path, more: &[&str]) -> (TestServer, BrowserClient) {
        let home = self.folder.display().to_string();
        let args = [&["--no-socket"], more].concat();
        let server = TestServer::start_with_env(dir, &self.store, &args, &[("HOME", &home)]);
        let mut browser = BrowserClient::new(&server);
        browser.log_in(&server.create_key("anna", AuthRole::Operator));
        (server, browser)
    }

    fn start_proxy(&self) -> Child {
        let args =
            ["proxy", "--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:9", "--store", &self.store];
        let mut command = self.command(&args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }
}

/// Loads a page until it is as expected; returns it.
fn wait_for_page(browser: &BrowserClient, page: &str, right: impl Fn(&str) -> bool) -> String {
    let began = Instant::now();
    loop {
        let body = browser.get(page).body;
        if right(&body) {
            return body;
        }
        assert!(began.elapsed() < PAGE_TIMEOUT, "{body}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

fn swap_hook(path: &Path) -> String {
    let before = std::fs::read_to_string(path).unwrap();
    std::fs::write(path, before.replace("hook claude-code", "--version")).unwrap();
    before
}

#[test]
fn replaced_hook_is_shown_on_every_page_until_restored() {
    let project = CoverageProject::new("coverage-hook");
    let (server, browser) = project.start_server();
    wait_for_page(&browser, "/health", |body| body.contains("Claude Code, ") && !body.contains(ALERT_TEXT));
    let before = swap_hook(&project.settings_file());
    for page in ["/", "/sessions", "/health"] {
        let body = wait_for_page(&browser, page, |body| body.contains(ALERT_TEXT));
        assert!(body.contains("settings.json"), "{body}");
    }
    std::fs::remove_file(project.settings_file()).unwrap();
    wait_for_page(&browser, "/health", |body| body.contains("its settings file is missing"));
    // Restarting the server does not clear it.
    drop(server);
    let (server, browser) = project.start_server();
    wait_for_page(&browser, "/", |body| body.contains(ALERT_TEXT));
    assert!(server.stderr.lock().unwrap().contains("coverage_lost"));
    // The killed first server is shown, too.
    std::fs::write(project.settings_file(), before).unwrap();
    wait_for_page(&browser, "/", |body| !body.contains("settings.json") && body.contains("flyball serve"));
}

#[test]
fn loosened_policy_is_shown_until_a_person_accepts_it() {
    let project = CoverageProject::new("coverage-policy");
    // The server runs in another folder, and `--watch` names the project.
    let watched = project.folder.display().to_string();
    let (_server, browser) = project.start_server_in(&test_dir("coverage-elsewhere"), &["--watch", &watched]);
    wait_for_page(&browser, "/health", |body| body.contains("<td>policy</td>") && !body.contains(ALERT_TEXT));
    std::fs::write(project.folder.join("flyball.yaml"), "version: 1\nguards: {repetition: off}\n").unwrap();
    wait_for_page(&browser, "/", |body| body.contains(ALERT_TEXT));
    let accept = ["doctor", "--accept", "--store", &project.store];
    assert!(project.run_flyball(&accept, &[("CLAUDECODE", "1")]).contains("agent_not_allowed"));
    assert!(project.run_flyball(&["doctor", "--store", &project.store], &[]).contains("is no longer armed"));
    wait_for_page(&browser, "/", |body| body.contains(ALERT_TEXT));
    project.run_flyball(&accept, &[]);
    wait_for_page(&browser, "/", |body| !body.contains(ALERT_TEXT));
}

#[test]
fn killed_or_suspended_proxy_is_shown_and_a_clean_exit_is_not() {
    let project = CoverageProject::new("coverage-proxy");
    let (_server, browser) = project.start_server();
    let signal = |child: &Child, name: &str| {
        let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    };
    let is_armed = |body: &str| body.contains("flyball proxy") && !body.contains(ALERT_TEXT);
    let mut proxy = project.start_proxy();
    wait_for_page(&browser, "/health", is_armed);
    signal(&proxy, "-STOP");
    wait_for_page(&browser, "/health", |body| body.contains(ALERT_TEXT) && body.contains("it is suspended"));
    signal(&proxy, "-CONT");
    wait_for_page(&browser, "/health", is_armed);
    proxy.kill().unwrap();
    proxy.wait().unwrap();
    wait_for_page(&browser, "/health", |body| body.contains(ALERT_TEXT) && body.contains("as if killed"));
    project.run_flyball(&["doctor", "--accept", "--store", &project.store], &[]);
    let mut proxy = project.start_proxy();
    wait_for_page(&browser, "/health", is_armed);
    signal(&proxy, "-TERM");
    proxy.wait().unwrap();
    wait_for_page(&browser, "/health", |body| !body.contains("flyball proxy") && !body.contains(ALERT_TEXT));
}
