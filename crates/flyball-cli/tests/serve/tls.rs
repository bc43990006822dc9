//! TLS in the server itself, and the warning for plain HTTP beyond this machine.

use crate::kit::{Server, folder};
use flyball_serve::Role;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// A certificate for this machine, and its key, as files.
fn certificate(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let names = ["127.0.0.1", "localhost", "flyball.example"].map(str::to_owned);
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let (at, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    std::fs::write(&at, cert.pem()).unwrap();
    std::fs::write(&key, signing_key.serialize_pem()).unwrap();
    (at, key)
}

fn started(folder: &Path, more: &[&str]) -> (Server, PathBuf) {
    let (cert, key) = certificate(folder, "server");
    let mut args =
        vec!["--no-socket", "--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    args.extend(more);
    (Server::start(folder, &args), cert)
}

/// A client that trusts this certificate and no other.
fn client(cert: &Path) -> ureq::Agent {
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
fn server_speaks_tls_and_binds_the_cookie_to_its_host() {
    let folder = folder("tls");
    let (mut server, cert) = started(&folder, &["--host", "flyball.example"]);
    assert!(server.place.starts_with("https://127.0.0.1:"), "{}", server.place);
    let link = server
        .until("a link", |said| said.lines().find(|line| line.contains("/login?link=")).map(str::to_owned));
    assert!(link.contains("https://flyball.example:"), "{link}");
    let (agent, anna) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    let https = client(&cert);
    let event = r#"{"type":"turn.started","session":"s"}"#;
    let mut answer = https
        .post(format!("{}/v1/events", server.place))
        .header("Authorization", format!("Bearer {agent}"))
        .header("Content-Type", "application/json")
        .send(event)
        .unwrap();
    let told = answer.body_mut().read_to_string().unwrap();
    assert!(answer.status() == 200 && told.contains("allow"), "{told}");
    assert!(answer.headers().get("strict-transport-security").is_none(), "not under an address");

    let login = |origin: &str| {
        let request = https.post(format!("{}/login", server.place)).header("Origin", origin);
        request
            .header("Content-Type", "application/x-www-form-urlencoded")
            .send(format!("secret={anna}"))
            .unwrap()
    };
    let entered = login(&server.place);
    let cookie = entered.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.starts_with("__Host-flyball_login") && cookie.contains("; Secure"), "{cookie}");
    assert!(!cookie.contains("Domain"), "{cookie}");
    let own = cookie.split(';').next().unwrap();
    let inbox =
        https.get(format!("{}/", server.place)).header("Cookie", own).header("Accept", "text/html").call();
    assert_eq!(inbox.unwrap().status(), 200);
    assert_eq!(login(&server.place.replace("https://", "http://")).status(), 403, "a page without TLS");

    let strict =
        https.get(format!("{}/healthz", server.place)).header("Host", "flyball.example").call().unwrap();
    assert_eq!(strict.headers()["strict-transport-security"], "max-age=2592000");
    let other = client(&certificate(&folder, "other").0);
    assert!(
        other.get(format!("{}/healthz", server.place)).call().is_err(),
        "a client that trusts another certificate"
    );
    // Plain HTTP on the same port is not answered.
    let plain = server.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(!plain.contains("200"), "{plain}");
    if let Ok(curl) = Command::new("curl")
        .args(["-s", "--cacert", cert.to_str().unwrap(), &format!("{}/healthz", server.place)])
        .output()
    {
        assert_eq!(String::from_utf8_lossy(&curl.stdout), "ok\n", "{curl:?}");
    }
}

#[test]
fn certificate_and_key_that_cannot_be_used_are_named() {
    let folder = folder("tls-errors");
    let ((cert, key), (_, other)) = (certificate(&folder, "one"), certificate(&folder, "two"));
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
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains(code) && said.contains("help"), "{code}: {said}");
        assert!(!said.contains("PRIVATE KEY"), "{said}");
    }
    let alone = Command::new(env!("CARGO_BIN_EXE_flyball"))
        .args(["serve", "--tls-cert"])
        .arg(&cert)
        .output()
        .unwrap();
    assert_eq!(alone.status.code(), Some(2), "a certificate without a key is wrong usage");
}

#[test]
fn plain_http_beyond_this_machine_is_warned_of_everywhere() {
    let folder = folder("plain-http");
    let mut server = Server::start(&folder, &["--no-socket", "--listen", "0.0.0.0:0", "--log", "json"]);
    server.until("a warning", |said| said.contains("warning[plain_http]").then_some(()));
    server.until("a line of the log", |said| said.contains(r#""code":"plain_http""#).then_some(()));
    let anna = server.key("anna", Role::Operator);
    let (_, page) = server.ask("GET", "/", Some(&anna), None);
    assert!(page.contains("Plain HTTP beyond this machine"), "{page}");
    drop(server);
    let mut meant = Server::start(&folder, &["--no-socket", "--listen", "0.0.0.0:0", "--insecure-http"]);
    meant.until("everything", |said| said.contains("keys for people").then_some(()));
    assert!(!meant.said.lock().unwrap().contains("plain_http"));
    assert!(!meant.ask("GET", "/", Some(&anna), None).1.contains("Plain HTTP beyond"));
    drop(meant);
    let mut own = Server::start(&folder, &["--no-socket"]);
    own.until("everything", |said| said.contains("keys for people").then_some(()));
    assert!(!own.said.lock().unwrap().contains("plain_http"), "on this machine it is fine");
}
