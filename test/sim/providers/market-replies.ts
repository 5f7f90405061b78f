// The simulated market's refusals, in all forms of the real one.

import type { Reply } from "./http-server.ts";

export const failure = (status: number, error: string, msg: string): Reply => ({
  status,
  json: { success: false, error, msg },
});
export const noSuchInstance = (): Reply => failure(404, "no_such_instance", "no such instance");
export const isPublicKey = (key: unknown): key is string =>
  typeof key === "string" &&
  /^(?:ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) [A-Za-z0-9+/]+={0,2}(?: [^\n]*)?\s*$/.test(key);

export function tooMany(nth: number, seconds = 4.5): Reply {
  const text = `API requests too frequent: endpoint threshold=${seconds}`;
  switch (nth % 3) {
    case 0:
      return { status: 429, text };
    case 1:
      return { status: 429, json: { detail: text } };
    default:
      return { status: 429, json: { success: false, error: "rate_limit_exceeded", msg: text } };
  }
}

/** The refusal of a taken offer has four forms. */
export function taken(id: string, nth: number): Reply {
  const msg = `error 404/3603: no_such_ask Instance type by id ${id} is not available.`;
  switch (nth % 4) {
    case 0:
      return failure(404, "no_such_ask", msg);
    case 1:
      return failure(400, "invalid_args", msg);
    case 2:
      return failure(410, "no_such_ask", "The offer is no longer available.");
    default:
      return { json: { success: false, error: "no_such_ask", msg: "This offer is no longer available." } };
  }
}

export const badGateway: Reply = {
  status: 502,
  text: "<html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>",
  headers: { "content-type": "text/html" },
};

/** The answer to a search: with malformed prices, or with a first offer whose id is a path. */
export function offersReply(
  offers: Record<string, unknown>[],
  spoil: { price: "honest" | "infinite" | "text" | "null"; hostile: boolean },
): Reply {
  const prices = { infinite: "\u0000infinite", text: "free", null: null };
  let shown = offers;
  if (spoil.price !== "honest") {
    const price = prices[spoil.price];
    shown = shown.map((offer) => ({ ...offer, dph_total: price, dph_base: price }));
  }
  if (spoil.hostile && shown[0] !== undefined)
    shown = [
      { ...shown[0], id: "1/../../instances/11000000", ask_contract_id: "$(id)", dph_base: 0.001, dph_total: 0.001 },
      ...shown,
    ];
  // JSON has no infinity, but some of its numbers are read as infinity.
  return {
    text: JSON.stringify({ offers: shown }).replaceAll('"\\u0000infinite"', "1e999"),
    headers: { "content-type": "application/json" },
  };
}
