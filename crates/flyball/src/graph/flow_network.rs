//! Maximum-gain flow through a network, exact, in integers.
//!
//! A walk under limits on nodes, edges and loops is a flow of one unit plus cycles, so the best flow is never smaller
//! than the best walk. Solved as minimum-cost flow: every arc with a gain is saturated first, then the surplus is
//! routed back at minimum cost along all cheapest paths at once (primal-dual). The number of rounds depends on the size
//! of the network, not on the capacities.

use std::collections::VecDeque;

/// Arcs in pairs: arc `i ^ 1` is the reverse of arc `i`.
pub(super) struct FlowNetwork {
    to: Vec<usize>,
    residual: Vec<i64>,
    cost: Vec<i64>,
    out: Vec<Vec<usize>>,
    surplus: Vec<i64>,
    gain: i64,
}

impl FlowNetwork {
    pub(super) fn new() -> Self {
        FlowNetwork {
            to: Vec::new(),
            residual: Vec::new(),
            cost: Vec::new(),
            out: Vec::new(),
            surplus: Vec::new(),
            gain: 0,
        }
    }

    pub(super) fn add_node(&mut self) -> usize {
        self.out.push(Vec::new());
        self.surplus.push(0);
        self.out.len() - 1
    }

    /// Adds an arc that collects `gain` (zero or more) per unit.
    pub(super) fn add_arc(&mut self, from: usize, to: usize, capacity: i64, gain: i64) {
        let full = gain > 0;
        self.add_arc_pair(from, to, if full { 0 } else { capacity }, -gain);
        if full {
            if let Some(back) = self.residual.last_mut() {
                *back = capacity;
            }
            self.gain += capacity * gain;
            self.surplus[to] += capacity;
            self.surplus[from] -= capacity;
        }
    }

    fn add_arc_pair(&mut self, from: usize, to: usize, capacity: i64, cost: i64) {
        for (tail, head, left, cost) in [(from, to, capacity, cost), (to, from, 0, -cost)] {
            self.out[tail].push(self.to.len());
            self.to.push(head);
            self.residual.push(left);
            self.cost.push(cost);
        }
    }

    /// Maximum gain when exactly one unit flows from `source` to `sink`, plus any number of cycles. `None` = the unit
    /// cannot reach the sink.
    pub(super) fn max_gain(mut self, source: usize, sink: usize) -> Option<i64> {
        self.surplus[source] += 1;
        self.surplus[sink] -= 1;
        let (start, end) = (self.add_node(), self.add_node());
        let mut waiting = 0;
        for node in 0..start {
            let surplus = self.surplus[node];
            if surplus > 0 {
                self.add_arc_pair(start, node, surplus, 0);
                waiting += surplus;
            } else if surplus < 0 {
                self.add_arc_pair(node, end, -surplus, 0);
            }
        }
        while waiting > 0 {
            let distance = self.distances(start);
            let price = *distance.get(end)?;
            if price == i64::MAX {
                return None;
            }
            let moved = self.augment(start, end, &distance);
            if moved == 0 {
                return None;
            }
            waiting -= moved;
            self.gain -= moved * price;
        }
        Some(self.gain)
    }

    /// Shortest distances from `start` in the residual network (Bellman-Ford with a queue).
    fn distances(&self, start: usize) -> Vec<i64> {
        let mut distance = vec![i64::MAX; self.out.len()];
        let mut queued = vec![false; self.out.len()];
        let mut queue = VecDeque::from([start]);
        distance[start] = 0;
        while let Some(node) = queue.pop_front() {
            queued[node] = false;
            for &arc in &self.out[node] {
                let (to, price) = (self.to[arc], distance[node] + self.cost[arc]);
                if self.residual[arc] > 0 && price < distance[to] {
                    distance[to] = price;
                    if !queued[to] {
                        queued[to] = true;
                        queue.push_back(to);
                    }
                }
            }
        }
        distance
    }

    /// Sends as much flow as possible along shortest paths only (Dinic's algorithm).
    fn augment(&mut self, start: usize, end: usize, distance: &[i64]) -> i64 {
        let mut moved = 0;
        loop {
            let level = self.levels(start, distance);
            if level[end] == usize::MAX {
                return moved;
            }
            let mut next = vec![0; self.out.len()];
            let mut way: Vec<usize> = Vec::new();
            let mut node = start;
            loop {
                if node == end {
                    moved += self.push_flow(&way);
                    way.clear();
                    node = start;
                    continue;
                }
                if let Some(&arc) = self.out[node].get(next[node]) {
                    let to = self.to[arc];
                    if self.is_admissible(arc, node, distance) && level[to] == level[node] + 1 {
                        way.push(arc);
                        node = to;
                    } else {
                        next[node] += 1;
                    }
                } else if let Some(arc) = way.pop() {
                    // Dead end: backtrack and do not revisit this node in this round.
                    node = self.to[arc ^ 1];
                    next[node] += 1;
                } else {
                    break;
                }
            }
        }
    }

    fn is_admissible(&self, arc: usize, from: usize, distance: &[i64]) -> bool {
        let to = distance[self.to[arc]];
        self.residual[arc] > 0 && to != i64::MAX && distance[from] + self.cost[arc] == to
    }

    fn levels(&self, start: usize, distance: &[i64]) -> Vec<usize> {
        let mut level = vec![usize::MAX; self.out.len()];
        let mut queue = VecDeque::from([start]);
        level[start] = 0;
        while let Some(node) = queue.pop_front() {
            for &arc in &self.out[node] {
                let to = self.to[arc];
                if level[to] == usize::MAX && self.is_admissible(arc, node, distance) {
                    level[to] = level[node] + 1;
                    queue.push_back(to);
                }
            }
        }
        level
    }

    fn push_flow(&mut self, way: &[usize]) -> i64 {
        let amount = way.iter().map(|&arc| self.residual[arc]).min().unwrap_or(0);
        for &arc in way {
            self.residual[arc] -= amount;
            self.residual[arc ^ 1] += amount;
        }
        amount
    }
}
