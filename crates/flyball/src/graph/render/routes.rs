//! Edge routing: positions of the boxes on the page, and the route of every edge. Forward edges go down through their
//! slots; back edges leave to the right and go up on the rail of the loop that they close.

use super::GraphScene;
use super::layout::{LAYER_GAP, LayoutItemKind, LoopLayout, RAIL_WIDTH, layout_all, node_size};

/// A box on the page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rect {
    pub x: i64,
    pub y: i64,
    pub width: i64,
    pub height: i64,
}

/// The route of one edge.
#[derive(Clone, Debug)]
pub(super) struct EdgeRoute {
    /// Points from top to bottom; the line curves between points in different columns.
    pub down: Vec<(i64, i64)>,
    /// Right-angled points after that; empty for a forward edge.
    pub back: Vec<(i64, i64)>,
    /// The loop that it closes.
    pub closes: Option<usize>,
}

/// The complete drawing.
pub(super) struct GraphDrawing {
    pub width: i64,
    pub height: i64,
    pub nodes: Vec<Rect>,
    pub loops: Vec<Rect>,
    pub routes: Vec<EdgeRoute>,
}

pub(super) fn layout_drawing(scene: &GraphScene<'_>) -> GraphDrawing {
    let map = EdgeRouter::new(scene);
    let mut routes = Vec::new();
    for edge in 0..scene.edges.len() {
        if scene.is_drawn_before(edge) {
            continue;
        }
        let route = match scene.closed_loop[edge] {
            None => map.forward(edge),
            Some(closed) => map.backward(edge, closed),
        };
        routes.extend(route);
    }
    let root = &map.levels[scene.view.loops.len()];
    GraphDrawing { width: root.width, height: root.height, nodes: map.nodes, loops: map.loops, routes }
}

struct EdgeRouter<'a> {
    scene: &'a GraphScene<'a>,
    levels: Vec<LoopLayout>,
    nodes: Vec<Rect>,
    loops: Vec<Rect>,
}

