//! Tests of rendering, including hostile names.

use super::routes::{Rect, layout_drawing};
use super::*;

fn sample(name: &str) -> GraphView {
    let pairs: &[(&str, &str)] = match name {
        "pair" => &[("coder", "verifier"), ("verifier", "coder")],
        "nested" => &[
            ("start", "plan"),
            ("plan", "code"),
            ("code", "test"),
            ("test", "code"),
            ("test", "review"),
            ("review", "plan"),
            ("review", "review"),
            ("review", "deploy"),
            ("deploy", "done"),
            ("plan", "done"),
        ],
        "branches" => &[
            ("intake", "triage"),
            ("triage", "docs writer"),
            ("triage", "coder"),
            ("triage", "security scan"),
            ("docs writer", "docs reviewer"),
            ("docs reviewer", "docs writer"),
            ("coder", "verifier"),
            ("verifier", "coder"),
            ("coder", "coder"),
            ("docs reviewer", "merge"),
            ("verifier", "merge"),
            ("security scan", "merge"),
            ("merge", "release"),
            ("triage", "release"),
            ("verifier", "triage"),
        ],
        "shared" => &[("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")],
        _ => &[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")],
    };
    let mut view = GraphView::new(Workflow::from_pairs(pairs));
    for (position, found) in view.loops.iter().enumerate() {
        let badge = LoopBadge {
            iterations: 3,
            limit: Some(8),
            halt_reason: (position == 0).then(|| "stalled".to_owned()),
            trend: (position == 0).then(|| "failing tests 7 → 4 → 2".to_owned()),
        };
        view.badges.insert(found.id.clone(), badge);
    }
    if let Some(node) = view.workflow.nodes.get(1).cloned() {
        view.node_marks.insert(node.clone(), "5/10 visits".to_owned());
        view.current = Some(node);
    }
    view
}

const SAMPLES: [&str; 5] = ["pair", "nested", "branches", "shared", "diamond"];

#[test]
fn ascii_shows_badge_halt_reason_and_trend() {
    let expected = "\
┌─────────────┐
│ coder       │◀─╮   Loop 3/8 · halted: stalled
│             │  │   failing tests 7 → 4 → 2
└─────────────┘  │
       │         │
       ▼         │
┌─────────────┐  │
│ ● verifier  │  │
│ 5/10 visits │──╯
└─────────────┘
";
    assert_eq!(ascii(&sample("pair")), expected);
}

#[test]
fn ascii_draws_nested_loops() {
    let expected = "
    ┌─────────────┐
    │ start       │
    └─────────────┘
           │
           ▼
    ┌─────────────┐
    │ ● plan      │◀───╮   Loop 3/8 · halted: stalled
 ╭──│ 5/10 visits │    │   failing tests 7 → 4 → 2
 │  └─────────────┘    │
 │         │           │
 │         ▼           │
 │  ┌─────────────┐    │
 │  │ code        │◀─╮ │   Loop 3/8
 │  └─────────────┘  │ │
 │         │         │ │
 │         ▼         │ │
 │  ┌─────────────┐  │ │
 │  │ test        │  │ │
 │  │             │──╯ │
 │  └─────────────┘    │
 │         │           │
 │         ▼           │
 │  ┌─────────────┐    │
 │  │ review      │◀─╮ │   Loop 3/8
 │  │             │──┴─╯
 │  └─────────────┘
 │         │
 │         ▼
 │  ┌─────────────┐
 │  │ deploy      │
 │  └─────────────┘
 │         │
 │         ▼
 │  ┌─────────────┐
 ╰─▶│ done        │
    └─────────────┘
";
    assert_eq!(format!("\n{}", ascii(&sample("nested"))), expected);
}

#[test]
fn every_format_shows_badge_halt_reason_and_trend() {
    let view = sample("pair");
    for (name, text) in
        [("ascii", ascii(&view)), ("svg", svg(&view)), ("dot", dot(&view)), ("mermaid", mermaid(&view))]
    {
        for words in ["Loop 3/8", "stalled", "failing tests 7 → 4 → 2", "5/10 visits", "verifier"] {
            assert!(text.contains(words), "{name} lacks {words}");
        }
    }
}

#[test]
fn nested_loops_are_drawn_as_nested_groups() {
    let view = sample("nested");
    let count = view.loops.len();
    assert_eq!(dot(&view).matches("subgraph cluster_").count(), count);
    assert_eq!(mermaid(&view).matches("subgraph l").count(), count);
    assert_eq!(mermaid(&view).matches("\n  end").count(), 1, "one loop is outermost");
    assert_eq!(svg(&view).matches("class=\"group").count(), count);
}

#[test]
fn rendering_is_deterministic() {
    for name in SAMPLES {
        let (one, two) = (sample(name), sample(name));
        for draw in [ascii, svg, dot, mermaid] {
            assert_eq!(draw(&one), draw(&two), "{name}");
        }
    }
}

/// Names that try to break out of text, XML, DOT and Mermaid.
fn hostile_view() -> GraphView {
    let names = [
        "<script>alert(1)</script>",
        "q\"uo'te\\\"; }",
        "line\nbreak\r\u{0}\u{202e}",
        "]] --> end\nsubgraph x",
        "&lt;&#60;%%{init}%%",
    ];
    let long = "long ".repeat(40);
    let mut pairs: Vec<(&str, &str)> = names.windows(2).map(|w| (w[0], w[1])).collect();
    pairs.extend([(names[4], names[0]), (names[1], long.as_str()), (long.as_str(), long.as_str())]);
    let mut view = GraphView::new(Workflow::from_pairs(&pairs));
    for (found, name) in view.loops.iter().zip(names) {
        let badge = LoopBadge {
            iterations: u64::MAX,
            limit: None,
            halt_reason: Some(name.to_owned()),
            trend: Some(long.clone()),
        };
        view.badges.insert(found.id.clone(), badge);
    }
    for name in names {
        view.node_marks.insert(name.to_owned(), name.to_owned());
    }
    view.current = Some("nobody".to_owned());
    view
}

/// Every `<` of well-formed output opens one of the tags that the drawing uses.
fn assert_tags_balance(svg: &str) {
    let mut open = Vec::new();
    for piece in svg.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').expect("a tag that ends");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else {
            let name = tag.split([' ', '/']).next().expect("a name");
            let known = ["svg", "style", "rect", "g", "title", "text", "tspan", "path"];
            assert!(known.contains(&name), "{name}");
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn hostile_names_are_escaped() {
    let view = hostile_view();
    let picture = svg(&view);
    assert_tags_balance(&picture);
    assert!(picture.contains("&lt;script&gt;"));
    assert!(!picture.contains("<script"));
    let control = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    for draw in [ascii, svg, dot, mermaid] {
        assert!(!draw(&view).contains(control));
    }
    // Each line of DOT has an even number of unescaped quotes.
    for line in dot(&view).lines() {
        let bare = line.replace("\\\\", "").replace("\\\"", "");
        assert_eq!(bare.matches('"').count() % 2, 0, "{line}");
    }
    for line in mermaid(&view).lines() {
        assert!(!line.contains(['<', '\'']) || line.contains("<br/>"), "{line}");
        assert!(line.matches('"').count() % 2 == 0, "{line}");
    }
    assert!(ascii(&view).lines().all(|line| display_width(line) < 200));
}

fn is_disjoint(a: Rect, b: Rect) -> bool {
    a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y
}

fn is_within(inner: Rect, outer: Rect) -> bool {
    inner.x >= outer.x
        && inner.y >= outer.y
        && inner.x + inner.width <= outer.x + outer.width
        && inner.y + inner.height <= outer.y + outer.height
}

fn random_view(seed: &mut u64) -> GraphView {
    let mut next = |n: u64| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % n
    };
    let count = 1 + next(14);
    let names: Vec<String> = (0..count).map(|i| format!("node {}", i * i * i)).collect();
    let edges: Vec<_> = (0..next(2 * count + 1))
        .map(|_| (None, names[next(count) as usize].clone(), names[next(count) as usize].clone()))
        .collect();
    GraphView::new(Workflow::new(names, edges, Vec::new()))
}

#[test]
fn boxes_never_overlap_and_loops_contain_only_their_nodes() {
    let mut seed = 11;
    for _ in 0..300 {
        let view = random_view(&mut seed);
        let scene = GraphScene::new(&view).expect("drawable");
        let page = layout_drawing(&scene);
        let all = Rect { x: 0, y: 0, width: page.width, height: page.height };
        for (a, &rect) in page.nodes.iter().enumerate() {
            assert!(is_within(rect, all), "{view:?}");
            for &other in &page.nodes[..a] {
                assert!(is_disjoint(rect, other), "{view:?}");
            }
            let around = scene.enclosing_loops(a);
            for (position, &group) in page.loops.iter().enumerate() {
                let inside = around.contains(&position);
                assert!(if inside { is_within(rect, group) } else { is_disjoint(rect, group) }, "{view:?}");
            }
        }
        for route in &page.routes {
            for &(x, y) in route.down.iter().chain(&route.back) {
                assert!(is_within(Rect { x, y, width: 0, height: 0 }, all), "{view:?}");
            }
        }
        assert_tags_balance(&svg(&view));
        assert!(!ascii(&view).is_empty());
    }
}

#[test]
fn every_edge_of_a_small_graph_is_drawn() {
    let mut seed = 12;
    for _ in 0..200 {
        let view = random_view(&mut seed);
        let mut pairs: Vec<_> = view.workflow.edges.iter().map(|e| (&e.from, &e.to)).collect();
        pairs.sort();
        pairs.dedup();
        let scene = GraphScene::new(&view).expect("drawable");
        assert_eq!(layout_drawing(&scene).routes.len(), pairs.len(), "{view:?}");
    }
}

#[test]
fn undrawable_graph_yields_a_message() {
    let names: Vec<String> = (0..200).map(|i| format!("n{i}")).collect();
    let large = GraphView::new(Workflow::new(names, Vec::new(), Vec::new()));
    let mut foreign = sample("pair");
    foreign.workflow = Workflow::from_pairs(&[("x", "y")]);
    for (view, words) in [(large, "too large to draw"), (foreign, "another graph")] {
        for draw in [ascii, svg, dot, mermaid] {
            assert!(draw(&view).contains(words));
        }
    }
    let empty = GraphView::new(Workflow::default());
    for draw in [ascii, svg, dot, mermaid] {
        assert!(!draw(&empty).is_empty());
    }
    assert_tags_balance(&svg(&empty));
}

#[test]
fn the_largest_graph_is_drawn_in_every_format() {
    let names: Vec<String> = (0..128).map(|i| format!("n{i}")).collect();
    let edges: Vec<_> = (0..256usize)
        .map(|i| (None, names[i * 37 % 128].clone(), names[(i * i * 11 + 5) % 128].clone()))
        .collect();
    let view = GraphView::new(Workflow::new(names, edges, Vec::new()));
    for draw in [ascii, svg, dot, mermaid] {
        assert!(draw(&view).len() > 1_000);
    }
}
