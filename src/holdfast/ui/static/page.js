// The page of `holdfast ui`. Names and labels are hostile: they go into textContent, nowhere else.
"use strict";
const $ = (id) => document.getElementById(id);
const ROW = 38, HEAD = 34, EXTRA = 6, SAMPLES = 120;
const GIVE_UP = 30_000;           // milliseconds without an answer: the server may be gone

let locks = new Map();            // by id: what the server sent
let order = [];                   // the locks that are shown, sorted
let about = {}, sort = {key: "name", down: false}, selected = null, ahead = 0;
let live = false, error = "", version = "";

const now = () => Date.now() / 1000 - ahead;

// --- what is shown -----------------------------------------------------------------------------

function duration(seconds) {
  if (seconds === Infinity) return "no end";
  seconds = Math.max(0, Math.floor(seconds));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} m`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds % 86400 / 3600)} h`;
}
const program = (who) => who.program ? who.program + (who.text ? ` (${who.text})` : "") : "another program";
const holder = (who) => program(who) + (who.host ? ` on ${who.host}, ${who.pid}` : "");
const oldest = (lock) => lock.members.reduce((a, b) => (b.since < a.since ? b : a));
const age = (who) => (who.mark ? who.mark + " " : "") + duration(now() - who.since);
const wait = (lock) => (lock.waiters === null ? "?" : lock.wait ? age(lock.wait) : "");
const ends = (who) => who.ends ?? Infinity;  // null: another program took it, without an expiry
const latest = (lock) => lock.members.reduce((a, b) => (ends(b) > ends(a) ? b : a));
const heat = (lock) => lock.spark.reduce((sum, count) => sum + count, 0);
const holders = (lock) =>
  holder(oldest(lock)) + (lock.members.length > 1 ? `, and ${lock.members.length - 1} more` : "");

const keys = {
  name: (lock) => lock.name, kind: (lock) => lock.kind, holder: (lock) => holders(lock),
  age: (lock) => -oldest(lock).since, left: (lock) => ends(latest(lock)),
  fence: (lock) => lock.fence.padStart(24, "0"), waiters: (lock) => lock.waiters ?? -1,
  wait: (lock) => (lock.wait ? -lock.wait.since : -Infinity), heat,
};

function arrange() {
  const wanted = $("search").value.trim().toLowerCase().split(/\s+/);
  const text = (lock) => [lock.name, lock.kind, lock.fence, ...lock.members.map(holder)].join("\n").toLowerCase();
  order = [...locks.values()].filter((lock) => {
    const all = wanted[0] && text(lock);
    return !wanted[0] || wanted.every((word) => all.includes(word));
  });
  const of = keys[sort.key], sign = sort.down ? -1 : 1;
  const sorted = order.map((lock) => [of(lock), lock]);
  sorted.sort(([a, x], [b, y]) => (a < b ? -sign : a > b ? sign : x.name < y.name ? -1 : 1));
  order = sorted.map(([, lock]) => lock);
}

function put(node, text) { if (node.textContent !== text) node.textContent = text; }
function set(node, name, value) { if (node.getAttribute(name) !== value) node.setAttribute(name, value); }
function make(tag, text = "", kind = "") {
  const node = document.createElement(tag);
  node.textContent = text;
  if (kind) node.className = kind;
  return node;
}

function fit(list, count, makeItem) {
  while (list.children.length > count) list.lastChild.remove();
  while (list.children.length < count) list.append(makeItem());
}

function makeSpark() {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, value] of [["class", "spark"], ["viewBox", "0 0 119 20"], ["preserveAspectRatio", "none"], ["role", "img"]])
    svg.setAttribute(name, value);
  svg.append(document.createElementNS("http://www.w3.org/2000/svg", "polyline"));
  return svg;
}
function showSpark(svg, spark) {
  const most = Math.max(1, ...spark), first = SAMPLES - spark.length;
  const points = spark.map((count, i) => `${first + i},${(19 - 18 * count / most).toFixed(1)}`).join(" ");
  set(svg.firstChild, "points", points);
  set(svg, "aria-label", spark.length ? `waiters: at most ${Math.max(...spark)} in two minutes` : "no waiters");
}

function makeBar() {
  const bar = make("span", "", "bar");
  bar.append(make("span"));
  return bar;
}
function showLeft(bar, label, who) {
  const left = Math.max(0, ends(who) - now());
  bar.firstChild.style.width = `${Math.min(100, 100 * left / Math.max(who.full, 1))}%`;
  bar.classList.toggle("low", left < who.full / 3);
  put(label, duration(left));
}

