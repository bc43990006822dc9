//! Adversarial tests against a simple implementation of the limits: no run may exceed the bounds, and for tiny graphs
//! the best run must often reach them.

use std::collections::BTreeMap;

use super::*;
use crate::graph::explain::format_dollars;
use crate::graph::{CycleRule, Loop};

/// SplitMix64: small, seeded, the same everywhere.
struct GraphRng(u64);

impl GraphRng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
    fn limit(&mut self, percent: u64, from: u64, to: u64) -> Option<u64> {
        let value = from + self.below(to - from + 1);
        self.chance(percent).then_some(value)
    }
}

/// A run under the limits, implemented as simply as possible and by name.
#[derive(Clone)]
struct SimulatedRun<'a> {
    workflow: &'a Workflow,
    loops: &'a [Loop],
    limits: &'a WorkflowLimits,
    at: String,
    finished: bool,
    trail: Vec<(String, String)>,
    visits: BTreeMap<String, u64>,
    edge_counts: BTreeMap<(String, String), u64>,
    loop_iterations: BTreeMap<String, u64>,
    node_turns: BTreeMap<String, u64>,
    node_ms: BTreeMap<String, u64>,
    turns: u64,
    ms: u64,
    cost: u64,
    loop_cost: BTreeMap<String, u64>,
    crossing: u64,
}

/// Cost of one turn.
#[derive(Clone, Copy)]
struct TurnCost {
    ms: u64,
    cost: u64,
}

fn is_exhausted(used: u64, limit: Option<u64>) -> bool {
    limit.is_some_and(|most| used >= most)
}

impl<'a> SimulatedRun<'a> {
    fn start(
        workflow: &'a Workflow,
        loops: &'a [Loop],
        limits: &'a WorkflowLimits,
        at: &str,
        spent: TurnCost,
    ) -> Self {
        let mut run = SimulatedRun {
            workflow,
            loops,
            limits,
            at: at.to_owned(),
            finished: false,
            trail: Vec::new(),
            visits: BTreeMap::new(),
            edge_counts: BTreeMap::new(),
            loop_iterations: BTreeMap::new(),
            node_turns: BTreeMap::new(),
            node_ms: BTreeMap::new(),
            turns: 0,
            ms: 0,
            cost: 0,
            loop_cost: BTreeMap::new(),
            crossing: 0,
        };
        run.finished = !run.has_no_turn() && !run.retry(spent);
        run
    }

    /// Whether the node has no turns.
    fn has_no_turn(&self) -> bool {
        self.limits.nodes_without_turns.contains(&self.at)
    }

    fn visit_limit(&self, node: &str) -> Option<u64> {
        let own = self.limits.visits.get(node).copied();
        own.unwrap_or(self.limits.default_visits)
    }

    fn turn_limit(&self, node: &str) -> Option<u64> {
        if let Some(own) = self.limits.node_turns.get(node) {
            return *own;
        }
        let looped = self.loops.iter().any(|l| l.nodes.iter().any(|n| n == node));
        let usual = self.limits.default_node_turns?;
        let iterations = self.limits.loop_iterations;
        Some(if looped { usual.max(iterations.map_or(0, |n| n + 1)) } else { usual })
    }

    fn turn_allowed(&self) -> bool {
        let node = &self.at;
        let around = || self.loops.iter().filter(|l| l.nodes.contains(node));
        let loop_ms = |l: &Loop| l.nodes.iter().filter_map(|n| self.node_ms.get(n)).sum::<u64>();
        !(is_exhausted(*self.node_turns.get(node).unwrap_or(&0), self.turn_limit(node))
            || is_exhausted(self.turns, self.limits.session_turns)
            || is_exhausted(self.ms, self.limits.session_runtime_ms)
            || is_exhausted(*self.node_ms.get(node).unwrap_or(&0), self.limits.node_runtime_ms)
            || around().any(|l| is_exhausted(loop_ms(l), self.limits.loop_runtime_ms))
            || is_exhausted(self.cost, self.limits.session_cost_micro_usd)
            || around().any(|l| {
                is_exhausted(*self.loop_cost.get(&l.id).unwrap_or(&0), self.limits.loop_cost_micro_usd)
            }))
    }

