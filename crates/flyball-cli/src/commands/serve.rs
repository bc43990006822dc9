//! `flyball serve`: the HTTP API and the dashboard.

use crate::args::{LogStyleArg, ServeArgs};
use crate::clock;
use crate::commands::proxy::bind;
use crate::coverage::{RegistrationSlot, StoreCoverageProbe};
use crate::error::{CliError, Exit, parse_age};
use crate::policy_loader;
use crate::store;
use flyball::Preset;
use flyball_server::{
    ApiKeyStore, AuthRole, ConnectionLimits, KeyLimits, ListenConfig, OtlpCollector, PLAIN_HTTP,
    ServerConfig, ServerLogStyle, Tls, UidRoles, WorkerConfig,
};
use flyball_store::{Recorder, RecorderOptions, StoreAddress};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Name of the operator who logs in with the first start's link.
const FIRST_OPERATOR: &str = "first operator";

/// Runs the server until it is stopped.
pub(crate) fn run(args: &ServeArgs) -> Result<Exit, CliError> {
    let source = policy_loader::source(&args.policy, Preset::Agent)?;
    let address = store::store_address(&args.store)?;
    let options = RecorderOptions {
        hot_sessions: args.hot_sessions.max(1),
        long_lived: true,
        ..RecorderOptions::default()
    };
    let recorder = Arc::new(Recorder::new(address.open()?, source, options));
    let worker_config = worker_config(args, &address)?;
    let tls = tls_config(args)?;
    let tcp = if args.no_tcp { None } else { Some(bind(args.listen)?) };
    let socket = match args.no_socket {
        true => None,
        false => {
            let others =
                [&args.agent_uid, &args.operator_uid, &args.admin_uid].iter().any(|uids| !uids.is_empty());
            socket_path(args, &address)
                .map(|path| Ok::<_, CliError>((bind_socket(&path, others)?, path)))
                .transpose()?
        }
    };
    if tcp.is_none() && socket.is_none() {
        let what = "nothing to listen on: no address and no socket path";
        let advice = "remove --no-tcp, or name a socket with --socket PATH";
        return Err(CliError::new("nothing_to_listen_on", "", what, advice));
    }
    let listen = ListenConfig { tcp, socket, tls };
    let here = listen.tcp.as_ref().map(|tcp| tcp.local_addr()).transpose()?;
    let scheme = if listen.tls.is_some() { "https" } else { "http" };
    let place = here.map(|here| format!("{scheme}://{here}"));
    let link = here.map(|here| format!("{scheme}://{}", browser_address(args, here)));
    let socket = listen.socket.as_ref().map(|(_, path)| path.as_path());
    print_addresses(place.as_deref(), link.as_deref(), socket, &recorder)?;
    if listen.is_exposed() && !args.insecure_http {
        // A closed stderr leaves nowhere to warn; every page shows the warning as well.
        let _ = writeln!(std::io::stderr().lock(), "warning[plain_http]: {PLAIN_HTTP}");
    }
    let on = place.clone().or_else(|| socket.map(|path| path.display().to_string()));
    let registration = RegistrationSlot::default();
    let on_ready = registration.on_ready(recorder.store(), "serve", on.unwrap_or_default());
    let coverage_probe = StoreCoverageProbe::recording(Arc::clone(recorder.store()), watched_projects(args)?);
    let store = Arc::clone(recorder.store());
    let config = ServerConfig {
        coverage_probe: Some(Box::new(move || coverage_probe.probe())),
        recorder,
        clock: clock::now,
        queue_capacity: args.queue.max(1),
        hosts: args.host.clone(),
        uid_roles: UidRoles {
            agents: args.agent_uid.clone(),
            operators: args.operator_uid.clone(),
            admins: args.admin_uid.clone(),
        },
        log: log_style(args.log),
        otlp: otlp_collector(args)?,
        worker_config,
        proof_max_age: proof_max_age(args)?,
        connections: connection_limits(args),
        key_limits: key_limits(args),
        insecure_http: args.insecure_http,
    };
    flyball_server::serve(config, listen, on_ready)?;
    drop(registration);
    // A plain copy of the file is a backup from now on. Nothing is lost if this fails.
    let _ = store.checkpoint();
    Ok(Exit::Success)
}

/// The certificate and key, if given.
fn tls_config(args: &ServeArgs) -> Result<Option<Tls>, CliError> {
    let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    Tls::load(cert, key).map(Some).map_err(|error| CliError::new(error.code, "", error.message, error.help))
}

/// The name and port a browser uses to reach an address: an allowed name if the certificate may be for it or the
/// address is a wildcard.
fn browser_address(args: &ServeArgs, here: SocketAddr) -> String {
    let all = here.ip().is_unspecified();
    match args.host.first() {
        Some(host) if all || args.tls_cert.is_some() => format!("{host}:{}", here.port()),
        _ if all && here.is_ipv4() => format!("127.0.0.1:{}", here.port()),
        _ if all => format!("[::1]:{}", here.port()),
        _ => here.to_string(),
    }
}

/// The projects whose hooks and policies are watched.
fn watched_projects(args: &ServeArgs) -> Result<Vec<PathBuf>, CliError> {
    if args.watch.is_empty() {
        return Ok(vec![std::env::current_dir()?]);
    }
    let whole = |folder: &PathBuf| {
        folder.canonicalize().map_err(|error| {
            let place = folder.display().to_string();
            CliError::new("cannot_read", place, error.to_string(), "check --watch")
        })
    };
    args.watch.iter().map(whole).collect()
}