// --- the table: only the visible rows exist ----------------------------------------------------

function makeRow() {
  const row = make("tr");
  for (let i = 0; i < 9; i++) row.append(make("td"));
  const link = make("a");
  row.cells[0].append(link);
  link.tabIndex = -1;
  row.cells[4].append(makeBar(), make("span"));
  row.cells[8].append(makeSpark());
  row.addEventListener("click", () => { location.hash = row.dataset.id; });
  return row;
}

function showRow(row, lock, index) {
  const cells = row.cells, first = oldest(lock);
  row.dataset.id = lock.id;
  set(row, "aria-rowindex", String(index + 2));
  set(row, "aria-selected", String(lock.id === selected));
  put(cells[0].firstChild, lock.name);
  set(cells[0].firstChild, "href", `#${lock.id}`);
  set(cells[0], "title", lock.name);
  put(cells[1], lock.kind);
  put(cells[2], holders(lock));
  set(cells[2], "title", lock.members.slice(0, 20).map(holder).join("\n"));
  put(cells[3], age(first));
  showLeft(cells[4].firstChild, cells[4].lastChild, latest(lock));
  put(cells[5], lock.fence);
  put(cells[6], lock.waiters === null ? "?" : String(lock.waiters));
  put(cells[7], wait(lock));
  showSpark(cells[8].firstChild, lock.spark);
}

function paint() {
  const view = $("window"), body = $("rows");
  const [above, below] = document.querySelectorAll(".space td");
  const most = Math.ceil(view.clientHeight / ROW) + 2 * EXTRA;
  const start = Math.max(0, Math.min(Math.floor(view.scrollTop / ROW) - EXTRA, order.length - most));
  const shown = order.slice(start, start + most);
  fit(body, shown.length, makeRow);
  shown.forEach((lock, i) => showRow(body.rows[i], lock, start + i));
  above.style.height = `${start * ROW}px`;
  below.style.height = `${(order.length - start - shown.length) * ROW}px`;
  set(view.querySelector("table"), "aria-rowcount", String(order.length + 1));
  $("empty").hidden = order.length > 0;
  put($("empty"), locks.size ? "No lock matches." : live ? "No lock is held." : "Looking …");
}

function count() {
  let held = 0, waiting = 0;
  for (const lock of locks.values()) { held += lock.members.length; waiting += lock.waiters ?? 0; }
  const found = order.length < locks.size ? `${order.length.toLocaleString()} of ` : "";
  put($("counts"), `${found}${locks.size.toLocaleString()} locks, ${held.toLocaleString()} holders, ${waiting.toLocaleString()} waiting`);
}

// --- the servers -------------------------------------------------------------------------------

function span(seconds, like = seconds) {
  const size = Math.abs(like);
  return size < 1 ? `${(1000 * seconds).toFixed(size < 0.01 ? 2 : 0)} ms` : `${seconds.toFixed(1)} s`;
}
function describe(node) {
  if (node.error) return `does not answer: ${node.error}`;
  const facts = [span(node.round_trip)];
  if (node.offset !== null) {
    const most = Math.max(Math.abs(node.offset), node.uncertainty);
    const [number] = span(node.offset, most).split(" ");
    facts.push(`clock ${node.offset < 0 ? "" : "+"}${number} ± ${span(node.uncertainty, most)}`);
  }
  if (!node.votes)
    facts.push(node.votes_at === null ? "no vote: named twice" : `restarted, no vote for ${duration(node.votes_at - now())}`);
  return facts.join(" · ");
}
function spare(margin) {
  if (margin === null) return ["", ""];
  if (margin < 0) return [`no majority: ${-margin} too few`, "bad"];
  return margin ? [`${margin} more may fail`, ""] : ["none to spare", "late"];
}
function showNodes({nodes, margin}) {
  const section = $("nodes"), list = section.querySelector("ul"), [text, kind] = spare(margin);
  section.hidden = !nodes.length;
  put($("margin"), text);
  $("margin").className = kind;
  fit(list, nodes.length, () => {
    const item = make("li");
    item.append(make("span", "", "name"), make("span", "", "quiet"));
    return item;
  });
  nodes.forEach((node, i) => {
    const item = list.children[i];
    item.className = `state ${node.error ? "bad" : node.votes ? "live" : "late"}`;
    put(item.children[0], node.name);
    put(item.children[1], describe(node));
    set(item, "title", `${node.name}: ${describe(node)}`);
  });
}

