//! The lines of a drawing: where boxes stand on the page, and the way of every edge. Edges
//! forward go down through their slots; edges back leave to the right and go up on the rail
//! of the loop that they close.

use super::Scene;
use super::layout::{GAP, Kind, Level, RAIL, levels, node_size};

/// A box on the page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rect {
    pub x: i64,
    pub y: i64,
    pub width: i64,
    pub height: i64,
}

/// The way of one edge.
#[derive(Clone, Debug)]
pub(super) struct Route {
    /// Points from top to bottom; between two at different columns the line swings over.
    pub down: Vec<(i64, i64)>,
    /// Points with right angles after that; empty for an edge forward.
    pub back: Vec<(i64, i64)>,
    /// The loop that it closes.
    pub closes: Option<usize>,
}

/// Everything in its place.
pub(super) struct Page {
    pub width: i64,
    pub height: i64,
    pub nodes: Vec<Rect>,
    pub loops: Vec<Rect>,
    pub routes: Vec<Route>,
}

pub(super) fn page(scene: &Scene<'_>) -> Page {
    let map = Map::new(scene);
    let mut routes = Vec::new();
    for edge in 0..scene.edges.len() {
        if scene.is_drawn_before(edge) {
            continue;
        }
        let route = match scene.closes[edge] {
            None => map.forward(edge),
            Some(closed) => map.backward(edge, closed),
        };
        routes.extend(route);
    }
    let root = &map.levels[scene.view.loops.len()];
    Page { width: root.width, height: root.height, nodes: map.nodes, loops: map.loops, routes }
}

struct Map<'a> {
    scene: &'a Scene<'a>,
    levels: Vec<Level>,
    nodes: Vec<Rect>,
    loops: Vec<Rect>,
}

impl<'a> Map<'a> {
    fn new(scene: &'a Scene<'a>) -> Self {
        let levels = levels(scene);
        let count = scene.view.loops.len();
        let mut nodes = vec![Rect::default(); scene.names.len()];
        let mut loops = vec![Rect::default(); count];
        // Outer loops stand before inner ones: a corner is known when it is needed.
        for number in std::iter::once(count).chain(0..count) {
            let level = &levels[number];
            let corner = loops.get(number).copied().unwrap_or_default();
            for item in &level.items {
                let (top, height) = level.bands[item.layer];
                let at = |(width, own): (i64, i64)| Rect {
                    x: corner.x + item.x - width / 2,
                    y: corner.y + top + (height - own) / 2,
                    width,
                    height: own,
                };
                match item.kind {
                    Kind::Node(node) => nodes[node] = at(node_size(scene, node)),
                    Kind::Loop(inner) => {
                        loops[inner] = at((levels[inner].width, levels[inner].height));
                    }
                    Kind::Slot => {}
                }
            }
        }
        Map { scene, levels, nodes, loops }
    }

    /// The corner of a layout on the page.
    fn corner(&self, number: usize) -> (i64, i64) {
        self.loops.get(number).map_or((0, 0), |r| (r.x, r.y))
    }

    /// The layouts that hold both, the innermost last; and those that only `node` is in.
    fn split(&self, node: usize, other: usize) -> (usize, Vec<usize>) {
        let (own, others) = (self.scene.around(node), self.scene.around(other));
        let shared = own.iter().zip(&others).take_while(|(a, b)| a == b).count();
        let root = self.scene.view.loops.len();
        let common = shared.checked_sub(1).and_then(|at| own.get(at));
        (common.copied().unwrap_or(root), own.into_iter().skip(shared).collect())
    }

    /// The slots of an edge in a layout, top and bottom of each.
    fn through(&self, number: usize, edge: usize) -> Vec<(i64, i64)> {
        let level = &self.levels[number];
        let (x, y) = self.corner(number);
        let slots = level.slots.get(&edge).into_iter().flatten();
        slots
            .flat_map(|&slot| {
                let item = &level.items[slot];
                let (top, height) = level.bands[item.layer];
                [(x + item.x, y + top), (x + item.x, y + top + height)]
            })
            .collect()
    }

    /// Top and bottom on the page of the layer in which a layout holds a node.
    fn band(&self, number: usize, node: usize) -> Option<(i64, i64)> {
        let level = &self.levels[number];
        let item = &level.items[level.holding(node)?];
        let (top, height) = level.bands[item.layer];
        let y = self.corner(number).1;
        Some((y + top, y + top + height))
    }

