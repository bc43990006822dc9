// Fixed sample data: sessions that run, wait, loop and are stopped.

const call = (number, tool, args, output, more = {}) => [
  { type: "tool.requested", call: `c${number}`, tool, args, ...more },
  { type: "tool.finished", call: `c${number}`, ok: more.ok ?? true, ...(more.ok === false ? { error: output } : { output }) },
];

/** A session that repeats the same call until it is halted. */
export const looping = (count = 8, tool = "bash") =>
  Array.from({ length: count }, (_, at) =>
    at < 5
      ? call(at, tool, { command: "npm test -- --grep login" }, "1 failing: login times out")
      : [{ type: "tool.requested", call: `c${at}`, tool, args: { command: "npm test -- --grep login" } }],
  ).flat();

/** A plan awaiting approval. */
export const plan = (question = "Delete the 3 expired test accounts?") => [
  { type: "session.started", goal: "clean up the staging database" },
  ...call(1, "list_accounts", { state: "expired" }, "3 accounts: t-104, t-117, t-131"),
  { type: "confirmation.requested", question, ttl_ms: 3_600_000,
    plan: ["t-104", "t-117", "t-131"].map((account) => ({ tool: "delete_account", args: { account, cascade: true } })) },
];

/** A session that makes progress: its number of failing tests falls. */
const progress = () => [
  { type: "session.started", goal: "bring the import under a second", labels: { team: "data" } },
  ...[9, 7, 7, 5, 4, 2].flatMap((failing, at) => [
    ...call(at, "edit", { file: `src/import/${["reader", "rows", "dates", "types", "batch", "index"][at]}.rs`, lines: 12 + at }, "ok"),
    { type: "progress", signal: "tests", failing: Array.from({ length: failing }, (_, number) => `import_${number}`) },
    { type: "assistant.message", text: `${failing} tests fail, going on.`, usage: { tokens_in: 4200, tokens_out: 610, cost_usd: 0.031 } },
  ]),
];

/** Two alternating calls. */
const circle = () => [
  { type: "session.started", goal: "keep the translation in step with the handbook" },
  ...Array.from({ length: 8 }, (_, at) => [
    ...call(`a${at}`, "read_file", { path: "handbook/de/index.md" }, "# Handbuch"),
    ...call(`b${at}`, "search", { query: "missing anchor #install" }, "no results"),
  ]).flat(),
];

const workflow = {
  nodes: ["plan", "coder", "verifier", "review", "merge"],
  edges: [
    { id: "e1", from: "plan", to: "coder" }, { id: "e2", from: "coder", to: "verifier" },
    { id: "e3", from: "verifier", to: "coder" }, { id: "e4", from: "verifier", to: "review" },
    { id: "e5", from: "review", to: "plan" }, { id: "e6", from: "review", to: "merge" },
  ],
  signals: ["diff", "tests"],
};

/** A workflow that loops until its tests stop improving. */
const stalled = () => [
  { type: "session.started", policy: "workflow", workflow, goal: "the login must survive a restart" },
  { type: "turn.started", node: "plan" },
  { type: "turn.finished", node: "plan", output: "two steps", usage: { tokens_in: 1800, tokens_out: 240, cost_usd: 0.012 } },
  { type: "transition.requested", from: "plan", to: "coder", edge: "e1" },
  ...[7, 4, 2, 2, 2, 2, 2].flatMap((failing, at) => [
    { type: "turn.started", node: "coder" },
    { type: "turn.finished", node: "coder", output: `changed session.rs, attempt ${at}`, usage: { tokens_in: 9100, tokens_out: 1400, cost_usd: 0.09 } },
    { type: "progress", signal: "diff", content: `attempt ${at}`, node: "coder" },
    { type: "transition.requested", from: "coder", to: "verifier", edge: "e2" },
    { type: "turn.started", node: "verifier" },
    { type: "progress", signal: "tests", node: "verifier", failing: Array.from({ length: failing }, (_, number) => `login::restart_${number}`) },
    { type: "turn.finished", node: "verifier", output: `${failing} tests fail (run ${at})`, usage: { tokens_in: 2200, tokens_out: 180, cost_usd: 0.014 } },
    { type: "transition.requested", from: "verifier", to: "coder", edge: "e3" },
  ]),
];

const POLICY = `version: 1
preset: agent
budgets:
  session: {runtime: 2h, tokens: 200000, cost_usd: 5}
guards:
  repetition: {limit: 5}
`;
export { POLICY as policy };

/** All samples, minutes apart, so that their order is stable. */
export const sampleSessions = async (server) => {
  const now = Date.now();
  const sendAll = async (session, minutes, events) => {
    const first = now - minutes * 60_000 - 1_000;
    for (const [at, event] of events.entries()) await server.event({ session, at: first - (events.length - at) * 1_500, ...event });
  };
  await sendAll("nightly/login-restart", 47, stalled());
  await sendAll("support/4711", 31, plan());
  await sendAll("api-refactor", 18, looping(8));
  await sendAll("travel-desk/anna", 9, [
    { type: "session.started", goal: "book the trip to the fair" },
    ...call(1, "find_trains", { to: "Hannover" }, "08:12, 09:12, 10:12"),
    { type: "question.asked", text: "There are three trains. Do you want to arrive before ten?" },
  ]);
  await sendAll("docs-sync", 6, circle());
  await sendAll("billing-export", 3, [...call(1, "query", { sql: "select count(*) from invoices" }, "1204"),
    ...["charge", "charge", "charge", "refund"].flatMap((operation) => [{ type: "operation.failed", operation }, { type: "operation.succeeded", operation }]),
    { type: "session.ended", outcome: "done" }]);
  await sendAll("import-speed", 1, progress());
  await sendAll("import-speed/reader", 1, [{ type: "session.started", parent: "import-speed", goal: "profile the reader" },
    ...call(1, "profile", { target: "reader" }, "62 % in dates::parse")]);
};
