import { age, duration, moment } from "../format.ts";
import { useNow } from "./now.ts";

/** An instant in local time; the title gives it in UTC. */
export const At = ({ at }: { at: string }) => (
  <time dateTime={at} title={at}>
    {moment(at)}
  </time>
);

/** How long ago. */
export function Ago({ at }: { at: string }) {
  const now = useNow();
  return (
    <time dateTime={at} title={`${moment(at)} · ${at}`}>
      {age(now - Date.parse(at))}
    </time>
  );
}

/** Defines the duration of a run, as in `svc jobs`. */
export const DURATION_COUNTS = "From its submission until its end is proven.";

/** Time from `from` until `to`, ticking while `to` is unknown. */
export function Span({ from, to }: { from: string; to: string | null }) {
  const now = useNow(to === null);
  const ms = (to === null ? Math.max(now, Date.parse(from)) : Date.parse(to)) - Date.parse(from);
  // A ticking clock shows whole seconds, like the age next to it.
  const whole = Math.floor(ms / 1000);
  return <span className="num">{to !== null ? duration(ms) : whole < 10 ? `${whole} s` : duration(whole * 1000)}</span>;
}
