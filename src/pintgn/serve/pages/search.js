// The search box: a combobox that works from the keyboard alone.

import { get } from "./api.js";
import { byId, el, named, put, say, short } from "./dom.js";

const WAIT = 120; // milliseconds after the last key

export function searchBox(open) {
  const input = byId("search"), list = byId("found");
  let found = [], active = -1, timer = 0, asked = 0;

  const close = () => {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const choose = (id) => {
    clearTimeout(timer);
    asked += 1; // an answer that is still on its way comes too late
    input.value = String(id);
    close();
    open(id);
  };
  const mark = (place) => {
    active = found.length ? (place + found.length) % found.length : -1;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === active)));
    if (active < 0) return;
    input.setAttribute("aria-activedescendant", `found-${active}`);
    list.children[active].scrollIntoView({ block: "nearest" });
  };
  const show = (ids, typed) => {
    found = ids;
    put(list, ids.length ? ids.map((id, i) => el("li", { id: `found-${i}`, role: "option", "aria-selected": "false", title: String(id),
      onpointerdown: (event) => { event.preventDefault(); choose(id); } }, named(id)))
      : el("li", { class: "muted none", role: "presentation" }, `No id begins with “${short(typed, 30)}”. Enter asks about it as a new node.`));
    list.hidden = false;
    active = -1;
    input.setAttribute("aria-expanded", "true");
    say("search-said", ids.length ? `${ids.length} ids found` : "No id found");
  };
  const look = async () => {
    const typed = input.value.trim(), mine = ++asked;
    if (!typed) return close();
    try {
      const { nodes } = await get("nodes", { prefix: typed, limit: 12 });
      if (mine === asked && document.activeElement === input) show(nodes, typed);
    } catch (error) {
      say("search-said", error.message);
    }
  };

  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(look, WAIT); });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) look();
      else mark(active + (event.key === "ArrowDown" ? 1 : -1) + (active < 0 && event.key === "ArrowUp" ? 1 : 0));
    } else if (event.key === "Enter" && input.value.trim()) {
      event.preventDefault();
      choose(active >= 0 ? found[active] : input.value.trim());
    } else if (event.key === "Escape") close();
  });
  addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.isContentEditable;
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.focus();
      input.select();
    }
  });
}
