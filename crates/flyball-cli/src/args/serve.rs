//! The arguments of the server and of its keys.

use super::{PolicyArgs, StoreArgs};
use clap::{Args, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

/// `flyball serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen; port 0 is any free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7717")]
    pub(crate) listen: SocketAddr,
    /// Listen on the socket only.
    #[arg(long, conflicts_with = "listen")]
    pub(crate) no_tcp: bool,
    /// The socket. Without it: flyball.sock beside the store's file, or in the folder of the user's runtime files.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Listen on the address only.
    #[arg(long, conflicts_with = "socket")]
    pub(crate) no_socket: bool,
    /// A name under which the server may be asked, beside those of this machine; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// How many events may wait for the store; whoever comes then is told to come again.
    #[arg(long, value_name = "EVENTS", default_value_t = 1024)]
    pub(crate) queue: usize,
    /// Run workflows of this folder, by name; without it there are none.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workflows: Option<PathBuf>,
    /// How many runs this server carries out at a time; 0 leaves them to other servers of the store.
    #[arg(long, value_name = "RUNS", default_value_t = 2, requires = "workflows")]
    pub(crate) workers: usize,
    /// How many sessions are kept in memory; others are read from the store when they go on.
    #[arg(long, value_name = "SESSIONS", default_value_t = 1024)]
    pub(crate) hot_sessions: usize,
    /// Users who report on the socket without a key, beside the server's own; may be given several times.
    #[arg(long, value_name = "UID")]
    pub(crate) agent_uid: Vec<u32>,
    /// Users who answer on the socket without a key.
    #[arg(long, value_name = "UID")]
    pub(crate) operator_uid: Vec<u32>,
    /// Users who make keys on the socket without a key.
    #[arg(long, value_name = "UID")]
    pub(crate) admin_uid: Vec<u32>,
    /// What is written to stderr: every request as JSON, what a person should know as text, or nothing. Without it:
    /// text on a terminal, else JSON.
    #[arg(long, value_enum, value_name = "STYLE")]
    pub(crate) log: Option<LogStyle>,
    /// A collector of OpenTelemetry that decisions are sent to as spans: http://HOST:4318.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) otlp: Option<String>,
    /// Send arguments, results and messages along with the spans.
    #[arg(long, requires = "otlp")]
    pub(crate) otlp_content: bool,
    /// A project whose hooks and policy are watched, so that the page shows when somebody takes them down; may be given
    /// several times. Without it: the folder that the server is started in.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) watch: Vec<PathBuf>,
    /// Certificate chain for HTTPS, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "no_tcp")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Do not warn about plain HTTP beyond this machine, for example behind a TLS proxy.
    #[arg(long)]
    pub(crate) insecure_http: bool,
    /// Open connections without authentication, in all.
    #[arg(long, value_name = "CONNECTIONS", default_value_t = 1024)]
    pub(crate) max_unauthenticated: usize,
    /// Open connections without authentication, from one address.
    #[arg(long, value_name = "CONNECTIONS", default_value_t = 512)]
    pub(crate) max_unauthenticated_per_address: usize,
    /// Sessions that one agent's key may send events to in 24 hours; 0 is no limit.
    #[arg(long, value_name = "SESSIONS", default_value_t = 100_000)]
    pub(crate) key_sessions_per_day: usize,
    /// Bytes of events that one agent's key may send in 24 hours; 0 is no limit.
    #[arg(long, value_name = "BYTES", default_value_t = 8_589_934_592)]
    pub(crate) key_bytes_per_day: u64,
    /// Plans of one agent's key that may await approval at a time; 0 is no limit.
    #[arg(long, value_name = "PLANS", default_value_t = 1000)]
    pub(crate) key_pending_plans: usize,
    /// Live streams that one agent's key may listen to at a time; 0 is no limit.
    #[arg(long, value_name = "STREAMS", default_value_t = 256)]
    pub(crate) key_listeners: usize,
    /// Requests of one agent's key that may read the store at a time; 0 is no limit.
    #[arg(long, value_name = "REQUESTS", default_value_t = 8)]
    pub(crate) key_reads: usize,
    /// Ask for the key again before an approval, release or answer in a browser after this time.
    #[arg(long, value_name = "AGE", default_value = "10m")]
    pub(crate) proof_max_age: String,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// `flyball token`.
#[derive(Debug, Args)]
pub(crate) struct Token {
    /// What to do.
    #[command(subcommand)]
    pub(crate) what: TokenAct,
}

/// What can be done with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenAct {
    /// Make a key; its secret is shown this once.
    Create {
        /// Whose it is: it is noted with everything that is done with it.
        name: String,
        /// What it is good for.
        #[arg(long, value_enum)]
        role: Role,
        /// Only for sessions whose names begin with this.
        #[arg(long, value_name = "PREFIX")]
        sessions: Option<String>,
        /// For all sessions. A key of an agent or a host otherwise has only those that it made itself.
        #[arg(long, conflicts_with = "sessions")]
        all_sessions: bool,
        /// How long it is good for: 30d, 12h, 90m. Without it: until it is taken back.
        #[arg(long, value_name = "AGE")]
        expires: Option<String>,
        #[command(flatten)]
        store: StoreArgs,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the keys, without their secrets.
    List {
        #[command(flatten)]
        store: StoreArgs,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take a key back.
    Revoke {
        /// Its id, as `flyball token list` shows it.
        id: String,
        #[command(flatten)]
        store: StoreArgs,
    },
}

/// The roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Reports and asks; never answers in a person's place.
    Agent,
    /// A hook or SDK: an agent that also relays prompts that people type.
    Host,
    /// A chat: a host that also sends messages that people write.
    Channel,
    /// A person who answers, releases and stops.
    Operator,
    /// Makes keys.
    Admin,
}

/// What is written to stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogStyle {
    /// Everything, one JSON object a line.
    Json,
    /// What a person should know: trips, overload, failures.
    Text,
    /// Nothing.
    Off,
}
