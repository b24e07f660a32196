// Follows what happens: asks for the view again when something has changed, and changes in it what differs.
// Without this script the page is still whole.
"use strict";
(() => {
  const main = document.getElementById("main");
  // Milliseconds between two looks at least, and at most: ages go on although nothing has changed.
  const least = Number(main.dataset.least) * 1000;
  const most = Math.max(least, 10000);
  // After an answer that was none.
  const AGAIN = 5000;
  const BEFORE = "What is shown is from before.";
  let tag = null;
  let last = performance.now();
  let timer = 0;
  let isUp = !main.querySelector("[role=alert]");

  const busy = () => {
    const selection = document.getSelection();
    const active = document.activeElement;
    return document.hidden || (selection && !selection.isCollapsed) ||
      (active && ["INPUT", "SELECT"].includes(active.tagName));
  };

  // A row is the same row as long as its first link is.
  const keyOf = (node) => {
    if (node.nodeName !== "TR") return null;
    const link = node.querySelector("a");
    return link && link.getAttribute("href");
  };

  // Rows without links, or several with the same one, are told apart by their places.
  const isKeyed = (node) => {
    if (node.nodeName !== "TBODY") return false;
    const keys = [...node.children].map(keyOf);
    return !keys.includes(null) && new Set(keys).size === keys.length;
  };

  const setAttributes = (old, next) => {
    for (const { name, value } of next.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      const kept = old.nodeName === "DETAILS" && name === "open";
      if (!kept && !next.hasAttribute(name)) old.removeAttribute(name);
    }
  };

  // Only what differs is changed: focus, scrolling and what was unfolded stay as they are.
  const change = (old, next) => {
    if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName) {
      old.replaceWith(next);
    } else if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== next.data) old.data = next.data;
    } else {
      setAttributes(old, next);
      changeChildren(old, next);
    }
  };

  const changeChildren = (old, next) => {
    const isTable = isKeyed(old) && isKeyed(next);
    const rows = new Map(isTable ? [...old.children].map((row) => [keyOf(row), row]) : []);
    const kept = new Set(isTable ? [...next.children].map(keyOf) : []);
    let here = old.firstChild;
    for (let each = next.firstChild; each;) {
      const following = each.nextSibling;
      // Rows that are gone go, so that the others need not move.
      while (isTable && here && !kept.has(keyOf(here))) here = removed(here);
      const same = isTable ? rows.get(keyOf(each)) : null;
      if (same && same !== here && same.parentNode === old) {
        move(same, here);
        here = same;
      } else if (isTable && !same && here) {
        old.insertBefore(each, here);
        each = following;
        continue;
      }
      if (here) {
        const after = here.nextSibling;
        change(here, each);
        here = after;
      } else {
        old.append(each);
      }
      each = following;
    }
    while (here) here = removed(here);
  };

  const removed = (node) => {
    const after = node.nextSibling;
    node.remove();
    return after;
  };

  // What is moved loses the focus.
  const move = (row, before) => {
    const focused = row.contains(document.activeElement) ? document.activeElement : null;
    row.parentNode.insertBefore(row, before);
    if (focused) focused.focus({ preventScroll: true });
  };

  const tell = (sentence) => {
    const age = document.getElementById("age");
    if (age && age.textContent !== sentence) age.textContent = sentence;
  };

  const show = async (answer) => {
    const html = await answer.text();
    performance.mark("muster-update-begins");
    changeChildren(main, new DOMParser().parseFromString(html, "text/html").body);
    const { title } = document.getElementById("age").dataset;
    if (document.title !== title) document.title = title;
    performance.measure("muster-update", "muster-update-begins");
  };

  // What is gone, or may not be seen any more, must not stay; a view that cannot be asked for now does.
  const isTold = (answer) =>
    answer.status !== 304 && (answer.headers.get("Content-Type") || "").startsWith("text/html") &&
    (answer.status === 200 || [400, 403, 404].includes(answer.status) || main.querySelector("[role=alert]"));

  const look = async () => {
    last = performance.now();
    try {
      const headers = { "X-Muster-Part": "1", ...(tag ? { "If-None-Match": tag } : {}) };
      const answer = await fetch(location.href, { headers, cache: "no-store", redirect: "manual" });
      isUp = answer.ok || answer.status === 304;
      tag = isUp ? answer.headers.get("ETag") : null;
      // A proxy before the page sends those who are not signed in elsewhere, which is not followed.
      if (answer.type === "opaqueredirect" || answer.status === 401) tell(`You are not signed in any more: load the page again. ${BEFORE}`);
      else if (isTold(answer)) await show(answer);
      else if (!isUp) tell(`Muster does not answer; it is asked again every few seconds. ${BEFORE}`);
    } catch {
      isUp = false;
      tag = null;
      tell(`This page's server does not answer (has \`kubectl muster page\` ended?); it is asked again every few seconds. ${BEFORE}`);
    }
  };

  // At most one look is waiting, and none comes before its time.
  const lookIn = (milliseconds) => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      timer = 0;
      if (!busy()) await look();
      if (!timer) lookIn(busy() ? 1000 : isUp ? most : AGAIN);
    }, milliseconds);
  };

  const soon = () => lookIn(Math.max(0, last + least - performance.now()));

  // A browser has few connections to one server: one tab listens, and tells the others.
  const others = new BroadcastChannel("muster-changes");
  others.addEventListener("message", soon);
  const listen = () => {
    const source = new EventSource("/changes");
    source.addEventListener("change", () => {
      soon();
      others.postMessage("change");
    });
    source.addEventListener("error", () => {
      lookIn(1000);
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, 30000);  // it was refused
    });
    return new Promise(() => {});  // until the tab is closed
  };
  navigator.locks.request("muster-changes", listen);

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) soon();
  });
  lookIn(isUp ? most : AGAIN);
})();
