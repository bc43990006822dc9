//! Tests of workflow parsing and validation.

use super::*;

fn read(json: &str) -> Workflow {
    serde_json::from_str(json).expect("a workflow")
}

fn ids(workflow: &Workflow) -> Vec<&str> {
    workflow.edges.iter().map(|e| &*e.id).collect()
}

#[test]
fn edges_without_an_id_are_named_after_their_ends() {
    let cases = [
        (r#"[{"from":"a","to":"b"}]"#, vec!["a->b"]),
        (
            r#"[{"from":"a","to":"b"},{"from":"a","to":"b"},{"from":"a","to":"b"}]"#,
            vec!["a->b", "a->b#2", "a->b#3"],
        ),
        (r#"[{"from":"a","to":"b"},{"id":"a->b","from":"b","to":"a"}]"#, vec!["a->b#2", "a->b"]),
        (r#"[{"id":"e1","from":"a","to":"b"}]"#, vec!["e1"]),
    ];
    for (edges, expected) in cases {
        let workflow = read(&format!(r#"{{"nodes":["a","b"],"edges":{edges}}}"#));
        assert_eq!(ids(&workflow), expected, "{edges}");
        assert_eq!(workflow.validate(), Ok(()), "{edges}");
    }
}

#[test]
fn nodes_come_from_the_edges_when_none_are_listed() {
    let workflow = read(r#"{"edges":[{"from":"b","to":"a"},{"from":"a","to":"c"}]}"#);
    assert_eq!(workflow.nodes, ["b", "a", "c"]);
    assert_eq!(workflow.validate(), Ok(()));
}

#[test]
fn workflow_round_trips_through_json() {
    let workflow = read(
        r#"{"nodes":["coder","verifier"],"signals":["diff"],"edges":[
            {"id":"e1","from":"coder","to":"verifier"},{"from":"verifier","to":"coder"}]}"#,
    );
    let json = serde_json::to_string(&workflow).expect("json");
    assert_eq!(read(&json), workflow);
}

#[test]
fn invalid_graph_is_rejected_with_code_and_help() {
    let many = |n: usize| (0..n).map(|i| format!("\"n{i}\"")).collect::<Vec<_>>();
    let edges = vec![r#"{"from":"a","to":"b"}"#; 257].join(",");
    let long = "x".repeat(7000);
    let cases = [
        (r#"{"nodes":["a","a"]}"#.to_owned(), "workflow_duplicate_node"),
        (r#"{"nodes":[""]}"#.to_owned(), "workflow_empty_name"),
        (r#"{"nodes":["a"],"edges":[{"from":"a","to":"b"}]}"#.to_owned(), "workflow_unknown_node"),
        (r#"{"nodes":["a"],"start":"b"}"#.to_owned(), "workflow_unknown_node"),
        (
            r#"{"edges":[{"id":"e","from":"a","to":"b"},{"id":"e","from":"b","to":"a"}]}"#.to_owned(),
            "workflow_duplicate_edge",
        ),
        (format!(r#"{{"nodes":[{}]}}"#, many(129).join(",")), "workflow_too_large"),
        (format!(r#"{{"edges":[{edges}]}}"#), "workflow_too_large"),
        (format!(r#"{{"nodes":["{long}","{long}y"]}}"#), "workflow_too_large"),
    ];
    for (json, code) in cases {
        let error = read(&json).validate().expect_err(&json);
        assert_eq!(error.code(), code);
        assert!(!error.help().is_empty());
        assert!(error.to_string().lines().count() == 1);
    }
    let largest = format!(r#"{{"nodes":[{}]}}"#, many(128).join(","));
    assert_eq!(read(&largest).validate(), Ok(()));
}

#[test]
fn display_names_are_single_line_and_truncated() {
    assert_eq!(display_name("a\nb\u{202e}c", 10), "a·b·c");
    assert_eq!(display_name("abcdef", 6), "abcdef");
    assert_eq!(display_name("abcdefg", 6), "abcde…");
}

#[test]
fn entries_are_nodes_without_incoming_edges() {
    type Pairs<'a> = &'a [(&'a str, &'a str)];
    let cases: [(Pairs<'_>, &[&str]); 5] = [
        (&[("b", "a"), ("a", "b")], &["a"]),
        (&[("a", "b"), ("c", "b")], &["a", "c"]),
        (&[("a", "b"), ("b", "a")], &["a"]),
        (&[("a", "a"), ("a", "b")], &["a"]),
        (&[("a", "a")], &["a"]),
    ];
    for (pairs, expected) in cases {
        let workflow = Workflow::from_pairs(pairs);
        let topology = Topology::new(&workflow);
        let names: Vec<&str> = topology.entries().iter().map(|&n| topology.names[n]).collect();
        assert_eq!(names, expected, "{pairs:?}");
    }
    assert!(Topology::new(&Workflow::default()).entries().is_empty());
}
