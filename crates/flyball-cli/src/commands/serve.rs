//! `flyball serve`: the interface and the dashboard.

use crate::args::{LogStyle as Wanted, Serve};
use crate::clock;
use crate::commands::proxy::bind;
use crate::fail::{Exit, Failure};
use crate::load;
use crate::posts::{Lookout, RegistrationSlot};
use crate::store;
use crate::words::{age, line};
use flyball::Preset;
use flyball_journal::{Address, Recorder, RecorderOptions};
use flyball_serve::{
    Collector, ConnectionLimits, KeyLimits, Keys, Listen, LogStyle, PLAIN_HTTP, Role, Setting, Tls, Uids,
    Workshop,
};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Who the link of the first start lets in.
const FIRST: &str = "first operator";

/// Runs the command until it is told to stop.
pub(crate) fn run(args: &Serve) -> Result<Exit, Failure> {
    let source = load::source(&args.policy, Preset::Agent)?;
    let address = store::address(&args.store)?;
    let options = RecorderOptions {
        hot_sessions: args.hot_sessions.max(1),
        lasting: true,
        ..RecorderOptions::default()
    };
    let recorder = Arc::new(Recorder::new(address.open()?, source, options));
    let workshop = workshop(args, &address)?;
    let tls = tls(args)?;
    let tcp = if args.no_tcp { None } else { Some(bind(args.listen)?) };
    let socket = match args.no_socket {
        true => None,
        false => {
            let others =
                [&args.agent_uid, &args.operator_uid, &args.admin_uid].iter().any(|uids| !uids.is_empty());
            socket_path(args, &address)
                .map(|path| Ok::<_, Failure>((listen_at(&path, others)?, path)))
                .transpose()?
        }
    };
    if tcp.is_none() && socket.is_none() {
        let what = "there is nothing to listen at: no address, and no place for a socket";
        let advice = "leave out --no-tcp, or name a socket with --socket PATH";
        return Err(Failure::new("serve_nowhere", "", what, advice));
    }
    let listen = Listen { tcp, socket, tls };
    let here = listen.tcp.as_ref().map(|tcp| tcp.local_addr()).transpose()?;
    let scheme = if listen.tls.is_some() { "https" } else { "http" };
    let place = here.map(|here| format!("{scheme}://{here}"));
    let link = here.map(|here| format!("{scheme}://{}", reachable(args, here)));
    let socket = listen.socket.as_ref().map(|(_, path)| path.as_path());
    tell(place.as_deref(), link.as_deref(), socket, &recorder)?;
    if listen.is_exposed() && !args.insecure_http {
        // If stderr is gone there is nobody left to warn; every page warns as well.
        let _ = writeln!(std::io::stderr().lock(), "warning[plain_http]: {PLAIN_HTTP}");
    }
    let on = place.clone().or_else(|| socket.map(|path| path.display().to_string()));
    let registration = RegistrationSlot::default();
    let on_ready = registration.on_ready(recorder.journal(), "serve", on.unwrap_or_default());
    let lookout = Lookout::new(Arc::clone(recorder.journal()), watched(args)?);
    let desk = Arc::clone(recorder.journal());
    let setting = Setting {
        lookout: Some(Box::new(move || lookout.look())),
        recorder,
        clock: clock::now,
        queue: args.queue.max(1),
        hosts: args.host.clone(),
        uids: Uids {
            agents: args.agent_uid.clone(),
            operators: args.operator_uid.clone(),
            admins: args.admin_uid.clone(),
        },
        log: log_style(args.log),
        otlp: collector(args)?,
        workshop,
        proof_max_age: proof_max_age(args)?,
        connections: connection_limits(args),
        key_limits: key_limits(args),
        insecure_http: args.insecure_http,
    };
    flyball_serve::serve(setting, listen, on_ready)?;
    drop(registration);
    // A plain copy of the file is a backup from now on. Nothing is lost if this fails.
    let _ = desk.checkpoint();
    Ok(Exit::Done)
}

/// The certificate and its key, if they were named.
fn tls(args: &Serve) -> Result<Option<Tls>, Failure> {
    let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    Tls::read(cert, key).map(Some).map_err(|error| Failure::new(error.code, "", error.message, error.help))
}

/// Under which name and port a browser reaches an address: one that was allowed, if the certificate may be for it or
/// the address means all of them.
fn reachable(args: &Serve, here: SocketAddr) -> String {
    let all = here.ip().is_unspecified();
    match args.host.first() {
        Some(host) if all || args.tls_cert.is_some() => format!("{host}:{}", here.port()),
        _ if all && here.is_ipv4() => format!("127.0.0.1:{}", here.port()),
        _ if all => format!("[::1]:{}", here.port()),
        _ => here.to_string(),
    }
}

/// The projects whose hooks and policies are watched.
fn watched(args: &Serve) -> Result<Vec<PathBuf>, Failure> {
    if args.watch.is_empty() {
        return Ok(vec![std::env::current_dir()?]);
    }
    let whole = |folder: &PathBuf| {
        folder.canonicalize().map_err(|error| {
            let place = folder.display().to_string();
            Failure::new("cannot_read", place, error.to_string(), "check --watch")
        })
    };
    args.watch.iter().map(whole).collect()
}

/// What is written to stderr: on a terminal what a person should know, else everything.
fn log_style(wanted: Option<Wanted>) -> LogStyle {
    match wanted {
        Some(Wanted::Json) => LogStyle::Json,
        Some(Wanted::Text) => LogStyle::Text,
        Some(Wanted::Off) => LogStyle::Off,
        None if std::io::stderr().is_terminal() => LogStyle::Text,
        None => LogStyle::Json,
    }
}

