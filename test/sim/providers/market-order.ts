// The simulated market's checks of the body of a rent request.

import type { MarketOffer } from "./market-offers.ts";

export interface MarketOrder {
  image: string;
  label: string;
  diskGb: number;
  runtype: string;
  env: Record<string, string>;
  onstart: string;
  bid: number | null;
  cancelUnavailable: boolean;
  stopped: boolean;
}

export interface Refusal {
  status: number;
  error: string;
  msg: string;
}

const FIELDS = new Set(
  (
    "client_id image image_login label disk runtype env onstart args args_str price cancel_unavail target_state " +
    "template_hash_id volume_info user force vm python_utf8 lang_utf8 use_jupyter_lab jupyter_dir extra"
  ).split(" "),
);
const RUNTYPE =
  /^(?:ssh_direc ssh_proxy|ssh_direct|ssh|ssh_proxy|jupyter_direct|jupyter_proxy|jupyter_direc ssh_direc ssh_proxy|args)$/;
const TEXT_MAX = 4096;
const ENV_MAX = 32_768;

/** The order, or the reason for its refusal. */
export function readOrder(body: unknown, offer: MarketOffer): MarketOrder | Refusal {
  const refuse = (msg: string, error = "invalid_args"): Refusal => ({ status: 400, error, msg });
  if (typeof body !== "object" || body === null || Array.isArray(body)) return refuse("the body must be a JSON object");
  const given = body as Record<string, unknown>;
  for (const name of Object.keys(given)) if (!FIELDS.has(name)) return refuse(`unknown argument ${name}`);
  const {
    image,
    label = "",
    disk = 10,
    runtype = "ssh",
    env = {},
    onstart = "",
    args,
    args_str: argsText = "",
  } = given;
  if (given["client_id"] !== undefined && given["client_id"] !== "me") return refuse("client_id");
  if (typeof image !== "string" || image === "" || image.length > 1024)
    return refuse("image must be 1 to 1024 characters");
  if (/\s/.test(image)) return refuse("image");
  if (typeof label !== "string") return refuse("label must be a string");
  if (label.length > 256) return refuse("label is longer than 256 characters", "label_too_long");
  if (typeof disk !== "number" || !Number.isFinite(disk) || disk < 8)
    return refuse("disk must be a number of at least 8");
  if (disk > offer.diskSpaceGb) return refuse(`disk: only ${offer.diskSpaceGb} GB there`);
  if (typeof runtype !== "string" || !RUNTYPE.test(runtype)) return refuse("runtype");
  if (typeof env !== "object" || env === null || Array.isArray(env)) return refuse("env must be an object");
  for (const [name, value] of Object.entries(env)) {
    if (typeof value !== "string") return refuse(`env: ${name} must be a string`);
    if (!/^(?:[A-Za-z_][A-Za-z0-9_]*|-p [0-9]+:[0-9]+(?:\/(?:udp|tcp))?|-[hn] \S+)$/.test(name))
      return refuse(`env: ${name}`);
  }
  if (JSON.stringify(env).length > ENV_MAX) return refuse("env is too large");
  if (typeof onstart !== "string" || typeof argsText !== "string") return refuse("onstart must be a string");
  if (args !== undefined && runtype !== "args") return refuse("args is only for runtype args");
  if (args !== undefined && !Array.isArray(args)) return refuse("args must be a list");
  const textLength = onstart.length + argsText.length + (Array.isArray(args) ? args.join(" ").length : 0);
  if (textLength > TEXT_MAX) return refuse(`onstart and args together are longer than ${TEXT_MAX} characters`);
  const { price = null, cancel_unavail: cancel = price === null, target_state: state = "running" } = given;
  if (price !== null && (typeof price !== "number" || !(price >= 0.001 && price <= 128)))
    return refuse("price must be from 0.001 to 128", "invalid_price");
  if (typeof cancel !== "boolean") return refuse("cancel_unavail must be a boolean");
  if (state !== "running" && state !== "stopped") return refuse("target_state");
  return {
    image,
    label,
    diskGb: disk,
    runtype,
    env: env as Record<string, string>,
    onstart,
    bid: price,
    cancelUnavailable: cancel,
    stopped: state === "stopped",
  };
}
