//! Connection pool with a blocking interface: callers are plain threads without async code.

use super::PostgresOptions;
use super::connection_config;
use super::pg_error::PostgresError;
use crate::error::{StoreError, StoreErrorKind};
use crate::event_store::StoreResult;
use crate::failpoint::FailpointHook;
use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime,
};
use std::time::Duration;

/// How long a thread waits for a free connection.
const POOL_WAIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for a new connection, including name resolution and TLS.
const CREATE_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout for a reply. Longer than the server's own statement timeout, whose error says more.
const QUERY_TIMEOUT: Duration = Duration::from_secs(45);
/// I/O threads. The callers' threads do the actual work.
const IO_THREADS: usize = 2;

/// Session settings of every connection. A commit must be on disk when it is acknowledged, regardless of the server's
/// default; statements must not hang; and a worker that is suspended mid-transaction must not hold row locks forever.
const CONNECTION_SETUP: &str = "SET synchronous_commit = on; SET statement_timeout = 30000; \
    SET idle_in_transaction_session_timeout = 30000; SET default_transaction_isolation = 'read committed'; \
    SET default_transaction_deferrable = off; SET client_min_messages = warning; SET TIME ZONE 'UTC'";

/// The connections to one server.
pub(super) struct PostgresPool {
    redacted_url: String,
    pool: Pool,
    /// `None` only during drop.
    runtime: Option<tokio::runtime::Runtime>,
    /// Failpoint callback for crash tests.
    pub(super) failpoints: FailpointHook,
}

impl PostgresPool {
    /// Creates the pool without connecting.
    pub(super) fn new(text: &str, options: PostgresOptions) -> StoreResult<Self> {
        let server = connection_config::parse(text)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(IO_THREADS)
            .thread_name("flyball-postgres")
            .enable_all()
            .build()
            .map_err(|error| StoreError::new(StoreErrorKind::Io, format!("cannot start threads: {error}")))?;
        let shown = connection_config::shown(&server.config);
        let tls = connection_config::tls_connector(&server)?;
        let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_config(server.config, tls, how))
            .max_size(options.connections.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(POOL_WAIT_TIMEOUT))
            .create_timeout(Some(CREATE_TIMEOUT))
            .recycle_timeout(Some(CREATE_TIMEOUT))
            .post_create(Hook::async_fn(|client: &mut ClientWrapper, _| {
                Box::pin(
                    async move { client.batch_execute(CONNECTION_SETUP).await.map_err(HookError::Backend) },
                )
            }))
            .build()
            .map_err(|error| {
                StoreError::new(StoreErrorKind::Io, format!("cannot set up the connection pool: {error}"))
            })?;
        Ok(PostgresPool { redacted_url: shown, pool, runtime: Some(runtime), failpoints: options.failpoints })
    }

    /// The address without user and password.
    pub(super) fn shown(&self) -> &str {
        &self.redacted_url
    }

    /// Runs work on one connection. After a failure the connection is discarded, and with it any open transaction.
    pub(super) fn run<T>(
        &self,
        work: impl AsyncFnOnce(&ClientWrapper) -> std::result::Result<T, PostgresError>,
    ) -> std::result::Result<T, PostgresError> {
        self.block_on(async {
            let object = self.pool.get().await?;
            let answer = tokio::time::timeout(QUERY_TIMEOUT, work(&object))
                .await
                .unwrap_or_else(|_| Err(PostgresError::Timeout));
            if answer.is_err() {
                drop(Object::take(object));
            }
            answer
        })
    }

    /// Like [`PostgresPool::run`], for reads: retries on another connection if one turns out to be dead.
    pub(super) fn read<T>(
        &self,
        work: impl AsyncFn(&ClientWrapper) -> std::result::Result<T, PostgresError>,
    ) -> StoreResult<T> {
        match self.run(&work) {
            Err(PostgresError::Sql(error)) if error.is_closed() => self.run(&work),
            answer => answer,
        }
        .map_err(PostgresError::into_store_error)
    }

    /// Like [`PostgresPool::run`], for a single autocommit statement.
    pub(super) fn write<T>(
        &self,
        work: impl AsyncFnOnce(&ClientWrapper) -> std::result::Result<T, PostgresError>,
    ) -> StoreResult<T> {
        self.run(work).map_err(PostgresError::into_write_error)
    }

    /// Runs long work on a dedicated connection, without a timeout.
    pub(super) fn run_dedicated<T>(
        &self,
        work: impl AsyncFnOnce(&ClientWrapper) -> std::result::Result<T, PostgresError>,
    ) -> std::result::Result<T, PostgresError> {
        self.block_on(async {
            let client = Object::take(self.pool.get().await?);
            client.batch_execute("SET statement_timeout = 0").await?;
            work(&client).await
        })
    }

    fn block_on<T>(
        &self,
        work: impl Future<Output = std::result::Result<T, PostgresError>>,
    ) -> std::result::Result<T, PostgresError> {
        match &self.runtime {
            Some(runtime) => runtime.block_on(work),
            None => Err(PostgresError::Store(StoreError::new(
                StoreErrorKind::Unreachable,
                "the store was closed",
            ))),
        }
    }
}

impl Drop for PostgresPool {
    fn drop(&mut self) {
        self.pool.close();
        if let Some(runtime) = self.runtime.take() {
            // Does not block, so that it may be dropped in any context.
            runtime.shutdown_background();
        }
    }
}