impl<'a> EdgeRouter<'a> {
    fn new(scene: &'a GraphScene<'a>) -> Self {
        let levels = layout_all(scene);
        let count = scene.view.loops.len();
        let mut nodes = vec![Rect::default(); scene.names.len()];
        let mut loops = vec![Rect::default(); count];
        // Outer loops come before inner ones, so a corner is known when it is needed.
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
                    LayoutItemKind::Node(node) => nodes[node] = at(node_size(scene, node)),
                    LayoutItemKind::Loop(inner) => {
                        loops[inner] = at((levels[inner].width, levels[inner].height));
                    }
                    LayoutItemKind::Slot => {}
                }
            }
        }
        EdgeRouter { scene, levels, nodes, loops }
    }

    /// Corner of a layout on the page.
    fn corner(&self, number: usize) -> (i64, i64) {
        self.loops.get(number).map_or((0, 0), |r| (r.x, r.y))
    }

    /// The innermost layout that contains both nodes, and the layouts that contain only `node`.
    fn common_layout(&self, node: usize, other: usize) -> (usize, Vec<usize>) {
        let (own, others) = (self.scene.enclosing_loops(node), self.scene.enclosing_loops(other));
        let shared = own.iter().zip(&others).take_while(|(a, b)| a == b).count();
        let root = self.scene.view.loops.len();
        let common = shared.checked_sub(1).and_then(|at| own.get(at));
        (common.copied().unwrap_or(root), own.into_iter().skip(shared).collect())
    }

    /// Slots of an edge in a layout, top and bottom of each.
    fn slot_points(&self, number: usize, edge: usize) -> Vec<(i64, i64)> {
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

    /// Top and bottom on the page of the layer in which a layout contains a node.
    fn band(&self, number: usize, node: usize) -> Option<(i64, i64)> {
        let level = &self.levels[number];
        let item = &level.items[level.item_holding(node)?];
        let (top, height) = level.bands[item.layer];
        let y = self.corner(number).1;
        Some((y + top, y + top + height))
    }

    /// Points from a node down out of `inside`, to the bottom of its layer in `common`.
    fn points_out(
        &self,
        edge: usize,
        node: usize,
        common: usize,
        inside: &[usize],
    ) -> Option<Vec<(i64, i64)>> {
        let rect = self.nodes[node];
        // A back edge starts beside the forward edges; otherwise one would hide the other.
        let aside = if self.scene.closed_loop[edge].is_some() { 14 } else { 0 };
        let mut x = rect.x + rect.width / 2 + aside;
        let mut points = vec![(x, rect.y + rect.height)];
        for &number in inside.iter().rev() {
            points.push((x, self.band(number, node)?.1));
            points.extend(self.slot_points(number, edge));
            x = points.last()?.0;
            points.push((x, self.loops[number].y + self.loops[number].height));
        }
        points.push((x, self.band(common, node)?.1));
        Some(points)
    }

    /// Points from the top of the layer in `common` down to a node, last point first.
    fn points_in(
        &self,
        edge: usize,
        node: usize,
        common: usize,
        inside: &[usize],
    ) -> Option<Vec<(i64, i64)>> {
        let rect = self.nodes[node];
        let mut x = rect.x + rect.width / 2;
        let mut points = vec![(x, rect.y)];
        for &number in inside.iter().rev() {
            points.push((x, self.band(number, node)?.0));
            points.extend(self.slot_points(number, edge).into_iter().rev());
            x = points.last()?.0;
            points.push((x, self.loops[number].y));
        }
        points.push((x, self.band(common, node)?.0));
        Some(points)
    }

    fn forward(&self, edge: usize) -> Option<EdgeRoute> {
        let (from, to, _) = *self.scene.edges.get(edge)?;
        let (common, inside) = self.common_layout(from, to);
        let mut down = self.points_out(edge, from, common, &inside)?;
        down.extend(self.slot_points(common, edge));
        let (_, inside) = self.common_layout(to, from);
        let mut arrival = self.points_in(edge, to, common, &inside)?;
        arrival.reverse();
        down.extend(arrival);
        Some(EdgeRoute { down, back: Vec::new(), closes: None })
    }

    fn backward(&self, edge: usize, closed: usize) -> Option<EdgeRoute> {
        let (from, to, _) = *self.scene.edges.get(edge)?;
        let around = self.loops[closed];
        let rail = around.x + around.width - RAIL_WIDTH / 2 - 3;
        let (source, target) = (self.nodes[from], self.nodes[to]);
        let right = |rect: Rect| rect.x + rect.width;
        let self_edge = from == to;
        // A header with a self-edge is entered above it.
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
        } else if self.has_clear_right_side(closed, from) {
            let leave = source.y + source.height / 2;
            back.extend([(right(source), leave), (rail, leave)]);
        } else {
            let inside = self.scene.enclosing_loops(from);
            let own = inside.into_iter().skip_while(|&l| l != closed).skip(1).collect::<Vec<_>>();
            down = self.points_out(edge, from, closed, &own)?;
            let (x, bottom) = *down.last()?;
            let last = self.band(closed, from)?.1 + LAYER_GAP > around.y + around.height;
            let turn = bottom + if last { 10 } else { LAYER_GAP / 3 };
            back.extend([(x, bottom), (x, turn), (rail, turn)]);
        }
        back.extend(end);
        Some(EdgeRoute { down, back, closes: Some(closed) })
    }

    /// Whether the node is directly in the loop with nothing between it and the rail.
    fn has_clear_right_side(&self, closed: usize, node: usize) -> bool {
        let level = &self.levels[closed];
        let Some(own) = level.items.iter().position(|i| i.kind == LayoutItemKind::Node(node)) else {
            return false;
        };
        let items = level.layers[level.items[own].layer].iter();
        let mut right = items.skip_while(|&&i| i != own).skip(1);
        right.all(|&i| level.items[i].kind == LayoutItemKind::Slot)
    }
}