    fn turn(&mut self, spent: TurnCost) {
        let ms = spent.ms.min(self.limits.turn_timeout_ms.unwrap_or(u64::MAX));
        self.turns += 1;
        self.ms += ms;
        *self.node_turns.entry(self.at.clone()).or_default() += 1;
        *self.node_ms.entry(self.at.clone()).or_default() += ms;
        let (before, mut crossed) = (self.cost, false);
        self.cost += spent.cost;
        crossed |= !is_exhausted(before, self.limits.session_cost_micro_usd)
            && is_exhausted(self.cost, self.limits.session_cost_micro_usd);
        for l in self.loops.iter().filter(|l| l.nodes.contains(&self.at)) {
            let cost = self.loop_cost.entry(l.id.clone()).or_default();
            let before = *cost;
            *cost += spent.cost;
            crossed |= !is_exhausted(before, self.limits.loop_cost_micro_usd)
                && is_exhausted(*cost, self.limits.loop_cost_micro_usd);
        }
        if crossed {
            self.crossing += spent.cost;
        }
    }

    fn retry(&mut self, spent: TurnCost) -> bool {
        let visits = *self.visits.get(&self.at).unwrap_or(&0);
        if self.finished
            || self.has_no_turn()
            || is_exhausted(visits, self.visit_limit(&self.at))
            || !self.turn_allowed()
        {
            return false;
        }
        *self.visits.entry(self.at.clone()).or_default() += 1;
        self.turn(spent);
        true
    }

    fn take_edge(&mut self, edge: usize, spent: TurnCost) -> bool {
        let edge = &self.workflow.edges[edge];
        let pair = (edge.from.clone(), edge.to.clone());
        let own = self.limits.transitions.get(&pair).copied();
        let pair_limit = own.unwrap_or(self.limits.default_transitions);
        let closed = self.loops.iter().find(|l| l.anchors.contains(&edge.id));
        let done = self.trail.len() as u64;
        self.trail.push(pair.clone());
        let refused = self.finished
            || edge.from != self.at
            || is_exhausted(*self.visits.get(&edge.to).unwrap_or(&0), self.visit_limit(&edge.to))
            || is_exhausted(*self.edge_counts.get(&pair).unwrap_or(&0), pair_limit)
            || is_exhausted(done, self.limits.total_transitions)
            || is_exhausted(done, self.limits.message_transitions)
            || closed.is_some_and(|l| {
                is_exhausted(*self.loop_iterations.get(&l.id).unwrap_or(&0), self.limits.loop_iterations)
            })
            || self.limits.cycle.as_ref().is_some_and(|rule| repeats_cycle(rule, &self.trail));
        if refused {
            self.trail.pop();
            return false;
        }
        *self.visits.entry(edge.to.clone()).or_default() += 1;
        *self.edge_counts.entry(pair).or_default() += 1;
        if let Some(l) = closed {
            *self.loop_iterations.entry(l.id.clone()).or_default() += 1;
        }
        self.at = edge.to.clone();
        if self.has_no_turn() {
            return true;
        }
        if self.turn_allowed() {
            self.turn(spent);
        } else {
            self.finished = true;
        }
        true
    }

    fn times_taken(&self, edge: usize) -> u64 {
        let edge = &self.workflow.edges[edge];
        *self.edge_counts.get(&(edge.from.clone(), edge.to.clone())).unwrap_or(&0)
    }
}

/// The literal cycle rule; stricter on self-edges than the bounds assume.
fn repeats_cycle(rule: &CycleRule, trail: &[(String, String)]) -> bool {
    let n = trail.len();
    for period in 2..=rule.max_period.unwrap_or(0) as usize {
        let all = period * rule.repeats as usize;
        if rule.repeats >= 2 && all <= n && (n - all + period..n).all(|i| trail[i] == trail[i - period]) {
            return true;
        }
    }
    let length = rule.suffix_length.unwrap_or(0) as usize;
    if length > 0 && n >= 2 * length {
        let oldest = n.saturating_sub((3 * length).max(10));
        if (oldest..=n - 2 * length).any(|i| trail[i..i + length] == trail[n - length..]) {
            return true;
        }
    }
    let last = &trail[n - 1];
    let run = trail.iter().rev().take_while(|step| *step == last).count();
    last.0 == last.1 && rule.self_loop.is_some_and(|most| run as u64 > most)
}

