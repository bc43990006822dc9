//! The arguments of `flyball serve` and `flyball token`.

use super::{PolicyArgs, StoreArgs};
use clap::{Args, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

/// `flyball serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7717")]
    pub(crate) listen: SocketAddr,
    /// Listen on the Unix socket only
    #[arg(long, conflicts_with = "listen")]
    pub(crate) no_tcp: bool,
    /// Unix socket [default: flyball.sock beside the store file, or in the user's runtime directory]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Listen on TCP only
    #[arg(long, conflicts_with = "socket")]
    pub(crate) no_socket: bool,
    /// Additional host name that clients may use (repeatable)
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// Capacity of the submit queue; requests beyond it get HTTP status 429
    #[arg(long, value_name = "EVENTS", default_value_t = 1024)]
    pub(crate) queue: usize,
    /// Directory of workflows that can be run by name
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workflows: Option<PathBuf>,
    /// Number of concurrent runs; 0 leaves runs to other servers on the store
    #[arg(long, value_name = "RUNS", default_value_t = 2, requires = "workflows")]
    pub(crate) workers: usize,
    /// Number of sessions kept in memory; others are loaded from the store
    #[arg(long, value_name = "SESSIONS", default_value_t = 1024)]
    pub(crate) hot_sessions: usize,
    /// User ID with the agent role on the socket, without a key (repeatable)
    #[arg(long, value_name = "UID")]
    pub(crate) agent_uid: Vec<u32>,
    /// User ID with the operator role on the socket, without a key (repeatable)
    #[arg(long, value_name = "UID")]
    pub(crate) operator_uid: Vec<u32>,
    /// User ID with the admin role on the socket, without a key (repeatable)
    #[arg(long, value_name = "UID")]
    pub(crate) admin_uid: Vec<u32>,
    /// Log format on stderr [default: text on a terminal, else json]
    #[arg(long, value_enum, value_name = "STYLE")]
    pub(crate) log: Option<LogStyleArg>,
    /// OpenTelemetry collector that receives decisions as spans, e.g. http://HOST:4318
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) otlp: Option<String>,
    /// Include arguments, results and messages in spans
    #[arg(long, requires = "otlp")]
    pub(crate) otlp_content: bool,
    /// Project whose hooks and policy are shown on the coverage page (repeatable) [default: current directory]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) watch: Vec<PathBuf>,
    /// Certificate chain for HTTPS, in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "no_tcp")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Do not warn about plain HTTP on public addresses, e.g. behind a TLS proxy
    #[arg(long)]
    pub(crate) insecure_http: bool,
    /// Maximum unauthenticated connections in total
    #[arg(long, value_name = "CONNECTIONS", default_value_t = 1024)]
    pub(crate) max_unauthenticated: usize,
    /// Maximum unauthenticated connections per address
    #[arg(long, value_name = "CONNECTIONS", default_value_t = 512)]
    pub(crate) max_unauthenticated_per_address: usize,
    /// Maximum sessions per agent key in 24 hours; 0 disables the limit
    #[arg(long, value_name = "SESSIONS", default_value_t = 100_000)]
    pub(crate) key_sessions_per_day: usize,
    /// Maximum event bytes per agent key in 24 hours; 0 disables the limit
    #[arg(long, value_name = "BYTES", default_value_t = 8_589_934_592)]
    pub(crate) key_bytes_per_day: u64,
    /// Maximum plans awaiting approval per agent key; 0 disables the limit
    #[arg(long, value_name = "PLANS", default_value_t = 1000)]
    pub(crate) key_pending_plans: usize,
    /// Maximum concurrent live streams per agent key; 0 disables the limit
    #[arg(long, value_name = "STREAMS", default_value_t = 256)]
    pub(crate) key_listeners: usize,
    /// Maximum concurrent store reads per agent key; 0 disables the limit
    #[arg(long, value_name = "REQUESTS", default_value_t = 8)]
    pub(crate) key_reads: usize,
    /// Time after which browser approvals, releases and answers require the key again
    #[arg(long, value_name = "AGE", default_value = "10m")]
    pub(crate) proof_max_age: String,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// `flyball token`.
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// The action on keys.
    #[command(subcommand)]
    pub(crate) action: TokenAction,
}

/// Actions on keys.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenAction {
    /// Create a key; the secret is shown only once.
    Create {
        /// Name of the owner, recorded with every action
        name: String,
        /// Role of the key
        #[arg(long, value_enum)]
        role: RoleArg,
        /// Restrict the key to sessions with this name prefix
        #[arg(long, value_name = "PREFIX")]
        sessions: Option<String>,
        /// Allow all sessions, not only those that the key created
        #[arg(long, conflicts_with = "sessions")]
        all_sessions: bool,
        /// Lifetime, e.g. 90m, 12h or 30d [default: until revoked]
        #[arg(long, value_name = "AGE")]
        expires: Option<String>,
        #[command(flatten)]
        store: StoreArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List keys, without their secrets.
    List {
        #[command(flatten)]
        store: StoreArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key.
    Revoke {
        /// Key ID, from `flyball token list`
        id: String,
        #[command(flatten)]
        store: StoreArgs,
    },
}

/// Roles of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleArg {
    /// Sends events; cannot approve, release or answer
    Agent,
    /// Hook or SDK: an agent that also relays user prompts
    Host,
    /// Chat: a host that also sends messages from people
    Channel,
    /// Approves, releases, stops and answers
    Operator,
    /// Manages keys
    Admin,
}

/// Log formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogStyleArg {
    /// Every request, one JSON object per line
    Json,
    /// Trips, overload and failures only
    Text,
    /// No log
    Off,
}
