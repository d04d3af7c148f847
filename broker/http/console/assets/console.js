// The script of the console: live parts, confirmations, keys, times. Pages read, and forms post, without it.
"use strict";

const find = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// Live parts: what the page's stream says has changed takes the place of what was there, child by child.

const stream = { source: null, timer: 0 };

function parsed(box, texts) {
  const inTable = box.tagName === "TBODY";
  const [before, after] = inTable ? ["<table><tbody>", "</tbody></table>"] : ["<div>", "</div>"];
  const made = new DOMParser().parseFromString(before + texts.join("") + after, "text/html");
  const children = find(inTable ? "tbody" : "div", made).children;
  return new Map([...children].map((each) => [each.dataset.key, document.adoptNode(each)]));
}

function apply({ part, order, changed }) {
  const box = find(`[data-live="${CSS.escape(part)}"]`);
  if (!box) return;
  const there = new Map([...box.children].map((each) => [each.dataset.key, each]));
  const made = parsed(box, Object.values(changed));
  const chosen = document.activeElement && document.activeElement.closest("[data-key]");
  const key = chosen && box.contains(chosen) ? chosen.dataset.key : null;
  let at = box.firstElementChild;
  for (const each of order) {
    let child = there.get(each);
    const other = made.get(each);
    if (other && !(child && child.isEqualNode(other))) {
      if (child) {
        if (child === at) at = at.nextElementSibling;
        keepOpen(child, other);
        child.remove();
      }
      child = other;
    }
    if (!child) continue;
    if (child === at) at = at.nextElementSibling;
    else box.insertBefore(child, at);
    there.delete(each);
  }
  const kept = new Set(order);
  for (const child of [...box.children]) if (!kept.has(child.dataset.key)) child.remove();
  if (key !== null && !box.contains(document.activeElement)) {
    const row = find(`[data-key="${CSS.escape(key)}"]`, box);
    const link = row && find("a", row);
    if (link) link.focus({ preventScroll: true });
  }
}

function keepOpen(before, after) {
  const opened = all("details", before).map((each) => each.open);
  all("details", after).forEach((each, number) => { if (opened[number]) each.open = true; });
}

function say(words, kind) {
  const live = find("#live");
  if (!live) return;
  live.hidden = false;
  if (live.textContent !== words) live.textContent = words;
  live.className = `live ${kind}`;
}

function listen() {
  const main = find("main[data-stream]");
  if (!main || document.hidden || stream.source) return;
  clearTimeout(stream.timer);
  const where = new URL(location.href);
  where.searchParams.set("live", "1");
  const source = new EventSource(where);
  stream.source = source;
  source.addEventListener("version", (event) => {
    const script = find("script[src]");
    if (!script.src.endsWith(JSON.parse(event.data))) location.reload();
    say("live", "on");
  });
  source.addEventListener("parts", (event) => {
    JSON.parse(event.data).forEach(apply);
    tick();
    say("live", "on");
  });
  source.addEventListener("away", (event) => say(JSON.parse(event.data), "off"));
  source.addEventListener("error", () => {
    say("no connection, trying again", "off");
    if (source.readyState !== EventSource.CLOSED) return;
    quiet(); // refused: the session has ended, or the queue manager starts
    stream.timer = setTimeout(look, 3000);
  });
}

async function look() {
  try {
    const answer = await fetch(location.href, { credentials: "same-origin" });
    if (answer.redirected || answer.status === 401) location.reload();
  } catch { /* not yet */ }
  listen();
}

function quiet() {
  if (stream.source) stream.source.close();
  stream.source = null;
}

document.addEventListener("visibilitychange", () => (document.hidden ? quiet() : listen()));
addEventListener("pagehide", quiet);
addEventListener("pageshow", listen);

// Forms: a question before what cannot be undone, and one post for two clicks.

document.addEventListener("submit", (event) => {
  const form = event.target;
  const question = event.submitter?.dataset.confirm || form.dataset.confirm;
  if (question && !confirm(question)) {
    event.preventDefault();
    return;
  }
  if (form.method !== "post") return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "1";
});
addEventListener("pageshow", () => all("form").forEach((each) => delete each.dataset.sent));

// Boxes that choose all of a table.

document.addEventListener("change", (event) => {
  const name = event.target.dataset && event.target.dataset.all;
  if (name) all(`input[type=checkbox][name="${CSS.escape(name)}"]`).forEach((each) => { each.checked = event.target.checked; });
});

// What can follow in a line that somebody types.

document.addEventListener("input", async ({ target }) => {
  const from = target.dataset?.completions, line = target.value;
  if (!from) return;
  const answer = await fetch(`${from}?q=${encodeURIComponent(line)}`);
  if (answer.ok && target.value === line) target.list.replaceChildren(...(await answer.json()).map((each) => new Option("", each)));
});

// Keys.

function step(by) {
  const links = all("main [data-key] a").filter((each, number, list) => {
    const row = each.closest("[data-key]");
    return find("a", row) === each && list.indexOf(each) === number;
  });
  if (!links.length) return;
  const row = document.activeElement && document.activeElement.closest("[data-key]");
  const now = row ? links.findIndex((each) => row.contains(each)) : -1;
  const next = now < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(now + by, 0), links.length - 1);
  links[next].focus();
  links[next].scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (event.key === "Escape" && typing) event.target.blur();
  if (typing || event.ctrlKey || event.altKey || event.metaKey) return;
  const keys = find("#keys");
  const acts = {
    "/": () => find("#search")?.focus(),
    "?": () => keys && (keys.open ? keys.close() : keys.showModal()),
    j: () => step(1),
    k: () => step(-1),
    g: () => { location.href = `${document.body.dataset.base}/`; },
  };
  if (!acts[event.key]) return;
  event.preventDefault();
  acts[event.key]();
});

// Times: how long ago, as it is now, and in the zone of who looks.

function age(seconds) {
  const whole = Math.floor(seconds);
  const two = (number) => String(number).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} m`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} m`;
  return `${Math.floor(whole / 86400)} d ${two(Math.floor((whole % 86400) / 3600))} h`;
}

function tick() {
  for (const each of all("main time[data-at]")) {
    const seconds = Number(each.dataset.at) - Date.now() / 1000;
    const words = Math.abs(seconds) < 1 ? "now" : seconds > 0 ? `in ${age(seconds)}` : `${age(-seconds)} ago`;
    if (each.textContent !== words) each.textContent = words;
    if (!each.dataset.local) {
      each.dataset.local = "1";
      each.title += ` · ${new Date(Number(each.dataset.at) * 1000).toLocaleString()} here`;
    }
  }
}

setInterval(() => { if (!document.hidden) tick(); }, 1000);
tick();
listen();
