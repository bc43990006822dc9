//! `flyball-model-server --script FILE [--port N]`: serves a script until it is killed.

use flyball_model_server::{Script, Server};
use std::io::Write;
use std::process::ExitCode;

const USAGE: &str = "usage: flyball-model-server --script FILE [--port N]";

fn main() -> ExitCode {
    let (code, text) = match Options::read(std::env::args().skip(1)).map(run) {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) => (1, error),
        Err(wrong) => (2, format!("{wrong}\n{USAGE}")),
    };
    // Nobody to tell if this fails.
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::from(code)
}

struct Options {
    script: String,
    port: u16,
}

impl Options {
    fn read(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut script = None;
        let mut port = 0;
        while let Some(arg) = args.next() {
            let value = args.next().ok_or_else(|| format!("{arg} wants a value"));
            match arg.as_str() {
                "--script" => script = Some(value?),
                "--port" => port = value?.parse().map_err(|_| "--port wants a number up to 65535")?,
                _ => return Err(format!("there is no option {arg}")),
            }
        }
        Ok(Options { script: script.ok_or("--script is missing")?, port })
    }
}

fn run(options: Options) -> Result<(), String> {
    let text =
        std::fs::read_to_string(&options.script).map_err(|error| format!("{}: {error}", options.script))?;
    let script = Script::parse(&text, &options.script)?;
    let server =
        Server::start_on(script, options.port).map_err(|error| format!("port {}: {error}", options.port))?;
    writeln!(std::io::stdout(), "{}", server.url()).map_err(|error| error.to_string())?;
    server.wait();
    Ok(())
}
