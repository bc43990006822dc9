// Injection payloads in every field of every event that a page shows.

const RUNS = "window.hits.push('ran')";
const texts = [
  `<script>${RUNS}</script>`, `</script><script>${RUNS}</script>`, `"><script>${RUNS}</script>`,
  `'><img src=x onerror="${RUNS}">`, `<img src=x onerror=${RUNS}>`, `<svg onload="${RUNS}">`,
  `<svg><script>${RUNS}</script></svg>`, `<svg><style>@import 'http://evil.invalid'</style></svg>`,
  `" onmouseover="${RUNS}" autofocus onfocus="${RUNS}" x="`, `javascript:${RUNS}`, `data:text/html,<script>${RUNS}</script>`,
  `</title><script>${RUNS}</script>`, `</textarea><script>${RUNS}</script>`, `</style><script>${RUNS}</script>`,
  `--><script>${RUNS}</script>`, `]]><script>${RUNS}</script>`, `<iframe srcdoc="<script>parent.${RUNS}</script>">`,
  `<details open ontoggle="${RUNS}">`, `<math><mi xlink:href="javascript:${RUNS}">x</mi></math>`,
  `<a href="javascript:${RUNS}">x</a>`, `<form action="http://evil.invalid"><button>x</button></form>`,
  `<base href="http://evil.invalid/">`, `<meta http-equiv="refresh" content="0;url=http://evil.invalid">`,
  `<link rel="stylesheet" href="http://evil.invalid/x.css">`, `<body onload="${RUNS}">`, `{{constructor.constructor("${RUNS}")()}}`,
  `\${${RUNS}}`, `<%= ${RUNS} %>`, `\u202e<script>${RUNS}</script>`, `\u0000<script>${RUNS}</script>`,
  `&lt;script&gt;${RUNS}&lt;/script&gt;`, `&#60;script&#62;${RUNS}&#60;/script&#62;`, `%3Cscript%3E${RUNS}%3C/script%3E`,
  `<input autofocus onfocus="${RUNS}">`, `<video><source onerror="${RUNS}"></video>`, `<object data="javascript:${RUNS}">`,
  `x" style="background:url(javascript:${RUNS})`, `<div style="position:fixed;inset:0">`, `<a href=//evil.invalid>x`,
];

/** Sends all payloads; returns the names of the sessions. */
export const attacks = async (server) => {
  const names = [];
  for (const [at, text] of texts.entries()) {
    const other = texts[(at * 7 + 3) % texts.length];
    const session = `${text.slice(0, 150)}#${at}`;
    const graph = { nodes: [text.slice(0, 100), "b"], edges: [{ id: other.slice(0, 100), from: text.slice(0, 100), to: "b" }, { id: "back", from: "b", to: text.slice(0, 100) }] };
    const all = [
      { type: "session.started", goal: text, labels: { [other]: text }, workflow: graph },
      { type: "user.message", text }, { type: "assistant.message", text: other },
      { type: "turn.started", node: text.slice(0, 100) },
      { type: "progress", signal: "tests", failing: [text] },
      { type: "operation.failed", operation: text },
      { type: "gate.checked", checks: [{ name: text, passed: false, details: [other] }] },
      ...Array.from({ length: 8 }, (_, n) => [
        { type: "tool.requested", call: `${n}${text}`, tool: text, args: { [text]: other } },
        { type: "tool.finished", call: `${n}${text}`, ok: false, error: text },
      ]).flat(),
    ];
    for (const event of all) await server.event({ session, ...event });
    if (at % 3 === 1) await server.event({ session: `${session}?`, type: "question.asked", text });
    if (at % 3 === 2) {
      await server.event({ session: `${session}!`, type: "confirmation.requested", question: text, requester: other, plan: [{ tool: text, args: { [other]: text } }] });
    }
    if (at % 6 === 0) names.push(session);
  }
  return names;
};
