//! Tests that the PostgreSQL server answers and leaves nothing behind.

use super::{PostgresServer, find_programs};
use std::net::TcpStream;

#[test]
fn server_answers_and_leaves_nothing_behind() {
    if find_programs().is_none() {
        println!("skipped: PostgreSQL is not installed");
        return;
    }
    let server = PostgresServer::start().expect("the server starts");
    let (folder, port) = (server.folder.clone(), server.port);
    assert!(server.url().contains(&port.to_string()));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    drop(server);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(!folder.exists());
}