// --- one lock ----------------------------------------------------------------------------------

let open = null, openName = "";

function makeHolder(who) {
  const row = make("tr");
  row.dataset.id = who.id;
  row.append(make("td", program(who)), make("td", who.host), make("td", String(who.pid ?? "")), make("td"), make("td"), make("td", "", "act"));
  row.cells[4].append(makeBar(), make("span"));
  if (about.may_break) {
    const button = make("button", "Break …", "danger");
    button.type = "button";
    button.setAttribute("aria-label", `Break: take it from ${holder(who)}`);
    button.addEventListener("click", () => askToBreak(who));
    row.cells[5].append(button);
  }
  return row;
}

function showLock() {
  const lock = locks.get(open), body = $("holders");
  if (lock) openName = lock.name;
  put($("lock-name"), openName || "Unknown lock");
  $("free").hidden = Boolean(lock);
  const members = lock ? lock.members.slice(0, 200) : [];
  const ids = members.map((who) => who.id).join();
  if (body.dataset.ids !== ids) {
    body.dataset.ids = ids;
    body.replaceChildren(...members.map(makeHolder));
  }
  members.forEach((who, i) => {
    const cells = body.rows[i].cells;
    put(cells[3], age(who));
    showLeft(cells[4].firstChild, cells[4].lastChild, who);
  });
  const facts = lock ? [["Kind", lock.kind], ["Fence", lock.fence], ["Waiters", String(lock.waiters ?? "not counted")], ["Waited for", lock.waiters === null ? "not counted" : wait(lock) || "no"], ["Held for", age(oldest(lock))]] : [];
  if ($("facts").children.length !== facts.length)
    $("facts").replaceChildren(...facts.map(([what]) => { const d = make("div"); d.append(make("dt", what), make("dd")); return d; }));
  facts.forEach(([, value], i) => put($("facts").children[i].lastChild, value));
  showSpark($("lock-spark"), lock ? lock.spark : []);
}

async function loadHistory() {
  const wanted = open, answer = await fetch(`locks/${wanted}`);
  if (!answer.ok || wanted !== open) return;
  const {name, history} = await answer.json();
  openName = name;
  $("history").replaceChildren(...history.map((change) => {
    const row = make("tr");
    const values = [new Date(change.at * 1000).toLocaleTimeString(), change.what, program(change), change.host, String(change.pid ?? ""), change.fence];
    row.append(...values.map((value) => make("td", value)));
    return row;
  }));
  showLock();
}

function route() {
  const before = open;
  open = location.hash.slice(1) || null;
  $("overview").hidden = Boolean(open);
  $("lock").hidden = !open;
  if (open) {
    openName = "";
    $("history").replaceChildren();
    showLock();
    loadHistory();
    $("lock-name").focus();
  } else {
    if (before) { selected = before; $("window").focus(); }
    refresh();
  }
}

function refresh() {
  if (open) { showLock(); return; }
  arrange();
  paint();
  count();
}

// --- breaking ----------------------------------------------------------------------------------

let breaking = null;

function askToBreak(who) {
  const lock = locks.get(open);
  if (!lock) return;
  breaking = {id: lock.id, name: lock.name, holder: who.id};
  put($("breaking-what"), `${lock.name}, held by ${holder(who)}, fence ${lock.fence}, for ${age(who)}.`);
  $("typed").value = $("reason").value = "";
  put($("breaking-answer"), "");
  check();
  $("breaking").showModal();
  $("typed").focus();
}
function check() {
  $("confirm").disabled = !breaking || $("typed").value !== breaking.name || !$("reason").value.trim();
}
async function breakIt() {
  const {id, ...shown} = breaking;
  $("confirm").disabled = true;
  const body = JSON.stringify({...shown, name: $("typed").value, reason: $("reason").value});
  const answer = await post(`locks/${id}/break`, body);
  put($("breaking-answer"), answer.text);
  if (answer.ok) breaking = null;
  check();
}
async function post(path, body = "{}") {
  const headers = {"Content-Type": "application/json"};
  try {
    const answer = await fetch(path, {method: "POST", headers, body});
    return {ok: answer.ok, text: await answer.text()};
  } catch {
    return {ok: false, text: "The server does not answer: the outcome is unknown, so look again."};
  }
}

