//! `flyball mcp`: a server of the Model Context Protocol, with the guards before its tools.

use super::proxy::{complain, failure, store_flag, tell};
use crate::args::{Mcp, OnError};
use crate::clock;
use crate::deliver::Deliveries;
use crate::fail::{Exit, Failure};
use crate::load;
use crate::posts::RegistrationSlot;
use crate::store;
use crate::words::line;
use flyball::Preset;
use flyball_adapt::mcp::{self, Setting};
use flyball_journal::{Door, Recorder, RecorderOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Runs the command until the client or the server ends.
pub(crate) fn run(args: &Mcp) -> Result<Exit, Failure> {
    let source = load::source(&args.policy, Preset::Agent)?;
    let address = store::address(&args.store)?;
    let recorder = Arc::new(Recorder::new(address.open()?, source, RecorderOptions::default()));
    let door = Door::new(&recorder.policy().journal).map_err(|error| Failure::at("", &error))?;
    let start = format!("{}-{}", clock::now().unwrap_or(0), std::process::id());
    let session = args.session.clone().unwrap_or_else(|| {
        let program = args.server.first().map(Path::new).and_then(Path::file_stem);
        let name = program.map_or_else(|| "http".into(), |stem| stem.to_string_lossy());
        format!("mcp-{name}-{start}")
    });
    store::sweep_outputs(recorder.outputs());
    let deliveries = Arc::new(Mutex::new(Deliveries::start(&recorder)));
    let on_error = OnError::for_tools(args.on_error, recorder.policy());
    // Not its arguments: there may be keys among them.
    let program = args.server.first().map(|program| program.to_string_lossy().into_owned());
    let purpose = args.url.clone().or(program).unwrap_or_default();
    let registration = RegistrationSlot::default();
    let on_ready = registration.on_ready(recorder.journal(), "mcp", door.clean(&purpose).into_owned());
    let desk = Arc::clone(recorder.journal());
    let setting = Setting {
        recorder,
        door,
        clock: clock::now,
        tell: Box::new({
            let deliveries = Arc::clone(&deliveries);
            move |decision| {
                deliveries.lock().unwrap_or_else(PoisonError::into_inner).nudge();
                tell(decision);
            }
        }),
        complain: Box::new(complain),
        session,
        start,
        store_flag: store_flag(args.store.store.as_deref()),
        on_error,
    };
    let ended_well = match (&args.url, args.listen) {
        (Some(url), Some(listen)) => {
            let listener = super::proxy::bind(listen)?;
            let here = listener.local_addr()?;
            // If stderr is gone there is nobody left to tell.
            let _ = writeln!(std::io::stderr(), "flyball mcp: http://{here} -> {}", line(url, 200));
            mcp::serve_http(listener, url, setting, on_ready).map_err(|trouble| failure(&trouble))?;
            true
        }
        (Some(url), None) => {
            let headers = headers(&args.header)?;
            on_ready();
            mcp::serve_bridge(url, &headers, setting).map_err(|trouble| failure(&trouble))?;
            true
        }
        (None, _) => {
            let status =
                mcp::serve_stdio(&args.server, setting, on_ready).map_err(|trouble| failure(&trouble))?;
            status.is_none_or(|status| status.success())
        }
    };
    drop(registration);
    if let Some(deliveries) = Arc::into_inner(deliveries) {
        deliveries.into_inner().unwrap_or_else(PoisonError::into_inner).finish();
    }
    // A plain copy of the file is a backup from now on. Nothing is lost if this fails.
    let _ = desk.checkpoint();
    // The client reads the server's fate from our own.
    Ok(if ended_well { Exit::Done } else { Exit::Error })
}

/// Headers whose values stand in the environment, so that no key stands in a list of processes.
fn headers(list: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let read = |text: &String| {
        let (name, variable) = text.split_once('=')?;
        Some((name.trim().to_owned(), std::env::var(variable.trim()).ok()?))
    };
    let wanted = list.iter().map(|text| {
        read(text).ok_or_else(|| {
            let what = format!("'{}' names no variable that is set", line(text, 80));
            let advice = "write it like --header Authorization=MY_TOKEN, and set the variable";
            Failure::new("bad_header", "--header", what, advice)
        })
    });
    wanted.collect()
}
