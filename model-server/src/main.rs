//! `flyball-model-server --script FILE [--port N]`: serves a script until it is killed.

use flyball_model_server::{ModelServer, ServerScript};
use std::io::Write;
use std::process::ExitCode;

const USAGE: &str = "usage: flyball-model-server --script FILE [--port N]";

fn main() -> ExitCode {
    let (code, text) = match ServerArgs::parse(std::env::args().skip(1)).map(run) {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) => (1, error),
        Err(wrong) => (2, format!("{wrong}\n{USAGE}")),
    };
    // If stderr is closed, there is no one to report to.
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::from(code)
}

struct ServerArgs {
    script: String,
    port: u16,
}

impl ServerArgs {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut script = None;
        let mut port = 0;
        while let Some(arg) = args.next() {
            let value = args.next().ok_or_else(|| format!("{arg} requires a value"));
            match arg.as_str() {
                "--script" => script = Some(value?),
                "--port" => port = value?.parse().map_err(|_| "--port requires a number up to 65535")?,
                _ => return Err(format!("unknown option {arg}")),
            }
        }
        Ok(ServerArgs { script: script.ok_or("--script is missing")?, port })
    }
}

fn run(options: ServerArgs) -> Result<(), String> {
    let text =
        std::fs::read_to_string(&options.script).map_err(|error| format!("{}: {error}", options.script))?;
    let script = ServerScript::parse(&text, &options.script)?;
    let server = ModelServer::start_on(script, options.port)
        .map_err(|error| format!("port {}: {error}", options.port))?;
    writeln!(std::io::stdout(), "{}", server.url()).map_err(|error| error.to_string())?;
    server.wait();
    Ok(())
}