async function examine() {
  const section = $("findings"), button = $("examine");
  button.disabled = true;
  put(button, "Examining …");
  const answer = await post("examine");
  button.disabled = false;
  put(button, "Examine the servers");
  section.hidden = false;
  const close = make("button", "Close");
  close.type = "button";
  close.addEventListener("click", () => { section.hidden = $("nodes").hidden = true; paint(); });
  section.replaceChildren(close);
  if (!answer.ok) { section.append(make("p", answer.text)); return; }
  const {findings, broken_by, ...servers} = JSON.parse(answer.text);
  showNodes(servers);
  for (const each of findings) {
    const title = make("h3", "", each.severity);
    title.textContent = `${each.severity}: ${each.where}: ${each.what}`;
    section.append(title);
    if (each.why) section.append(make("p", each.why));
    if (each.mend) section.append(make("p", `→ ${each.mend}`));
  }
  section.append(make("h3", "What can break the promise all the same"), ...broken_by.map((each) => make("p", each)));
  paint();
}

// --- what the server sees -----------------------------------------------------------------------

function state(text, kind) {
  put($("state"), text);
  $("state").className = `state ${kind}`;
}
function receive(data) {
  ({about, live, error} = data);
  put($("engine"), `${about.url} · ${about.engine}${about.may_break ? "" : " · read-only"}`);
  locks = new Map(data.rows.map((row) => [row.id, row]));
  const before = $("holders").dataset.ids;
  refresh();
  if (open && $("holders").dataset.ids !== before) loadHistory();
}
async function poll() {
  try {
    const headers = {"If-None-Match": version}, signal = AbortSignal.timeout(GIVE_UP);
    const answer = await fetch("state", {headers, signal});
    if (answer.status === 401) return location.reload();  // the session has ended
    if (answer.status !== 304) receive(await answer.json());
    version = answer.headers.get("ETag");
    ahead = Date.now() / 1000 - answer.headers.get("Now");
    if (error) state(error, "bad"); else if (live) state("live", "live");
  } catch {
    state("no connection to holdfast ui; trying again", "bad");
  }
  setTimeout(poll, 1000);
}

// --- keys and clicks ---------------------------------------------------------------------------

function move(by) {
  const at = order.findIndex((lock) => lock.id === selected);
  const to = at < 0 ? 0 : Math.max(0, Math.min(order.length - 1, at + by));
  if (!order[to]) return;
  selected = order[to].id;
  const view = $("window"), top = to * ROW;
  if (top < view.scrollTop) view.scrollTop = top;
  if (top + ROW + HEAD > view.scrollTop + view.clientHeight) view.scrollTop = top + ROW + HEAD - view.clientHeight;
  paint();
}
document.addEventListener("keydown", (event) => {
  if ($("breaking").open || event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target === $("search");
  const page = Math.floor($("window").clientHeight / ROW) - 1;
  const steps = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, ...(typing ? {} : {Home: -1e9, End: 1e9})};
  if (event.key === "Escape" && open) location.hash = "";
  else if (event.key === "Escape" && typing) { $("search").value = ""; refresh(); $("window").focus(); }
  else if (event.key === "/" && !typing && !open) $("search").focus();
  else if (!open && event.key in steps) move(steps[event.key]);
  else if (!open && event.key === "Enter" && selected && !event.target.closest("button, a")) location.hash = selected;
  else return;
  event.preventDefault();
});
function sortBy(key, down) {
  sort = {key, down};
  document.querySelectorAll("#window th").forEach((each) => each.removeAttribute("aria-sort"));
  set(document.querySelector(`th[data-key=${key}]`), "aria-sort", down ? "descending" : "ascending");
  refresh();
}
document.querySelectorAll("#window th").forEach((head) => head.addEventListener("click", () => {
  const key = head.dataset.key;
  sortBy(key, sort.key === key ? !sort.down : ["age", "waiters", "wait", "heat", "fence"].includes(key));
}));
$("hot").addEventListener("click", () => { $("window").scrollTop = 0; sortBy("heat", true); });
$("search").addEventListener("input", () => { $("window").scrollTop = 0; refresh(); });
$("window").addEventListener("scroll", () => requestAnimationFrame(paint), {passive: true});
$("examine").addEventListener("click", examine);
$("typed").addEventListener("input", check);
$("reason").addEventListener("input", check);
$("confirm").addEventListener("click", breakIt);
$("cancel").addEventListener("click", () => $("breaking").close());
$("breaking").querySelector("form").addEventListener("submit", (event) => event.preventDefault());
addEventListener("resize", paint);
addEventListener("hashchange", route);
setInterval(() => { if (open) showLock(); else paint(); }, 1000);
route();
poll();