/// How many connections may be open before anybody has authenticated on them.
fn connection_limits(args: &Serve) -> ConnectionLimits {
    ConnectionLimits {
        unauthenticated: args.max_unauthenticated,
        unauthenticated_per_address: args.max_unauthenticated_per_address,
    }
}

/// What one agent's key may use.
fn key_limits(args: &Serve) -> KeyLimits {
    KeyLimits {
        sessions_per_day: args.key_sessions_per_day,
        listeners: args.key_listeners,
        pending_plans: args.key_pending_plans,
        bytes_per_day: args.key_bytes_per_day,
        reads: args.key_reads,
    }
}

/// How long ago a person may have entered their key.
fn proof_max_age(args: &Serve) -> Result<Duration, Failure> {
    let age = age(&args.proof_max_age).map(Duration::from_millis);
    age.ok_or_else(|| {
        let what = format!("invalid duration '{}'", line(&args.proof_max_age, 40));
        Failure::new("bad_age", "--proof-max-age", what, "write it like 10m or 1h")
    })
}

/// Where traces go, if anywhere.
fn collector(args: &Serve) -> Result<Option<Collector>, Failure> {
    let Some(address) = &args.otlp else { return Ok(None) };
    if !address.starts_with("http://") && !address.starts_with("https://") {
        let what = "the address of a collector begins with http:// or https://";
        return Err(Failure::new("bad_collector", "--otlp", what, "write it like http://127.0.0.1:4318"));
    }
    Ok(Some(Collector { address: address.clone(), content: args.otlp_content }))
}

/// How workflows are run: by this program, on this store, under this policy.
fn workshop(args: &Serve, address: &Address) -> Result<Workshop, Failure> {
    if let Some(folder) = args.workflows.as_deref().filter(|folder| !folder.is_dir()) {
        let place = folder.display().to_string();
        return Err(Failure::new("cannot_read", place, "there is no such folder", "check --workflows"));
    }
    if args.workflows.is_some() && *address == Address::Memory {
        let what = "a store in memory is seen by nobody else, and runs are processes of their own";
        return Err(Failure::new("store_address", "--workflows", what, "name a store with --store"));
    }
    let mut given: Vec<OsString> = Vec::new();
    let mut env = Vec::new();
    match address {
        // It may hold a password, and everybody may see how a program was called.
        Address::Server(url) => env.push(("FLYBALL_STORE".into(), url.into())),
        Address::File(path) | Address::Project(path) => {
            let path = std::path::absolute(path)?;
            given.extend(["--store".into(), OsString::from(format!("sqlite:{}", path.display()))]);
        }
        Address::Memory => {}
    }
    if let Some(file) = &args.policy.policy {
        given.extend(["--policy".into(), std::path::absolute(file)?.into()]);
    }
    given.extend(args.policy.preset.iter().map(|preset| OsString::from(format!("--preset={preset}"))));
    given.extend(args.policy.set.iter().map(|set| OsString::from(format!("--set={set}"))));
    Ok(Workshop {
        folder: args.workflows.clone(),
        workers: args.workers,
        program: std::env::current_exe()?,
        args: given,
        env,
    })
}

/// Where the socket goes: as said, beside the store's file, or among the user's runtime files.
fn socket_path(args: &Serve, address: &Address) -> Option<PathBuf> {
    if let Some(path) = &args.socket {
        return Some(path.clone());
    }
    match address {
        Address::File(path) | Address::Project(path) => Some(path.with_file_name("flyball.sock")),
        _ => std::env::var_os("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("flyball.sock")),
    }
}

/// Takes a socket: one that nobody listens at is replaced. Only this user may use it; if other users are to, everybody
/// may connect, and the system says who they are.
fn listen_at(path: &Path, others: bool) -> Result<UnixListener, Failure> {
    let wrong = |error: std::io::Error| {
        let advice = "choose another place with --socket, or none with --no-socket";
        Failure::new("cannot_listen", path.display().to_string(), error.to_string(), advice)
    };
    if path.exists() && UnixStream::connect(path).is_err() {
        std::fs::remove_file(path).map_err(wrong)?;
    }
    let listener = UnixListener::bind(path).map_err(wrong)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(if others { 0o666 } else { 0o600 }))
        .map_err(wrong)?;
    Ok(listener)
}

/// Says where it listens, and how a person gets in.
fn tell(
    place: Option<&str>,
    link: Option<&str>,
    socket: Option<&Path>,
    recorder: &Recorder,
) -> Result<(), Failure> {
    let mut err = std::io::stderr().lock();
    // If stderr is gone there is nobody left to tell.
    let at = place.map(str::to_owned).into_iter().chain(socket.map(|path| path.display().to_string()));
    let at = at.collect::<Vec<_>>().join(" and ");
    let _ = writeln!(err, "flyball serve: {at}, recorded in {}", recorder.journal().address());
    let keys = Keys::new(Arc::clone(recorder.journal()));
    let people = keys.list()?.iter().any(|(_, key)| key.role >= Role::Operator);
    if let Some(link) = link {
        if !people || err.is_terminal() {
            let word = keys.link(FIRST)?;
            let _ = writeln!(err, "  to look around:   {link}/login?link={word} (once, within ten minutes)");
        }
        let _ = writeln!(err, "  keys for agents:  flyball token create NAME --role agent");
        let _ = writeln!(err, "  keys for people:  flyball token create NAME --role operator");
    }
    Ok(())
}