fn random_workflow(dice: &mut GraphRng, most_nodes: u64) -> Workflow {
    let count = 1 + dice.below(most_nodes);
    let names: Vec<String> = (0..count).map(|i| format!("n{i}")).collect();
    let edges = dice.below(2 * count + 2);
    let edges: Vec<_> = (0..edges)
        .map(|_| {
            let from = dice.below(count) as usize;
            let to = dice.below(count) as usize;
            (None, names[from].clone(), names[to].clone())
        })
        .collect();
    Workflow::new(names, edges, Vec::new())
}

fn random_limits(dice: &mut GraphRng, workflow: &Workflow, most: u64) -> WorkflowLimits {
    let mut limits = WorkflowLimits {
        default_visits: dice.limit(70, 1, most),
        default_transitions: dice.limit(60, 1, most),
        total_transitions: dice.limit(20, 1, 4 * most),
        message_transitions: dice.limit(30, 1, 4 * most),
        default_node_turns: dice.limit(60, 1, most),
        loop_iterations: dice.limit(60, 1, most),
        session_turns: dice.limit(20, 1, 5 * most),
        session_runtime_ms: dice.limit(50, 1, 2_000),
        turn_timeout_ms: dice.limit(85, 1, 300),
        node_runtime_ms: dice.limit(30, 1, 600),
        loop_runtime_ms: dice.limit(30, 1, 900),
        session_cost_micro_usd: dice.limit(50, 1, 900),
        loop_cost_micro_usd: dice.limit(30, 1, 500),
        cycle: dice.chance(50).then_some(()).map(|()| CycleRule {
            max_period: dice.limit(80, 2, 6),
            repeats: 2 + dice.below(2),
            suffix_length: dice.limit(50, 1, 4),
            self_loop: dice.limit(50, 1, 4),
        }),
        ..WorkflowLimits::default()
    };
    for node in &workflow.nodes {
        if dice.chance(15) {
            limits.visits.insert(node.clone(), dice.limit(80, 0, most));
        }
        if dice.chance(15) {
            limits.node_turns.insert(node.clone(), dice.limit(80, 0, most));
        }
        if dice.chance(15) {
            limits.nodes_without_turns.insert(node.clone());
        }
    }
    for edge in &workflow.edges {
        if dice.chance(10) {
            let pair = (edge.from.clone(), edge.to.clone());
            limits.transitions.insert(pair, dice.limit(80, 0, most));
        }
    }
    limits
}

#[derive(Clone, Copy, Debug)]
enum Adversary {
    /// Random choices.
    Random,
    /// Always the least used edge; a retry only if no edge is available.
    LeastUsed,
    /// As many turns as possible on each node before leaving it.
    Stubborn,
}

const MAX_MOVES: usize = 400;

fn simulate<'a>(
    dice: &mut GraphRng,
    player: Adversary,
    workflow: &'a Workflow,
    loops: &'a [Loop],
    limits: &'a WorkflowLimits,
    entry: &str,
) -> SimulatedRun<'a> {
    let longest = limits.turn_timeout_ms.unwrap_or(50);
    let spend = |dice: &mut GraphRng| match player {
        Adversary::Random => TurnCost { ms: dice.below(longest + 1), cost: dice.below(90) },
        _ => TurnCost { ms: longest, cost: 1 + dice.below(200) },
    };
    let mut run = SimulatedRun::start(workflow, loops, limits, entry, spend(dice));
    for _ in 0..MAX_MOVES {
        let mut edges: Vec<usize> =
            (0..workflow.edges.len()).filter(|&i| workflow.edges[i].from == run.at).collect();
        let shift = dice.below(edges.len().max(1) as u64) as usize;
        edges.rotate_left(shift);
        let moved = match player {
            Adversary::Random if dice.chance(30) => run.retry(spend(dice)),
            Adversary::Stubborn if run.retry(spend(dice)) => true,
            Adversary::Random => edges.first().is_some_and(|&e| run.take_edge(e, spend(dice))),
            _ => {
                edges.sort_by_key(|&e| run.times_taken(e));
                edges.iter().any(|&e| run.take_edge(e, spend(dice))) || run.retry(spend(dice))
            }
        };
        if run.finished || (!moved && !matches!(player, Adversary::Random)) {
            break;
        }
    }
    run
}

fn entries(workflow: &Workflow) -> Vec<String> {
    let topology = crate::graph::Topology::new(workflow);
    topology.entries().iter().map(|&n| topology.names[n].to_owned()).collect()
}

