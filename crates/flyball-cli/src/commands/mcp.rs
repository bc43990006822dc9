//! `flyball mcp`: an MCP proxy that puts the guards in front of a server's tools.

use super::proxy::{into_cli_error, print_decision, print_error, store_flag};
use crate::args::{McpArgs, OnErrorArg};
use crate::clock;
use crate::coverage::RegistrationSlot;
use crate::delivery::DeliveryThread;
use crate::error::{CliError, Exit};
use crate::formatting::single_line;
use crate::policy_loader;
use crate::store;
use flyball::Preset;
use flyball_integrations::mcp::{self, McpProxyConfig};
use flyball_store::{Recorder, RecorderOptions, RedactingParser};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Runs the command until the client or the server ends.
pub(crate) fn run(args: &McpArgs) -> Result<Exit, CliError> {
    let source = policy_loader::source(&args.policy, Preset::Agent)?;
    let address = store::store_address(&args.store)?;
    let recorder = Arc::new(Recorder::new(address.open()?, source, RecorderOptions::default()));
    let parser =
        RedactingParser::new(&recorder.policy().journal).map_err(|error| CliError::from_core("", &error))?;
    let start = format!("{}-{}", clock::now().unwrap_or(0), std::process::id());
    let session = args.session.clone().unwrap_or_else(|| {
        let program = args.server.first().map(Path::new).and_then(Path::file_stem);
        let name = program.map_or_else(|| "http".into(), |stem| stem.to_string_lossy());
        format!("mcp-{name}-{start}")
    });
    store::remove_orphaned_outputs(recorder.outputs());
    let deliveries = Arc::new(Mutex::new(DeliveryThread::start(&recorder)));
    let on_error = OnErrorArg::resolve_for_tools(args.on_error, recorder.policy());
    // Only the program name: arguments may contain keys.
    let program = args.server.first().map(|program| program.to_string_lossy().into_owned());
    let purpose = args.url.clone().or(program).unwrap_or_default();
    let registration = RegistrationSlot::default();
    let on_ready = registration.on_ready(recorder.store(), "mcp", parser.redact(&purpose).into_owned());
    let store = Arc::clone(recorder.store());
    let config = McpProxyConfig {
        recorder,
        parser,
        clock: clock::now,
        on_decision: Box::new({
            let deliveries = Arc::clone(&deliveries);
            move |decision| {
                deliveries.lock().unwrap_or_else(PoisonError::into_inner).wake();
                print_decision(decision);
            }
        }),
        report_error: Box::new(print_error),
        session,
        instance_id: start,
        store_flag: store_flag(args.store.store.as_deref()),
        on_error,
    };
    let ended_well = match (&args.url, args.listen) {
        (Some(url), Some(listen)) => {
            let listener = super::proxy::bind(listen)?;
            let here = listener.local_addr()?;
            // A closed stderr leaves nowhere to report to.
            let _ = writeln!(std::io::stderr(), "flyball mcp: http://{here} -> {}", single_line(url, 200));
            mcp::serve_http(listener, url, config, on_ready).map_err(|error| into_cli_error(&error))?;
            true
        }
        (Some(url), None) => {
            let headers = headers_from_env(&args.header)?;
            on_ready();
            mcp::serve_bridge(url, &headers, config).map_err(|error| into_cli_error(&error))?;
            true
        }
        (None, _) => {
            let status =
                mcp::serve_stdio(&args.server, config, on_ready).map_err(|error| into_cli_error(&error))?;
            status.is_none_or(|status| status.success())
        }
    };
    drop(registration);
    if let Some(deliveries) = Arc::into_inner(deliveries) {
        deliveries.into_inner().unwrap_or_else(PoisonError::into_inner).finish();
    }
    // After a checkpoint a plain file copy is a complete backup. Failure is harmless.
    let _ = store.checkpoint();
    // The exit code tells the client whether the server succeeded.
    Ok(if ended_well { Exit::Success } else { Exit::Error })
}

/// Headers whose values come from environment variables, so that keys do not appear in the process list.
fn headers_from_env(list: &[String]) -> Result<Vec<(String, String)>, CliError> {
    let read = |text: &String| {
        let (name, variable) = text.split_once('=')?;
        Some((name.trim().to_owned(), std::env::var(variable.trim()).ok()?))
    };
    let wanted = list.iter().map(|text| {
        read(text).ok_or_else(|| {
            let what =
                format!("'{}' does not name an environment variable that is set", single_line(text, 80));
            let help = "write it like --header Authorization=MY_TOKEN, and set the variable";
            CliError::new("bad_header", "--header", what, help)
        })
    });
    wanted.collect()
}