    /// Down from a node out of `inside`, to the bottom of its layer in `common`.
    fn leave(&self, edge: usize, node: usize, common: usize, inside: &[usize]) -> Option<Vec<(i64, i64)>> {
        let rect = self.nodes[node];
        // An edge back starts beside the edges forward, else one would hide the other.
        let aside = if self.scene.closes[edge].is_some() { 14 } else { 0 };
        let mut x = rect.x + rect.width / 2 + aside;
        let mut points = vec![(x, rect.y + rect.height)];
        for &number in inside.iter().rev() {
            points.push((x, self.band(number, node)?.1));
            points.extend(self.through(number, edge));
            x = points.last()?.0;
            points.push((x, self.loops[number].y + self.loops[number].height));
        }
        points.push((x, self.band(common, node)?.1));
        Some(points)
    }

    /// The same from the top of the layer in `common` down to a node, last point first.
    fn arrive(&self, edge: usize, node: usize, common: usize, inside: &[usize]) -> Option<Vec<(i64, i64)>> {
        let rect = self.nodes[node];
        let mut x = rect.x + rect.width / 2;
        let mut points = vec![(x, rect.y)];
        for &number in inside.iter().rev() {
            points.push((x, self.band(number, node)?.0));
            points.extend(self.through(number, edge).into_iter().rev());
            x = points.last()?.0;
            points.push((x, self.loops[number].y));
        }
        points.push((x, self.band(common, node)?.0));
        Some(points)
    }

    fn forward(&self, edge: usize) -> Option<Route> {
        let (from, to, _) = *self.scene.edges.get(edge)?;
        let (common, inside) = self.split(from, to);
        let mut down = self.leave(edge, from, common, &inside)?;
        down.extend(self.through(common, edge));
        let (_, inside) = self.split(to, from);
        let mut arrival = self.arrive(edge, to, common, &inside)?;
        arrival.reverse();
        down.extend(arrival);
        Some(Route { down, back: Vec::new(), closes: None })
    }

    fn backward(&self, edge: usize, closed: usize) -> Option<Route> {
        let (from, to, _) = *self.scene.edges.get(edge)?;
        let around = self.loops[closed];
        let rail = around.x + around.width - RAIL / 2 - 3;
        let (source, target) = (self.nodes[from], self.nodes[to]);
        let right = |rect: Rect| rect.x + rect.width;
        let self_edge = from == to;
        // A header with a self-edge of its own is entered above it.
        let divided = self.scene.innermost[to] != Some(closed) || self_edge;
        let arrive = match (divided, self_edge) {
            (true, true) => target.y + target.height - 22,
            (true, false) => target.y + 8,
            (false, _) => target.y + target.height / 2,
        };
        let end = [(rail, arrive), (right(target), arrive)];
        let (mut down, mut back) = (Vec::new(), Vec::new());
        if self_edge {
            let leave = target.y + target.height - 8;
            back.extend([(right(source), leave), (rail, leave)]);
        } else if self.free_to_the_right(closed, from) {
            let leave = source.y + source.height / 2;
            back.extend([(right(source), leave), (rail, leave)]);
        } else {
            let inside = self.scene.around(from);
            let own = inside.into_iter().skip_while(|&l| l != closed).skip(1).collect::<Vec<_>>();
            down = self.leave(edge, from, closed, &own)?;
            let (x, bottom) = *down.last()?;
            let last = self.band(closed, from)?.1 + GAP > around.y + around.height;
            let turn = bottom + if last { 10 } else { GAP / 3 };
            back.extend([(x, bottom), (x, turn), (rail, turn)]);
        }
        back.extend(end);
        Some(Route { down, back, closes: Some(closed) })
    }

    /// The node stands directly in the loop, and nothing stands between it and the rail.
    fn free_to_the_right(&self, closed: usize, node: usize) -> bool {
        let level = &self.levels[closed];
        let Some(own) = level.items.iter().position(|i| i.kind == Kind::Node(node)) else {
            return false;
        };
        let items = level.layers[level.items[own].layer].iter();
        let mut right = items.skip_while(|&&i| i != own).skip(1);
        right.all(|&i| level.items[i].kind == Kind::Slot)
    }
}
