// Asks for the view again every few seconds and replaces what differs. Without this script the page is still whole.
"use strict";
(() => {
  const main = document.getElementById("main");
  const every = Number(main.dataset.every) * 1000;
  let tag = null;

  const busy = () => {
    const selection = document.getSelection();
    const active = document.activeElement;
    return document.hidden || (selection && !selection.isCollapsed) ||
      (active && ["INPUT", "SELECT"].includes(active.tagName));
  };

  const position = (element) =>
    element && element !== main && main.contains(element)
      ? [...main.querySelectorAll("a, summary, [tabindex]")].indexOf(element) : -1;

  // Scrolled tables and the focus stay where they are, and what was unfolded stays so.
  const replace = (html) => {
    const next = new DOMParser().parseFromString(html, "text/html").body;
    const focused = position(document.activeElement);
    const scrolled = [...main.querySelectorAll(".scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
    const unfolded = [...main.querySelectorAll("details")].map((each) => each.open);
    main.replaceChildren(...next.childNodes);
    main.querySelectorAll(".scroll").forEach((each, index) => {
      [each.scrollLeft, each.scrollTop] = scrolled[index] || [0, 0];
    });
    main.querySelectorAll("details").forEach((each, index) => { each.open = unfolded[index] || false; });
    if (focused >= 0) {
      const candidates = main.querySelectorAll("a, summary, [tabindex]");
      if (candidates[focused]) candidates[focused].focus({ preventScroll: true });
    }
  };

  const tell = (sentence) => {
    const age = document.getElementById("age");
    if (age && age.textContent !== sentence) age.textContent = sentence;
  };

  const look = async () => {
    if (!busy()) {
      try {
        const headers = { "X-Muster-Part": "1", ...(tag ? { "If-None-Match": tag } : {}) };
        const answer = await fetch(location.href, { headers, cache: "no-store" });
        if (answer.status === 200) {
          tag = answer.headers.get("ETag");
          replace(await answer.text());
        } else if (answer.status !== 304) {
          tag = null;
          tell("Muster does not answer. What is shown is from before.");
        }
      } catch {
        tag = null;
        tell("`kubectl muster page` has ended. What is shown is from before.");
      }
    }
    setTimeout(look, every);
  };

  setTimeout(look, every);
})();
