// The page: what is in the address is what is shown, and the stream's state is asked for again and again.

import { get } from "./api.js";
import { askAbout, setUpAsk } from "./ask.js";
import { byId, fromHash, hashOf, hashOfPair, nodeLink, put, say } from "./dom.js";
import { drawHistory, follow } from "./history.js";
import { isShown, newer, setUpNode, showNode } from "./node.js";
import { choose, chosen } from "./relation.js";
import { searchBox } from "./search.js";
import { redraw, showStatus } from "./status.js";
import { hideWhy, showWhy } from "./why.js";

const EVERY = 2000, LATER = 10000; // milliseconds between two looks at the service; when it does not answer
let events = null, begun = false; // as last told; whether the service has answered yet

async function look() {
  let wait = EVERY;
  try {
    if (document.visibilityState === "visible") {
      const status = await get("status");
      showStatus(status);
      well(status.reports.length ? "running, with notes" : "live", status.reports.length ? "warn" : "good");
      if (events !== null && status.events !== events) {
        newer(status.clock);
        follow();
      }
      events = status.events;
      if (!begun) { // how times are to be read is known only now
        begun = true;
        examples();
        go();
      }
    }
  } catch (error) {
    wait = LATER;
    well("no answer", "bad");
    say("banner", `${error.status ? error.message : "The service does not answer."} What you see may be old; trying again every ${LATER / 1000} seconds.`);
    byId("banner").hidden = false;
  }
  setTimeout(look, wait);
}

function well(text, kind) {
  say("health", text);
  byId("health").className = `pill ${kind}`;
  if (kind !== "bad") byId("banner").hidden = true;
}

async function examples() {
  try {
    const { nodes } = await get("nodes", { prefix: "", limit: 8 });
    put("examples", nodes.map((id) => nodeLink(id)));
  } catch { /* the banner says it */ }
}

/** Show what the address asks for. */
function go() {
  const { node, why, by, side } = fromHash();
  choose(by);
  if (node === null) {
    byId("about-node").hidden = true;
    hideWhy();
    return;
  }
  byId("examples").hidden = true;
  if (!isShown(node, side)) {
    byId("search").value = node;
    showNode(node, side, why === null);
    askAbout(node, side);
  }
  if (why === null) hideWhy();
  else showWhy(node, why, null, by ?? chosen());
}

setUpNode();
setUpAsk();
searchBox((id) => {
  if (location.hash === hashOf(id)) go();
  else location.hash = hashOf(id);
});
byId("why-close").addEventListener("click", () => {
  const { node, why, by } = fromHash();
  if (why === null) { // it was opened from the form
    hideWhy();
    byId("ask").querySelector("button").focus();
    return;
  }
  location.hash = hashOf(node);
  const opener = [...document.querySelectorAll("#next .why")].find((link) => link.getAttribute("href") === hashOfPair(node, why, by));
  (opener ?? byId("node-title")).focus();
});
document.querySelector(".skip").addEventListener("click", (event) => { // the address is ours: it names the node
  event.preventDefault();
  byId("search").focus();
});
addEventListener("hashchange", () => begun && go());
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && events !== null && follow());
let resized = 0;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => { redraw(); drawHistory(); }, 150); });
drawHistory();
look();
