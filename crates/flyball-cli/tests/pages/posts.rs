//! An agent takes its guard down: it swaps the hook, loosens the policy, kills the proxy. The page shows it.

use super::kit::{Server, folder};
use super::visitor::Visitor;
use flyball_serve::Role;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take until the page shows it. The server looks every second.
const PATIENCE: Duration = Duration::from_secs(30);
const ALARM: &str = "A guard is down";

/// A project with a hook, nobody's home but its own.
struct Project {
    folder: PathBuf,
    store: String,
}

impl Project {
    fn new(name: &str) -> Self {
        let folder = folder(name);
        std::fs::create_dir(folder.join(".git")).unwrap();
        let project = Project { store: format!("sqlite:{}", folder.join("flyball.db").display()), folder };
        assert!(project.flyball(&["hook", "claude-code", "install"], &[]).contains("written"));
        project
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command.args(args).current_dir(&self.folder).env("HOME", &self.folder).env_remove("FLYBALL_STORE");
        command
    }

    fn flyball(&self, args: &[&str], env: &[(&str, &str)]) -> String {
        let done = self.command(args).envs(env.iter().copied()).output().unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
    }

    fn settings(&self) -> PathBuf {
        self.folder.join(".claude/settings.json")
    }

    fn serve(&self) -> (Server, Visitor) {
        self.serve_from(&self.folder, &[])
    }

    /// A server that is started in some folder, on the project's store.
    fn serve_from(&self, place: &Path, more: &[&str]) -> (Server, Visitor) {
        let home = self.folder.display().to_string();
        let args = [&["--no-socket"], more].concat();
        let server = Server::with(place, &self.store, &args, &[("HOME", &home)]);
        let mut visitor = Visitor::new(&server);
        visitor.enter(&server.key("anna", Role::Operator));
        (server, visitor)
    }

    fn proxy(&self) -> Child {
        let args =
            ["proxy", "--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:9", "--store", &self.store];
        let mut command = self.command(&args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }
}

/// Looks at a page until it is as it should be; gives it.
fn until(visitor: &Visitor, page: &str, right: impl Fn(&str) -> bool) -> String {
    let began = Instant::now();
    loop {
        let body = visitor.get(page).body;
        if right(&body) {
            return body;
        }
        assert!(began.elapsed() < PATIENCE, "{body}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

fn swapped(path: &Path) -> String {
    let before = std::fs::read_to_string(path).unwrap();
    std::fs::write(path, before.replace("hook claude-code", "--version")).unwrap();
    before
}

#[test]
fn a_hook_that_is_swapped_is_shown_on_every_page_until_it_is_back() {
    let project = Project::new("posts-hook");
    let (server, visitor) = project.serve();
    until(&visitor, "/health", |body| body.contains("Claude Code, ") && !body.contains(ALARM));
    let before = swapped(&project.settings());
    for page in ["/", "/sessions", "/health"] {
        let body = until(&visitor, page, |body| body.contains(ALARM));
        assert!(body.contains("settings.json"), "{body}");
    }
    std::fs::remove_file(project.settings()).unwrap();
    until(&visitor, "/health", |body| body.contains("its settings are gone"));
    // Whoever restarts the server does not make it forget.
    drop(server);
    let (server, visitor) = project.serve();
    until(&visitor, "/", |body| body.contains(ALARM));
    assert!(server.said.lock().unwrap().contains("post_fallen"));
    // That the first server was killed is shown, too.
    std::fs::write(project.settings(), before).unwrap();
    until(&visitor, "/", |body| !body.contains("settings.json") && body.contains("flyball serve"));
}

#[test]
fn a_policy_that_is_loosened_is_shown_until_a_person_accepts_it() {
    let project = Project::new("posts-policy");
    // The server stands elsewhere, and is told what to watch.
    let watched = project.folder.display().to_string();
    let (_server, visitor) = project.serve_from(&folder("posts-elsewhere"), &["--watch", &watched]);
    until(&visitor, "/health", |body| body.contains("<td>policy</td>") && !body.contains(ALARM));
    std::fs::write(project.folder.join("flyball.yaml"), "version: 1\nguards: {repetition: off}\n").unwrap();
    until(&visitor, "/", |body| body.contains(ALARM));
    let accept = ["doctor", "--accept", "--store", &project.store];
    assert!(project.flyball(&accept, &[("CLAUDECODE", "1")]).contains("agent_speaks"));
    assert!(project.flyball(&["doctor", "--store", &project.store], &[]).contains("has fallen"));
    until(&visitor, "/", |body| body.contains(ALARM));
    project.flyball(&accept, &[]);
    until(&visitor, "/", |body| !body.contains(ALARM));
}

#[test]
fn a_proxy_that_is_killed_or_stopped_is_shown_and_one_that_ends_in_order_is_not() {
    let project = Project::new("posts-proxy");
    let (_server, visitor) = project.serve();
    let signal = |child: &Child, name: &str| {
        let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    };
    let stands = |body: &str| body.contains("flyball proxy") && !body.contains(ALARM);
    let mut proxy = project.proxy();
    until(&visitor, "/health", stands);
    signal(&proxy, "-STOP");
    until(&visitor, "/health", |body| body.contains(ALARM) && body.contains("it was stopped"));
    signal(&proxy, "-CONT");
    until(&visitor, "/health", stands);
    proxy.kill().unwrap();
    proxy.wait().unwrap();
    until(&visitor, "/health", |body| body.contains(ALARM) && body.contains("as if killed"));
    project.flyball(&["doctor", "--accept", "--store", &project.store], &[]);
    let mut proxy = project.proxy();
    until(&visitor, "/health", stands);
    signal(&proxy, "-TERM");
    proxy.wait().unwrap();
    until(&visitor, "/health", |body| !body.contains("flyball proxy") && !body.contains(ALARM));
}
