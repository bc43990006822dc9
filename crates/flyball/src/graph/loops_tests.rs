//! Tests of loop detection, loop ids and matching after edits.

use super::*;

/// Each loop as "depth header {nodes} anchors".
fn summary(workflow: &Workflow) -> Vec<String> {
    find_loops(workflow)
        .iter()
        .map(|l| {
            let (nodes, anchors) = (l.nodes.join(" "), l.anchors.join(" "));
            format!("{} {} {{{nodes}}} {anchors}", l.depth, l.header)
        })
        .collect()
}

type LoopCase = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

const CASES: &[LoopCase] = &[
    (
        "coder and verifier",
        &[("coder", "verifier"), ("verifier", "coder")],
        &["0 coder {coder verifier} verifier->coder"],
    ),
    (
        "planner, reviewer and an exit",
        &[("planner", "reviewer"), ("reviewer", "planner"), ("reviewer", "coder")],
        &["0 planner {planner reviewer} reviewer->planner"],
    ),
    (
        "docs writer and reviewer behind a start",
        &[("start", "writer"), ("writer", "reviewer"), ("reviewer", "writer")],
        &["0 writer {reviewer writer} reviewer->writer"],
    ),
    ("no loop", &[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")], &[]),
    ("a self-edge", &[("a", "b"), ("b", "b"), ("b", "c")], &["0 b {b} b->b"]),
    (
        "a loop in a loop",
        &[("plan", "code"), ("code", "test"), ("test", "code"), ("test", "plan")],
        &["0 plan {code plan test} test->plan", "1 code {code test} test->code"],
    ),
    (
        "two loops that share a node",
        &[("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")],
        &["0 a {a b c} b->a", "1 b {b c} c->b"],
    ),
    (
        "two anchors, one of them from deeper inside",
        &[("s", "a"), ("a", "b"), ("b", "a"), ("b", "c"), ("c", "a")],
        &["0 a {a b c} b->a c->a"],
    ),
    (
        "a self-edge on the header is an inner loop",
        &[("a", "b"), ("b", "a"), ("a", "a")],
        &["0 a {a b} b->a", "1 a {a} a->a"],
    ),
    (
        "a self-edge on another member is an inner loop",
        &[("a", "b"), ("b", "a"), ("b", "b")],
        &["0 a {a b} b->a", "1 b {b} b->b"],
    ),
    (
        "two loops one after the other",
        &[("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "c")],
        &["0 a {a b} b->a", "0 c {c d} d->c"],
    ),
    (
        "parallel edges back are two anchors",
        &[("a", "b"), ("b", "a"), ("b", "a")],
        &["0 a {a b} b->a b->a#2"],
    ),
    (
        "a loop that no run reaches takes the first name",
        &[("s", "t"), ("y", "x"), ("x", "y")],
        &["0 x {x y} y->x"],
    ),
];

#[test]
fn known_graphs_have_the_expected_loops() {
    for (name, pairs, expected) in CASES {
        let start = pairs.first().map(|(from, _)| (*from).to_owned());
        let workflow = Workflow { start, ..Workflow::from_pairs(pairs) };
        assert_eq!(summary(&workflow), *expected, "{name}");
    }
}

#[test]
fn outer_loops_precede_inner_loops() {
    let chain = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "c"), ("c", "b"), ("b", "a")];
    let found = find_loops(&Workflow::from_pairs(&chain));
    let parents: Vec<Option<usize>> = found.iter().map(|l| l.parent).collect();
    assert_eq!(parents, [None, Some(0), Some(1)]);
}

#[test]
fn loops_do_not_depend_on_the_order_of_the_lists() {
    for (name, pairs, _) in CASES {
        let workflow = Workflow::from_pairs(pairs);
        let mut turned = workflow.clone();
        turned.edges.reverse();
        turned.nodes.reverse();
        assert_eq!(find_loops(&workflow), find_loops(&turned), "{name}");
    }
}

/// Deterministic random numbers.
struct LoopsTestRng(u64);

impl LoopsTestRng {
    fn below(&mut self, end: u64) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % end.max(1)) as usize
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at as u64 + 1));
        }
    }
}

#[test]
fn loops_of_random_graphs_do_not_depend_on_the_order_of_the_lists() {
    let mut dice = LoopsTestRng(20_261_118);
    let (mut with_loops, mut without_entry) = (0, 0);
    for number in 0..2_000 {
        let count = 2 + dice.below(7) as u64;
        let mut names: Vec<String> = (0..count).map(|i| format!("n{i}")).collect();
        let mut edges: Vec<(Option<String>, String, String)> = (0..dice.below(16))
            .map(|_| {
                let (from, to) = (dice.below(count), dice.below(count));
                (None, names[from].clone(), names[to].clone())
            })
            .collect();
        // Parallel edges keep their ids in any order.
        for (at, edge) in edges.iter_mut().enumerate().filter(|_| number % 2 == 0) {
            edge.0 = Some(format!("e{at}"));
        }
        let start = (number % 5 == 0).then(|| names[0].clone());
        let first = Workflow { start, ..Workflow::new(names.clone(), edges.clone(), Vec::new()) };
        let found = find_loops(&first);
        with_loops += usize::from(!found.is_empty());
        without_entry += usize::from(first.is_start_unknown());
        for _ in 0..4 {
            dice.shuffle(&mut names);
            dice.shuffle(&mut edges);
            let again = Workflow {
                start: first.start.clone(),
                ..Workflow::new(names.clone(), edges.clone(), Vec::new())
            };
            assert_eq!(found, find_loops(&again), "{first:?}");
        }
    }
    assert!(with_loops > 1_000 && without_entry > 100, "{with_loops}, {without_entry}");
}

