// Formats numbers and times for people. An unknown value is a dash, never a zero.

import { bytes } from "../../src/domain/bytes.ts";
import { longDuration } from "../../src/domain/long-duration.ts";
import { dollars } from "../../src/errors/dollars.ts";
import { prefs } from "./prefs.ts";

export const DASH = "–";

/** `1.4 s`, `3 min 20 s`, `2 h 05 min`, `3 d 4 h`: as in the command line, and in milliseconds below a second. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return DASH;
  const s = Math.max(0, ms) / 1000;
  if (s < 0.9995) return `${Math.round(s * 1000)} ms`;
  if (s < 9.995) return `${s.toFixed(1)} s`;
  return longDuration(Math.round(s));
}

/** A duration without the smallest part, for ages. */
export function age(ms: number): string {
  const s = Math.max(0, ms) / 1000;
  if (s < 5) return "now";
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3_600) return `${Math.floor(s / 60)} min`;
  if (s < 86_400) return `${Math.floor(s / 3_600)} h`;
  return `${Math.floor(s / 86_400)} d`;
}

export const usd = (value: number | null): string => (value === null ? DASH : dollars(value));

export const usdPerHour = (value: number | null): string =>
  value === null ? DASH : value === 0 ? "free" : `${usd(value)}/h`;

/** The unit of a metric, recognised by its name. */
export const isBytes = (name: string): boolean => /(^|[/_.])bytes(_per_s)?$/.test(name);
export const isMib = (name: string): boolean => /(^|[/_.])mib$/.test(name);
export const perSecond = (name: string): string => (name.endsWith("_per_s") ? "/s" : "");

export function metricValue(name: string, n: number): string {
  if (isMib(name)) return `${number(n)} MiB`;
  return isBytes(name) ? (n >= 1_000 ? bytes(n) : `${number(n)} B`) + perSecond(name) : number(n);
}

export function number(n: number): string {
  if (!Number.isFinite(n)) return String(n);
  if (Number.isInteger(n) && Math.abs(n) < 1e15) return n.toLocaleString("en-US");
  const size = Math.abs(n);
  return size >= 1e6 || size < 1e-3 ? n.toExponential(3) : String(Number(n.toPrecision(5)));
}

const formats = (timeZone: string | undefined) => ({
  clock: new Intl.DateTimeFormat(undefined, {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
    ...(timeZone ? { timeZone } : {}),
  }),
  day: new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", ...(timeZone ? { timeZone } : {}) }),
});
const ZONES = { local: formats(undefined), utc: formats("UTC") };
const chosen = () => {
  const { times } = prefs.getSnapshot().context;
  return { ...ZONES[times], zone: times === "utc" ? " UTC" : "" };
};

export function timeOfDay(at: string | number): string {
  const { clock, zone } = chosen();
  return clock.format(new Date(at)) + zone;
}

/** As `moment`, without the seconds: for an instant that is only estimated. */
export const minuteOf = (at: string): string => moment(at).replace(/(\d\d:\d\d):\d\d/, "$1");

/** In the chosen zone; with the day if it is not today. */
export function moment(at: string): string {
  const { clock, day, zone } = chosen();
  const date = new Date(at);
  const today = day.format(date) === day.format(new Date()) && Math.abs(Date.now() - date.getTime()) < 86_400_000;
  return `${today ? "" : `${day.format(date)}, `}${clock.format(date)}${zone}`;
}

const STEPS: Readonly<Record<string, string>> = {
  place: "Find machine",
  provision: "Get machine",
  await_ssh: "Connect",
  sync: "Copy code",
  install: "Install",
  launch: "Start",
  stream: "Run",
  collect: "Save results",
  terminate: "Release",
};
/** A step's name for people; the API keeps the short name. */
export const stepName = (step: string): string => STEPS[step] ?? words(step);

const MACHINES: Readonly<Record<string, string>> = {
  intended: "requested",
  held: "in use",
  unknown: "not certain",
  releasing: "being released",
};
export const machineState = (state: string): string => MACHINES[state] ?? words(state);

export const words = (name: string): string => name.replaceAll("_", " ");
export const plural = (n: number, word: string): string => `${n.toLocaleString("en-US")} ${word}${n === 1 ? "" : "s"}`;
