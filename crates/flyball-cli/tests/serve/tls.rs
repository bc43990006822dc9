//! TLS termination, and the warning for plain HTTP on a network address.

use crate::server_harness::{TestServer, test_dir};
use flyball_server::AuthRole;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Writes a certificate for this machine and its key to files.
fn write_certificate(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let names = ["127.0.0.1", "localhost", "flyball.example"].map(str::to_owned);
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let (at, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    std::fs::write(&at, cert.pem()).unwrap();
    std::fs::write(&key, signing_key.serialize_pem()).unwrap();
    (at, key)
}

fn start_server(folder: &Path, more: &[&str]) -> (TestServer, PathBuf) {
    let (cert, key) = write_certificate(folder, "server");
    let mut args =
        vec!["--no-socket", "--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    args.extend(more);
    (TestServer::start(folder, &args), cert)
}

/// A client that trusts only this certificate.
fn client_trusting(cert: &Path) -> ureq::Agent {
    let pem = std::fs::read(cert).unwrap();
    let roots = RootCerts::new_with_certs(&[Certificate::from_pem(&pem).unwrap()]);
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_global(Some(Duration::from_secs(60)))
        .tls_config(TlsConfig::builder().root_certs(roots).build());
    config.build().into()
}

#[test]
fn server_uses_tls_and_binds_the_cookie_to_its_host() {
    let folder = test_dir("tls");
    let (mut server, cert) = start_server(&folder, &["--host", "flyball.example"]);
    assert!(server.base_url.starts_with("https://127.0.0.1:"), "{}", server.base_url);
    let link = server.wait_for_output("a link", |stderr| {
        stderr.lines().find(|line| line.contains("/login?link=")).map(str::to_owned)
    });
    assert!(link.contains("https://flyball.example:"), "{link}");
    let (agent, anna) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    let https = client_trusting(&cert);
    let event = r#"{"type":"turn.started","session":"s"}"#;
    let mut answer = https
        .post(format!("{}/v1/events", server.base_url))
        .header("Authorization", format!("Bearer {agent}"))
        .header("Content-Type", "application/json")
        .send(event)
        .unwrap();
    let response = answer.body_mut().read_to_string().unwrap();
    assert!(answer.status() == 200 && response.contains("allow"), "{response}");
    assert!(answer.headers().get("strict-transport-security").is_none(), "no HSTS for an IP address");

    let login = |origin: &str| {
        let request = https.post(format!("{}/login", server.base_url)).header("Origin", origin);
        request
            .header("Content-Type", "application/x-www-form-urlencoded")
            .send(format!("secret={anna}"))
            .unwrap()
    };
    let entered = login(&server.base_url);
    let cookie = entered.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.starts_with("__Host-flyball_login") && cookie.contains("; Secure"), "{cookie}");
    assert!(!cookie.contains("Domain"), "{cookie}");
    let own = cookie.split(';').next().unwrap();
    let inbox =
        https.get(format!("{}/", server.base_url)).header("Cookie", own).header("Accept", "text/html").call();
    assert_eq!(inbox.unwrap().status(), 200);
    assert_eq!(login(&server.base_url.replace("https://", "http://")).status(), 403, "a page without TLS");

    let strict =
        https.get(format!("{}/healthz", server.base_url)).header("Host", "flyball.example").call().unwrap();
    assert_eq!(strict.headers()["strict-transport-security"], "max-age=2592000");
    let other = client_trusting(&write_certificate(&folder, "other").0);
    assert!(
        other.get(format!("{}/healthz", server.base_url)).call().is_err(),
        "a client that trusts another certificate"
    );
    // Plain HTTP on the same port is rejected.
    let plain = server.send_raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(!plain.contains("200"), "{plain}");
    if let Ok(curl) = Command::new("curl")
        .args(["-s", "--cacert", cert.to_str().unwrap(), &format!("{}/healthz", server.base_url)])
        .output()
    {
        assert_eq!(String::from_utf8_lossy(&curl.stdout), "ok\n", "{curl:?}");
    }
}

#[test]
fn unusable_certificate_and_key_are_reported() {
    let folder = test_dir("tls-errors");
    let ((cert, key), (_, other)) = (write_certificate(&folder, "one"), write_certificate(&folder, "two"));
    let (empty, broken) = (folder.join("empty.pem"), folder.join("broken.pem"));
    std::fs::write(&empty, "").unwrap();
    std::fs::write(&broken, "-----BEGIN CERTIFICATE-----\nnot base64!\n-----END CERTIFICATE-----\n").unwrap();
    let none = folder.join("none.pem");
    for (cert, key, code) in [
        (&cert, &other, "tls_mismatch"),
        (&none, &key, "tls_certificate"),
        (&empty, &key, "tls_certificate"),
        (&broken, &key, "tls_certificate"),
        (&key, &key, "tls_certificate"),
        (&cert, &none, "tls_key"),
        (&cert, &cert, "tls_key"),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_flyball"))
            .args(["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--tls-cert"])
            .arg(cert)
            .arg("--tls-key")
            .arg(key)
            .current_dir(&folder)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(code) && stderr.contains("help"), "{code}: {stderr}");
        assert!(!stderr.contains("PRIVATE KEY"), "{stderr}");
    }
    let alone = Command::new(env!("CARGO_BIN_EXE_flyball"))
        .args(["serve", "--tls-cert"])
        .arg(&cert)
        .output()
        .unwrap();
    assert_eq!(alone.status.code(), Some(2), "a certificate without a key is a usage error");
}

#[test]
fn plain_http_beyond_this_machine_is_warned_about() {
    let folder = test_dir("plain-http");
    let mut server = TestServer::start(&folder, &["--no-socket", "--listen", "0.0.0.0:0", "--log", "json"]);
    server.wait_for_output("a warning", |stderr| stderr.contains("warning[plain_http]").then_some(()));
    server.wait_for_output("a log line", |stderr| stderr.contains(r#""code":"plain_http""#).then_some(()));
    let anna = server.create_key("anna", AuthRole::Operator);
    let (_, page) = server.request("GET", "/", Some(&anna), None);
    assert!(page.contains("Plain HTTP on a network address"), "{page}");
    drop(server);
    let mut insecure =
        TestServer::start(&folder, &["--no-socket", "--listen", "0.0.0.0:0", "--insecure-http"]);
    insecure.wait_for_output("all startup lines", |stderr| stderr.contains("keys for people").then_some(()));
    assert!(!insecure.stderr.lock().unwrap().contains("plain_http"));
    assert!(!insecure.request("GET", "/", Some(&anna), None).1.contains("Plain HTTP on a network"));
    drop(insecure);
    let mut local = TestServer::start(&folder, &["--no-socket"]);
    local.wait_for_output("all startup lines", |stderr| stderr.contains("keys for people").then_some(()));
    assert!(!local.stderr.lock().unwrap().contains("plain_http"), "no warning for a loopback address");
}