fn assert_within(run: &SimulatedRun<'_>, bounds: &WorstCaseBounds, what: &str) {
    let checks = [
        ("turns", run.turns, &bounds.turns),
        ("transitions", run.trail.len() as u64, &bounds.transitions),
        ("runtime", run.ms, &bounds.runtime_ms),
        ("cost", run.cost - run.crossing, &bounds.cost_micro_usd),
    ];
    for (name, used, bound) in checks {
        if let Some(value) = bound.value() {
            assert!(
                used <= value,
                "{name} {used} > {value} ({what})\n{:?}\n{:?}\n{:?}\n{bounds:?}",
                run.workflow,
                run.limits,
                run.trail
            );
        }
    }
}

#[test]
fn no_adversary_ever_exceeds_the_bounds() {
    let mut dice = GraphRng(1);
    for game in 0..3_000 {
        let size = if game % 3 == 0 { 12 } else { 5 };
        let workflow = random_workflow(&mut dice, size);
        let found = find_loops(&workflow);
        let limits = random_limits(&mut dice, &workflow, 6);
        let by_flow = worst_case_bounds_with_budget(&workflow, &limits, 0);
        let exact = worst_case_bounds_with_budget(&workflow, &limits, 1_500);
        for player in [Adversary::Random, Adversary::LeastUsed, Adversary::Stubborn] {
            for entry in entries(&workflow) {
                let run = simulate(&mut dice, player, &workflow, &found, &limits, &entry);
                let what = format!("game {game}, {player:?}");
                assert_within(&run, &by_flow, &what);
                assert_within(&run, &exact, &what);
            }
        }
    }
}

