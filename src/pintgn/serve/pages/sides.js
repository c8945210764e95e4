// Logs whose sources and destinations are named apart: the same id may then be two nodes, one on each side.

let apart = false;

export const setSides = (data) => { apart = data.separate_namespaces; };

/** The side of who asks by a relation: by an inverse one, a destination. */
export const sideOf = (by) => (apart && by?.startsWith("^") ? "dst" : null);

/** The side of a node some steps away from one on a side; null where there is only one. */
export const sideAfter = (steps, side) => (apart ? (((side === "dst") === (steps % 2 === 0)) ? "dst" : null) : null);
