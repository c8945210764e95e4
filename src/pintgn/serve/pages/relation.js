// By which relation two meet: a field for it, where the run was trained with relations.

import { json } from "./api.js";
import { byId, el, put, say } from "./dom.js";

const CHOICES = 500; // more are typed
let name = null; // the column of relations; null where there are none

/** Make the field once the run is known, or again when another run has been promoted. */
export function setRelation(model) {
  const made = json(model.relation ?? null);
  if (byId("by").dataset.made === made) return;
  byId("by").dataset.made = made;
  name = model.relation?.name ?? null;
  byId("by").hidden = name === null;
  if (name === null) return;
  const { words, newest } = model.relation;
  say("by-name", `By ${name}`);
  put("by-field", words.length <= CHOICES
    ? el("select", { id: "relation", "aria-labelledby": "by-name" }, group("to others", words), group("^ inverse", words.map((word) => `^${word}`)))
    : el("input", { id: "relation", type: "text", "aria-labelledby": "by-name", autocomplete: "off", autocapitalize: "off", spellcheck: "false" }));
  byId("relation").value = newest;
}

const group = (label, words) => el("optgroup", { label }, words.map((word) => el("option", { value: word }, word)));

/** The relation that is chosen; null where there are none. */
export const chosen = () => (name === null ? null : byId("relation").value.trim());

/** An address names a relation. */
export function choose(by) {
  if (name !== null && by !== null) byId("relation").value = by;
}

/** What a pair is scored with. */
export const givenBy = (by) => (by === null ? {} : { given: { [name]: by } });
