//! `flyball proxy`: a guarded proxy for model APIs.

use crate::args::{OnErrorArg, ProxyArgs};
use crate::clock;
use crate::color::{TextStyle, style_stderr};
use crate::coverage::RegistrationSlot;
use crate::delivery::DeliveryThread;
use crate::error::{CliError, Exit};
use crate::formatting::{single_line, typed};
use crate::policy_loader;
use crate::prices;
use crate::store;
use flyball::{Decision, Preset, Verdict};
use flyball_integrations::model_proxy::{self, ModelProxyConfig, ModelProxyOptions, ProxyError, ProxyTokens};
use flyball_integrations::transcript::CachedTokens;
use flyball_runner::provider::{ModelUsage, TokenPrice, Usd};
use flyball_store::{Recorder, RecorderOptions, RedactingParser};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

/// Runs the proxy until it is stopped.
pub(crate) fn run(args: &ProxyArgs) -> Result<Exit, CliError> {
    let source = policy_loader::source(&args.policy, Preset::Agent)?;
    let (given, listed) = (parse_prices(&args.price)?, prices::load_prices(args.prices.as_deref())?);
    let address = store::store_address(&args.store)?;
    let recorder = Arc::new(Recorder::new(address.open()?, source, RecorderOptions::default()));
    let parser =
        RedactingParser::new(&recorder.policy().journal).map_err(|error| CliError::from_core("", &error))?;
    let listener = bind(args.listen)?;
    let here = listener.local_addr()?;
    let deliveries = Arc::new(Mutex::new(DeliveryThread::start(&recorder)));
    print_endpoints(&here.to_string(), &args.upstream, &recorder.store().address());
    let purpose = format!("{here} -> {}", args.upstream);
    let registration = RegistrationSlot::default();
    let on_ready = registration.on_ready(recorder.store(), "proxy", parser.redact(&purpose).into_owned());
    let on_error = OnErrorArg::resolve_for_models(args.on_error, recorder.policy());
    let admin_store = Arc::clone(recorder.store());
    let config = ModelProxyConfig {
        store_flag: store_flag(args.store.store.as_deref()),
        recorder,
        parser,
        clock: clock::now,
        cost: Box::new(move |model, tokens| match given.get(model) {
            Some(price) => Some(cost_micro_usd(price, tokens)),
            None => {
                let cached = CachedTokens { read: tokens.cache_read, written: tokens.cache_written };
                Some(listed.price_of(model)?.cost(tokens.input, tokens.output, cached))
            }
        }),
        on_decision: Box::new({
            let deliveries = Arc::clone(&deliveries);
            move |decision| {
                deliveries.lock().unwrap_or_else(PoisonError::into_inner).wake();
                print_decision(decision);
            }
        }),
    };
    let on_error = match on_error {
        OnErrorArg::Allow => model_proxy::ProxyOnError::Allow,
        OnErrorArg::Block => model_proxy::ProxyOnError::Block,
    };
    let options = ModelProxyOptions {
        upstream: args.upstream.clone(),
        hosts: args.host.clone(),
        on_error,
        report_error: Box::new(print_error),
        on_ready,
    };
    model_proxy::serve(listener, config, options).map_err(|error| into_cli_error(&error))?;
    drop(registration);
    if let Some(deliveries) = Arc::into_inner(deliveries) {
        deliveries.into_inner().unwrap_or_else(PoisonError::into_inner).finish();
    }
    // After a checkpoint a plain file copy is a complete backup. Failure is harmless.
    let _ = admin_store.checkpoint();
    Ok(Exit::Success)
}

/// Binds an address.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, CliError> {
    TcpListener::bind(address).map_err(|error| {
        let help = "choose another address with --listen; port 0 picks a free one";
        CliError::new("cannot_listen", address.to_string(), error.to_string(), help)
    })
}

/// The `--store` argument for printed commands.
pub(crate) fn store_flag(named: Option<&str>) -> String {
    named.map(|store| format!(" --store {}", typed(store))).unwrap_or_default()
}

/// Prints the address and the settings for clients.
fn print_endpoints(here: &str, upstream: &str, store: &str) {
    let mut err = std::io::stderr().lock();
    // A closed stderr leaves nowhere to report to.
    let _ =
        writeln!(err, "flyball proxy: http://{here} -> {}, recording to {store}", single_line(upstream, 200));
    let _ = writeln!(err, "  OpenAI clients:    OPENAI_BASE_URL=http://{here}/v1");
    let _ = writeln!(err, "  Anthropic clients: ANTHROPIC_BASE_URL=http://{here}");
}

/// Prints a decision that blocks or warns.
pub(crate) fn print_decision(decision: &Decision) {
    let style = match decision.decision {
        Verdict::Allow => return,
        Verdict::Warn => TextStyle::Warning,
        Verdict::Block | Verdict::Halt => TextStyle::Error,
    };
    let head = style_stderr(style, decision.decision.as_str());
    let why = decision.trips.first().map_or("", |trip| trip.message.as_str());
    let _ = writeln!(
        std::io::stderr().lock(),
        "{head} {}: {}",
        single_line(&decision.session, 80),
        single_line(why, 300)
    );
}

/// Prints an error of the proxy.
pub(crate) fn print_error(error: &ProxyError) {
    into_cli_error(error).print();
}

/// Converts an error of the proxy.
pub(crate) fn into_cli_error(error: &ProxyError) -> CliError {
    CliError::new(&error.code, "", single_line(&error.message, 400), &error.help)
}

fn cost_micro_usd(price: &TokenPrice, tokens: ProxyTokens) -> u64 {
    price.cost_micros(&ModelUsage {
        tokens_in: tokens.input,
        tokens_out: tokens.output,
        cached_in: tokens.cache_read,
        cache_write_in: tokens.cache_written,
        ..ModelUsage::default()
    })
}

/// Reads `MODEL=IN,OUT` and `MODEL=IN,OUT,CACHED`.
fn parse_prices(list: &[String]) -> Result<BTreeMap<String, TokenPrice>, CliError> {
    let mut prices = BTreeMap::new();
    for text in list {
        let bad = || {
            let what = format!("invalid price '{}'", single_line(text, 80));
            CliError::new(
                "bad_price",
                "--price",
                what,
                "write it like gpt-5=1.25,10 (dollars per million tokens)",
            )
        };
        let (model, numbers) = text.rsplit_once('=').ok_or_else(bad)?;
        let dollars = |text: &str| serde_json::from_str::<Usd>(text.trim()).map_err(|_| bad());
        let numbers = numbers.split(',').map(dollars).collect::<Result<Vec<Usd>, CliError>>()?;
        let (input, output, cached_input) = match numbers.as_slice() {
            [input, output] => (*input, *output, None),
            [input, output, cached] => (*input, *output, Some(*cached)),
            _ => return Err(bad()),
        };
        prices.insert(model.trim().to_owned(), TokenPrice { input, output, cached_input, cache_write: None });
    }
    Ok(prices)
}
