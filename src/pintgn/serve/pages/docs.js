// The routes of this service, from openapi.json: what each takes and answers.

import { el, facts, put, say } from "./dom.js";

const key = sessionStorage.getItem("pintgn.key"); // the live page asks for it
const answer = await fetch(new URL("openapi.json", document.baseURI), { headers: key ? { Authorization: `Bearer ${key}` } : {} });
const { info, tags, paths, components } = answer.ok ? await answer.json() : {};

const code = (value) => el("pre", { class: "scroll", tabindex: 0 }, typeof value === "string" ? value : JSON.stringify(value, null, 2));
const named = (schema) => (schema.$ref ? components.schemas[schema.$ref.split("/").pop()] : schema);

/** A type in a few words: text, whole number, list of Score … */
function words(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(words).join(" or ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" or ");
  if (schema.type === "array") return `list of ${words(schema.items ?? {})}`;
  const limits = [["minimum", "at least"], ["maximum", "at most"]].filter(([name]) => name in schema).map(([name, said]) => `${said} ${schema[name]}`);
  return [{ integer: "whole number", string: "text", object: "object", null: "nothing" }[schema.type] ?? schema.type ?? "anything", ...limits].join(", ");
}

const list = (rows) => {
  const dl = el("dl", { class: "facts" });
  facts(dl, rows);
  return dl;
};
const fields = (schema) => {
  const { properties = {}, required = [] } = named(schema);
  return list(Object.entries(properties).map(([name, one]) => [name, `${words(one)}${required.includes(name) ? "" : ", optional"}${one.description ? `. ${one.description}` : ""}`]));
};

function route(path, method, one) {
  const body = one.requestBody?.content["application/json"];
  const curl = `curl ${method === "get" ? "" : "-X POST "}'${new URL(path.slice(1), document.baseURI).href}'${body ? ` -H 'Content-Type: application/json' -d '${JSON.stringify(body.example)}'` : ""}`;
  const done = Object.entries(one.responses).find(([status]) => status < 400)[1].content["application/json"];
  return el("details", { class: "card" },
    el("summary", {}, el("code", {}, `${method.toUpperCase()} ${path}`), ` ${one.summary}`),
    el("p", {}, one.description), code(curl),
    one.parameters.length ? [el("h3", {}, "Parameters"), list(one.parameters.map((given) => [given.name,
      `${words(given.schema)}${given.required ? "" : `, ${JSON.stringify(given.schema.default ?? null)} by default`}. ${given.description}`]))] : null,
    body ? [el("h3", {}, "Body"), body.schema.anyOf.map((kind) => [el("h4", {}, words(kind)), fields(kind)])] : null,
    done?.schema.$ref ? [el("h3", {}, "Answer"), fields(done.schema)] : null);
}

if (!answer.ok) say("about", "This service wants its API key. Give it on the live page first, then come back.");
else {
  say("about", info.description);
  const all = Object.entries(paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, one]) => [path, method, one]));
  put("api", tags.flatMap(({ name, description }) => [el("h2", {}, description),
    ...all.filter(([, , one]) => one.tags.includes(name)).map((given) => route(...given))]));
}