/// Maximum `score` over all runs with these acts; `None` = too many runs.
fn best_score(
    run: SimulatedRun<'_>,
    retries: bool,
    score: fn(&SimulatedRun<'_>) -> u64,
    left: &mut u64,
) -> Option<u64> {
    *left = left.checked_sub(1)?;
    let mut most = score(&run);
    if run.finished {
        return Some(most);
    }
    let nothing = TurnCost { ms: 0, cost: 0 };
    for edge in 0..run.workflow.edges.len() {
        let mut next = run.clone();
        if next.take_edge(edge, nothing) {
            most = most.max(best_score(next, retries, score, left)?);
        }
    }
    let mut next = run;
    if retries && next.retry(nothing) {
        most = most.max(best_score(next, retries, score, left)?);
    }
    Some(most)
}

/// How often the bound was reached exactly.
#[derive(Default)]
struct ExactnessCount {
    runs: u64,
    exact: u64,
}

impl ExactnessCount {
    fn add(&mut self, optimum: u64, bound: &WorstCaseBound) {
        let value = bound.value().expect("a finite game must be bounded");
        assert!(optimum <= value);
        self.runs += 1;
        self.exact += u64::from(optimum == value);
    }
    fn percent(&self) -> u64 {
        self.exact * 100 / self.runs.max(1)
    }
}

#[test]
fn tiny_graphs_often_reach_their_bounds() {
    let mut dice = GraphRng(2);
    let (mut flow, mut exact) = (ExactnessCount::default(), ExactnessCount::default());
    let (mut flow_turns, mut exact_turns) = (ExactnessCount::default(), ExactnessCount::default());
    for _ in 0..2_000 {
        let workflow = random_workflow(&mut dice, 4);
        let found = find_loops(&workflow);
        if found.is_empty() {
            continue; // too easy to count
        }
        let mut limits = random_limits(&mut dice, &workflow, 3);
        limits.session_runtime_ms = None; // time and money do not count here
        limits.default_visits = limits.default_visits.or(Some(3));
        let by_flow = worst_case_bounds_with_budget(&workflow, &limits, 0);
        let by_search = worst_case_bounds(&workflow, &limits);
        let optimum = |retries: bool, score: fn(&SimulatedRun<'_>) -> u64| {
            let mut left = 3_000;
            entries(&workflow).iter().try_fold(0u64, |most, entry| {
                let start =
                    SimulatedRun::start(&workflow, &found, &limits, entry, TurnCost { ms: 0, cost: 0 });
                Some(most.max(best_score(start, retries, score, &mut left)?))
            })
        };
        if by_flow.transitions.value().is_some()
            && let Some(most) = optimum(false, |run| run.trail.len() as u64)
        {
            flow.add(most, &by_flow.transitions);
            exact.add(most, &by_search.transitions);
        }
        // A cycle of nodes without turns never ends and takes no turns, so it cannot be searched.
        if by_flow.turns.value().is_some()
            && by_flow.transitions.value().is_some()
            && let Some(most) = optimum(true, |run| run.turns)
        {
            flow_turns.add(most, &by_flow.turns);
            exact_turns.add(most, &by_search.turns);
        }
    }
    let tallies = [
        ("transitions by flow", flow, 85, 1_000),
        ("transitions with search", exact, 97, 1_000),
        ("turns by flow", flow_turns, 85, 500),
        ("turns with search", exact_turns, 97, 500),
    ];
    for (name, tally, share, games) in tallies {
        println!("{name}: {}/{} = {} %", tally.exact, tally.runs, tally.percent());
        assert!(tally.runs >= games, "{name}: only {} games", tally.runs);
        assert!(tally.percent() >= share, "{name}: {} %", tally.percent());
    }
}

/// The defaults of a workflow session.
fn defaults() -> WorkflowLimits {
    WorkflowLimits {
        default_visits: Some(10),
        default_transitions: Some(5),
        message_transitions: Some(25),
        default_node_turns: Some(6),
        loop_iterations: Some(8),
        session_runtime_ms: Some(4 * 3_600_000),
        turn_timeout_ms: Some(600_000),
        cycle: Some(CycleRule {
            max_period: Some(10),
            repeats: 3,
            suffix_length: Some(3),
            self_loop: Some(5),
        }),
        ..WorkflowLimits::default()
    }
}

fn describe(bound: &WorstCaseBound) -> String {
    match bound {
        WorstCaseBound::AtMost { value, because } => format!("{value}: {because}"),
        WorstCaseBound::Unbounded { because, path } => format!("unbounded: {because} [{}]", path.join(" ")),
    }
}

#[test]
fn known_graphs_have_known_transitions_and_reasons() {
    let pair: &[(&str, &str)] = &[("coder", "verifier"), ("verifier", "coder")];
    let off = WorkflowLimits::default;
    type EdgePairs<'a> = &'a [(&'a str, &'a str)];
    let cases: Vec<(&str, EdgePairs<'_>, WorkflowLimits, &str)> = vec![
        ("no loop", &[("a", "b"), ("b", "c")], defaults(), "2: no path through the graph is longer"),
        // The block of two occurs for the third time at the 6th transition, which is denied.
        ("coder and verifier", pair, defaults(), "5: the cycle rule"),
        ("no cycle rule", pair, WorkflowLimits { cycle: None, ..defaults() }, "10: 5 transitions per edge"),
        (
            "iterations only",
            pair,
            WorkflowLimits { loop_iterations: Some(8), ..off() },
            "17: 8 iterations per loop",
        ),
        ("visits only", pair, WorkflowLimits { default_visits: Some(3), ..off() }, "5: 3 visits per node"),
        // The 6th transition is accepted; the turn after it exceeds the limit.
        ("turns only", pair, WorkflowLimits { default_node_turns: Some(3), ..off() }, "6: 3 turns per node"),
        ("session turns", pair, WorkflowLimits { session_turns: Some(7), ..off() }, "7: 7 turns per session"),
        (
            "one message",
            pair,
            WorkflowLimits { message_transitions: Some(25), ..off() },
            "25: 25 transitions per user message",
        ),
        (
            "nothing",
            &[("s", "a"), ("a", "b"), ("b", "a")],
            off(),
            "unbounded: nothing limits the iterations of a → b → a [s a b a]",
        ),
        (
            "a self-edge under the cycle rule",
            &[("a", "a"), ("a", "b")],
            WorkflowLimits { cycle: defaults().cycle, ..off() },
            "6: the cycle rule",
        ),
        (
            "the better of two branches",
            &[("s", "a"), ("a", "a"), ("s", "b"), ("b", "c"), ("c", "b")],
            WorkflowLimits { loop_iterations: Some(2), ..off() },
            "6: 2 iterations per loop",
        ),
        (
            "nested loops, exhaustive search",
            &[("a", "b"), ("b", "c"), ("c", "b"), ("c", "a")],
            WorkflowLimits { message_transitions: None, ..defaults() },
            "10: the cycle rule",
        ),
    ];
    for (name, pairs, limits, expected) in cases {
        let bound = worst_case_bounds(&Workflow::from_pairs(pairs), &limits).transitions;
        assert_eq!(describe(&bound), expected, "{name}");
    }
}

#[test]
fn turn_runtime_and_cost_bounds_state_their_reason() {
    let pair = Workflow::from_pairs(&[("coder", "verifier"), ("verifier", "coder")]);
    let all = worst_case_bounds(&pair, &defaults());
    assert_eq!(describe(&all.turns), "18: 9 turns per node");
    assert_eq!(describe(&all.runtime_ms), "10800000: 18 turns of at most 10 min");
    assert_eq!(describe(&all.cost_micro_usd), "unbounded: no cost limit is set []");

    let limits = WorkflowLimits {
        session_runtime_ms: Some(3_600_000),
        session_cost_micro_usd: Some(2_500_000),
        ..defaults()
    };
    let all = worst_case_bounds(&pair, &limits);
    assert_eq!(
        describe(&all.runtime_ms),
        "4200000: 1 h of session runtime, plus 10 min for the turn in progress"
    );
    assert_eq!(
        describe(&all.cost_micro_usd),
        "2500000: $2.50 per session, plus the one turn that crosses it"
    );

    let free = worst_case_bounds(
        &Workflow::from_pairs(&[("a", "b")]),
        &WorkflowLimits { turn_timeout_ms: Some(1), ..WorkflowLimits::default() },
    );
    assert_eq!(describe(&free.turns), "unbounded: node 'a' can be retried without limit [a]");
    assert_eq!(
        describe(&free.runtime_ms),
        "unbounded: node 'a' can be retried without limit, and no runtime limit stops it [a]"
    );
    let limits = WorkflowLimits { turn_timeout_ms: None, ..defaults() };
    assert_eq!(
        describe(&worst_case_bounds(&pair, &limits).runtime_ms),
        "unbounded: no turn timeout is set, so one turn can run forever [coder]"
    );
}

#[test]
fn extreme_limit_values_do_not_overflow() {
    let pair = Workflow::from_pairs(&[("a", "b"), ("b", "a"), ("b", "b"), ("b", "c")]);
    for value in [0, 1, 1_000_000_000_000, 1_000_000_000_001, u64::MAX] {
        let limit = Some(value);
        let limits = WorkflowLimits {
            default_visits: limit,
            default_transitions: limit,
            default_node_turns: limit,
            loop_iterations: limit,
            session_runtime_ms: limit,
            turn_timeout_ms: limit,
            node_runtime_ms: limit,
            loop_runtime_ms: limit,
            session_cost_micro_usd: limit,
            loop_cost_micro_usd: limit,
            cycle: Some(CycleRule {
                max_period: limit,
                repeats: value,
                suffix_length: limit,
                self_loop: limit,
            }),
            ..WorkflowLimits::default()
        };
        let all = worst_case_bounds(&pair, &limits);
        assert_eq!(all.turns.value().is_some(), value <= 1_000_000_000_000, "{value}");
        assert_eq!(all.transitions.value().is_some(), value <= 1_000_000_000_000, "{value}");
        if value == 0 {
            assert_eq!((all.turns.value(), all.transitions.value()), (Some(0), Some(0)));
        }
    }
    let nothing = worst_case_bounds(&Workflow::default(), &WorkflowLimits::default());
    assert_eq!(nothing.turns.value(), Some(0));
    let broken = Workflow { nodes: vec!["a".into(), "a".into()], ..Workflow::default() };
    assert_eq!(worst_case_bounds(&broken, &defaults()).turns.value(), None);
}

#[test]
fn largest_graph_is_bounded_in_time() {
    let mut dice = GraphRng(3);
    let names: Vec<String> = (0..128).map(|i| format!("n{i}")).collect();
    let edges: Vec<_> = (0..256)
        .map(|_| (None, names[dice.below(128) as usize].clone(), names[dice.below(128) as usize].clone()))
        .collect();
    let workflow = Workflow::new(names, edges, Vec::new());
    let started = std::time::Instant::now();
    let all = worst_case_bounds(&workflow, &WorkflowLimits { message_transitions: None, ..defaults() });
    assert!(all.transitions.value().is_some());
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn dollar_amounts_are_exact() {
    let money = [(0, "$0.00"), (2_500_000, "$2.50"), (1, "$0.000001"), (1_230_000, "$1.23")];
    for (micro, text) in money {
        assert_eq!(format_dollars(micro), text);
    }
}