#[test]
fn loops_are_counted_from_a_named_start() {
    let pair = Workflow::from_pairs(&[("test", "fix"), ("fix", "test")]);
    assert_eq!(summary(&pair), ["0 fix {fix test} test->fix"], "without one, the first by name");
    let pair = Workflow { start: Some("test".to_owned()), ..pair };
    assert_eq!(summary(&pair), ["0 test {fix test} fix->test"]);
}

#[test]
fn the_id_of_a_known_loop_never_changes() {
    let found = find_loops(&Workflow::from_pairs(&[("coder", "verifier"), ("verifier", "coder")]));
    let ids: Vec<&str> = found.iter().map(|l| &*l.id).collect();
    assert_eq!(ids, ["loop-3e0ff36cad6e"]);
}

#[test]
fn concatenated_names_give_distinct_ids() {
    let a = stable_id(&["ab".into(), "c".into()], &["e".into()]);
    let b = stable_id(&["a".into(), "bc".into()], &["e".into()]);
    let c = stable_id(&["ab".into()], &["c".into(), "e".into()]);
    assert!(a != b && b != c && a != c);
    assert_eq!(a.len(), "loop-".len() + 12);
}

#[test]
fn every_cycle_crosses_an_anchor_and_no_edge_is_an_anchor_twice() {
    let mut seed = 7u64;
    for _ in 0..500 {
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        let count = 2 + next(6);
        let names: Vec<String> = (0..count).map(|i| format!("n{i}")).collect();
        let edges: Vec<_> = (0..next(14))
            .map(|_| (None, names[next(count) as usize].clone(), names[next(count) as usize].clone()))
            .collect();
        let workflow = Workflow::new(names, edges, Vec::new());
        let mut anchors: Vec<String> = find_loops(&workflow).into_iter().flat_map(|l| l.anchors).collect();
        let total = anchors.len();
        anchors.sort();
        anchors.dedup();
        assert_eq!(anchors.len(), total, "{workflow:?}");
        let mut rest = workflow.clone();
        rest.edges.retain(|e| !anchors.contains(&e.id));
        assert!(find_loops(&rest).is_empty(), "{workflow:?}");
    }
}

#[test]
fn counters_are_carried_to_the_loop_that_shares_most_nodes() {
    let old =
        find_loops(&Workflow::from_pairs(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "c")]));
    type NodePairs<'a> = &'a [(&'a str, &'a str)];
    let cases: [(&str, NodePairs<'_>, &[Option<usize>]); 4] = [
        (
            "nothing changed",
            &[("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "c")],
            &[Some(0), Some(1)],
        ),
        (
            "a node was added to the second loop",
            &[("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "c")],
            &[Some(0), Some(1)],
        ),
        ("the first loop was opened", &[("a", "b"), ("b", "c"), ("c", "d"), ("d", "c")], &[Some(1)]),
        ("everything is new", &[("x", "y"), ("y", "x")], &[None]),
    ];
    for (name, pairs, expected) in cases {
        let new = find_loops(&Workflow::from_pairs(pairs));
        assert_eq!(match_loops(&old, &new), expected, "{name}");
    }
}

#[test]
fn merged_loop_inherits_the_smaller_id() {
    let old =
        find_loops(&Workflow::from_pairs(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "c")]));
    let new = find_loops(&Workflow::from_pairs(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]));
    let smaller = (0..old.len()).min_by_key(|&i| &old[i].id);
    assert_eq!(match_loops(&old, &new), [smaller]);
}

#[test]
fn old_loop_counters_go_to_only_one_new_loop() {
    let old = find_loops(&Workflow::from_pairs(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]));
    let new =
        find_loops(&Workflow::from_pairs(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "c")]));
    let carried = match_loops(&old, &new);
    assert_eq!(carried.iter().flatten().count(), 1);
}

#[test]
fn oversized_graph_does_not_panic() {
    let count = 5_000;
    let edges = (0..count).map(|i| (None, format!("n{i}"), format!("n{}", (i + 1) % count)));
    let workflow = Workflow::new(Vec::new(), edges, Vec::new());
    assert!(workflow.validate().is_err());
    assert_eq!(find_loops(&workflow).len(), 1);
    let mut broken = workflow;
    broken.nodes.truncate(2);
    assert_eq!(find_loops(&broken).len(), 0);
}
