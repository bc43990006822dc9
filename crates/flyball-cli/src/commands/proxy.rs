//! `flyball proxy`: an endpoint that speaks the model's protocol, with the guards behind it.

use crate::args::{OnError, Proxy};
use crate::clock;
use crate::deliver::Deliveries;
use crate::fail::{Exit, Failure};
use crate::load;
use crate::paint::{Style, paint_err};
use crate::posts::RegistrationSlot;
use crate::prices;
use crate::store;
use crate::words::{line, typed};
use flyball::{Decision, Preset, Verdict};
use flyball_adapt::model_proxy::{self, Options, Setting, Tokens, Trouble};
use flyball_adapt::source::Cached;
use flyball_journal::{Door, Recorder, RecorderOptions};
use flyball_run::provider::{Price, Usage, Usd};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

/// Runs the command until it is told to stop.
pub(crate) fn run(args: &Proxy) -> Result<Exit, Failure> {
    let source = load::source(&args.policy, Preset::Agent)?;
    let (given, listed) = (given(&args.price)?, prices::known(args.prices.as_deref())?);
    let address = store::address(&args.store)?;
    let recorder = Arc::new(Recorder::new(address.open()?, source, RecorderOptions::default()));
    let door = Door::new(&recorder.policy().journal).map_err(|error| Failure::at("", &error))?;
    let listener = bind(args.listen)?;
    let here = listener.local_addr()?;
    let deliveries = Arc::new(Mutex::new(Deliveries::start(&recorder)));
    tell_where(&here.to_string(), &args.upstream, &recorder.journal().address());
    let purpose = format!("{here} -> {}", args.upstream);
    let registration = RegistrationSlot::default();
    let on_ready = registration.on_ready(recorder.journal(), "proxy", door.clean(&purpose).into_owned());
    let on_error = OnError::or_policy(args.on_error, recorder.policy());
    let desk = Arc::clone(recorder.journal());
    let setting = Setting {
        store_flag: store_flag(args.store.store.as_deref()),
        recorder,
        door,
        clock: clock::now,
        cost: Box::new(move |model, tokens| match given.get(model) {
            Some(price) => Some(cost(price, tokens)),
            None => {
                let cached = Cached { read: tokens.cached, written: tokens.written };
                Some(listed.of(model)?.cost(tokens.input, tokens.output, cached))
            }
        }),
        tell: Box::new({
            let deliveries = Arc::clone(&deliveries);
            move |decision| {
                deliveries.lock().unwrap_or_else(PoisonError::into_inner).nudge();
                tell(decision);
            }
        }),
    };
    let on_error = match on_error {
        OnError::Allow => model_proxy::OnError::Allow,
        OnError::Block => model_proxy::OnError::Block,
    };
    let options = Options {
        upstream: args.upstream.clone(),
        hosts: args.host.clone(),
        on_error,
        complain: Box::new(complain),
        on_ready,
    };
    model_proxy::serve(listener, setting, options).map_err(|trouble| failure(&trouble))?;
    drop(registration);
    if let Some(deliveries) = Arc::into_inner(deliveries) {
        deliveries.into_inner().unwrap_or_else(PoisonError::into_inner).finish();
    }
    // A plain copy of the file is a backup from now on. Nothing is lost if this fails.
    let _ = desk.checkpoint();
    Ok(Exit::Done)
}

/// Takes an address.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).map_err(|error| {
        let advice = "choose another address with --listen; port 0 is any free one";
        Failure::new("cannot_listen", address.to_string(), error.to_string(), advice)
    })
}

/// What a person must add to a command to reach the store that was named.
pub(crate) fn store_flag(named: Option<&str>) -> String {
    named.map(|store| format!(" --store {}", typed(store))).unwrap_or_default()
}

/// Says where it listens, and what to set in the agent.
fn tell_where(here: &str, upstream: &str, store: &str) {
    let mut err = std::io::stderr().lock();
    // If stderr is gone there is nobody left to tell.
    let _ = writeln!(err, "flyball proxy: http://{here} -> {}, recorded in {store}", line(upstream, 200));
    let _ = writeln!(err, "  OpenAI clients:    OPENAI_BASE_URL=http://{here}/v1");
    let _ = writeln!(err, "  Anthropic clients: ANTHROPIC_BASE_URL=http://{here}");
}

/// Says what was decided, if it was not to go on.
pub(crate) fn tell(decision: &Decision) {
    let style = match decision.decision {
        Verdict::Allow => return,
        Verdict::Warn => Style::Warn,
        Verdict::Block | Verdict::Halt => Style::Bad,
    };
    let head = paint_err(style, decision.decision.as_str());
    let why = decision.trips.first().map_or("", |trip| trip.message.as_str());
    let _ = writeln!(std::io::stderr().lock(), "{head} {}: {}", line(&decision.session, 80), line(why, 300));
}

/// Says what went wrong.
pub(crate) fn complain(trouble: &Trouble) {
    failure(trouble).print();
}

/// Trouble as an error of the command.
pub(crate) fn failure(trouble: &Trouble) -> Failure {
    Failure::new(&trouble.code, "", line(&trouble.what, 400), &trouble.advice)
}

fn cost(price: &Price, tokens: Tokens) -> u64 {
    price.cost_micros(&Usage {
        tokens_in: tokens.input,
        tokens_out: tokens.output,
        cached_in: tokens.cached,
        cache_write_in: tokens.written,
        ..Usage::default()
    })
}

/// Reads `MODEL=IN,OUT` and `MODEL=IN,OUT,CACHED`.
fn given(list: &[String]) -> Result<BTreeMap<String, Price>, Failure> {
    let mut prices = BTreeMap::new();
    for text in list {
        let bad = || {
            let what = format!("'{}' is not a price", line(text, 80));
            Failure::new(
                "bad_price",
                "--price",
                what,
                "write it like gpt-5=1.25,10 (dollars for a million tokens)",
            )
        };
        let (model, numbers) = text.rsplit_once('=').ok_or_else(bad)?;
        let dollars = |text: &str| serde_json::from_str::<Usd>(text.trim()).map_err(|_| bad());
        let numbers = numbers.split(',').map(dollars).collect::<Result<Vec<Usd>, Failure>>()?;
        let (input, output, cached_input) = match numbers.as_slice() {
            [input, output] => (*input, *output, None),
            [input, output, cached] => (*input, *output, Some(*cached)),
            _ => return Err(bad()),
        };
        prices.insert(model.trim().to_owned(), Price { input, output, cached_input, cache_write: None });
    }
    Ok(prices)
}