/// The log style for stderr: messages for a person on a terminal, otherwise everything.
fn log_style(style: Option<LogStyleArg>) -> ServerLogStyle {
    match style {
        Some(LogStyleArg::Json) => ServerLogStyle::Json,
        Some(LogStyleArg::Text) => ServerLogStyle::Text,
        Some(LogStyleArg::Off) => ServerLogStyle::Off,
        None if std::io::stderr().is_terminal() => ServerLogStyle::Text,
        None => ServerLogStyle::Json,
    }
}

/// The limits on unauthenticated connections.
fn connection_limits(args: &ServeArgs) -> ConnectionLimits {
    ConnectionLimits {
        unauthenticated: args.max_unauthenticated,
        unauthenticated_per_address: args.max_unauthenticated_per_address,
    }
}

/// The limits of one agent's key.
fn key_limits(args: &ServeArgs) -> KeyLimits {
    KeyLimits {
        sessions_per_day: args.key_sessions_per_day,
        listeners: args.key_listeners,
        pending_plans: args.key_pending_plans,
        bytes_per_day: args.key_bytes_per_day,
        reads: args.key_reads,
    }
}

/// The maximum age of a person's key entry for sensitive actions.
fn proof_max_age(args: &ServeArgs) -> Result<Duration, CliError> {
    parse_age("--proof-max-age", &args.proof_max_age).map(Duration::from_millis)
}

/// The collector for traces, if any.
fn otlp_collector(args: &ServeArgs) -> Result<Option<OtlpCollector>, CliError> {
    let Some(address) = &args.otlp else { return Ok(None) };
    if !address.starts_with("http://") && !address.starts_with("https://") {
        let what = "the collector address must begin with http:// or https://";
        return Err(CliError::new("bad_collector", "--otlp", what, "write it like http://127.0.0.1:4318"));
    }
    Ok(Some(OtlpCollector { address: address.clone(), content: args.otlp_content }))
}

/// The configuration for running workflows with this program, store and policy.
fn worker_config(args: &ServeArgs, address: &StoreAddress) -> Result<WorkerConfig, CliError> {
    if let Some(folder) = args.workflows.as_deref().filter(|folder| !folder.is_dir()) {
        let place = folder.display().to_string();
        return Err(CliError::new("cannot_read", place, "no such folder", "check --workflows"));
    }
    if args.workflows.is_some() && *address == StoreAddress::Memory {
        let what = "runs are separate processes and cannot use an in-memory store";
        return Err(CliError::new("store_address", "--workflows", what, "name a store with --store"));
    }
    let mut given: Vec<OsString> = Vec::new();
    let mut env = Vec::new();
    match address {
        // The URL may contain a password, and command lines are visible to all users.
        StoreAddress::Postgres(url) => env.push(("FLYBALL_STORE".into(), url.into())),
        StoreAddress::File(path) | StoreAddress::Project(path) => {
            let path = std::path::absolute(path)?;
            given.extend(["--store".into(), OsString::from(format!("sqlite:{}", path.display()))]);
        }
        StoreAddress::Memory => {}
    }
    if let Some(file) = &args.policy.policy {
        given.extend(["--policy".into(), std::path::absolute(file)?.into()]);
    }
    given.extend(args.policy.preset.iter().map(|preset| OsString::from(format!("--preset={preset}"))));
    given.extend(args.policy.set.iter().map(|set| OsString::from(format!("--set={set}"))));
    Ok(WorkerConfig {
        folder: args.workflows.clone(),
        workers: args.workers,
        program: std::env::current_exe()?,
        args: given,
        env,
    })
}

/// The socket path: as given, beside the store's file, or in the user's runtime folder.
fn socket_path(args: &ServeArgs, address: &StoreAddress) -> Option<PathBuf> {
    if let Some(path) = &args.socket {
        return Some(path.clone());
    }
    match address {
        StoreAddress::File(path) | StoreAddress::Project(path) => Some(path.with_file_name("flyball.sock")),
        _ => std::env::var_os("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("flyball.sock")),
    }
}

/// Binds a socket, replacing a stale one. Only this user may connect. With `others` any user may connect, and the
/// system identifies them.
fn bind_socket(path: &Path, others: bool) -> Result<UnixListener, CliError> {
    let wrong = |error: std::io::Error| {
        let help = "choose another path with --socket, or use --no-socket";
        CliError::new("cannot_listen", path.display().to_string(), error.to_string(), help)
    };
    if path.exists() && UnixStream::connect(path).is_err() {
        std::fs::remove_file(path).map_err(wrong)?;
    }
    let listener = UnixListener::bind(path).map_err(wrong)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(if others { 0o666 } else { 0o600 }))
        .map_err(wrong)?;
    Ok(listener)
}

/// Prints the addresses and how to log in.
fn print_addresses(
    place: Option<&str>,
    link: Option<&str>,
    socket: Option<&Path>,
    recorder: &Recorder,
) -> Result<(), CliError> {
    let mut err = std::io::stderr().lock();
    // A closed stderr leaves nowhere to report to.
    let at = place.map(str::to_owned).into_iter().chain(socket.map(|path| path.display().to_string()));
    let at = at.collect::<Vec<_>>().join(" and ");
    let _ = writeln!(err, "flyball serve: {at}, recording to {}", recorder.store().address());
    let keys = ApiKeyStore::new(Arc::clone(recorder.store()));
    let people = keys.list()?.iter().any(|(_, key)| key.role >= AuthRole::Operator);
    if let Some(link) = link {
        if !people || err.is_terminal() {
            let word = keys.create_login_link(FIRST_OPERATOR)?;
            let _ = writeln!(err, "  first login:      {link}/login?link={word} (once, within ten minutes)");
        }
        let _ = writeln!(err, "  keys for agents:  flyball token create NAME --role agent");
        let _ = writeln!(err, "  keys for people:  flyball token create NAME --role operator");
    }
    Ok(())
}
