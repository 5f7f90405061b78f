// The page of notifications: what happened, and what became of each message about it.

import { useEffect, useRef, useState } from "react";
import type { Delivery, Notice, Notifications } from "../../../src/schemas/notify.ts";
import { inOrder } from "../../../src/domain/terminal-text.ts";
import { levelOf } from "../../../src/schemas/notify-names.ts";
import { allowBrowserNotices, browserNotices } from "../notify/browser-notice.ts";
import { deliveryWords, failingTargets } from "../notify/notice-words.ts";
import { notifyApi } from "../notify/notify-api.ts";
import { leaveNotices, markRead, useFresh } from "../notify/unread.ts";
import { plural } from "../format.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { useNow } from "../parts/now.ts";
import { At } from "../parts/time.tsx";
import { useTitle } from "../parts/title.ts";
import { useAnswer } from "../parts/use-answer.ts";
import { Link, runPath } from "../router.tsx";
import { onHint } from "../sync.ts";

const AT_ONCE = 50;
/** The most that the API gives in one answer. */
const SHOWN_MAX = 200;
/** A delivery changes without an event. */
const READ_EVERY_MS = 5_000;

export function NotificationsPage() {
  useTitle("Notifications");
  const [limits, setLimits] = useState({ notices: AT_ONCE, deliveries: AT_ONCE });
  const { data, problem, reload } = useAnswer(async () => {
    const [overview, { notices }, { deliveries }] = await Promise.all([
      notifyApi.overview(),
      notifyApi.notices(limits.notices),
      notifyApi.deliveries(limits.deliveries),
    ]);
    return { overview, notices, deliveries };
  });
  useEffect(reload, [limits, reload]);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || reload(), READ_EVERY_MS);
    const stop = onHint((hint) => hint.type === "notices.changed" && reload());
    return () => (clearInterval(timer), stop());
  }, [reload]);
  useMarkedRead(data?.notices ?? null);
  const fresh = useFresh();
  return (
    <div className="page page-form">
      <div className="page-head">
        <h1>Notifications</h1>
        <div className="actions">
          <BrowserNoticeSwitch />
          <Link className="button" href="/connect?open=notify-new">
            Targets and rules
          </Link>
        </div>
      </div>
      {problem && <ProblemBanner problem={problem} />}
      {data === null && !problem && <p className="quiet pad">Reading the notifications…</p>}
      {data && (
        <>
          <TargetWords overview={data.overview} />
          <section className="panel" aria-labelledby="notices-title">
            <h2 id="notices-title">What happened</h2>
            <Notices notices={data.notices} fresh={fresh} />
            <More
              shown={limits.notices}
              all={data.notices.length}
              onMore={(notices) => setLimits({ ...limits, notices })}
            />
          </section>
          <section className="panel" aria-labelledby="deliveries-title">
            <h2 id="deliveries-title">Messages</h2>
            <Deliveries deliveries={data.deliveries} />
            <More
              shown={limits.deliveries}
              all={data.deliveries.length}
              onMore={(deliveries) => setLimits({ ...limits, deliveries })}
            />
          </section>
        </>
      )}
    </div>
  );
}

/** Notices on screen count as read; a failed call is repeated with the next reading. */
function useMarkedRead(notices: readonly Notice[] | null): void {
  const told = useRef(0);
  useEffect(() => {
    const newest = notices?.[0]?.id ?? 0;
    if (notices === null || newest <= told.current || document.hidden) return;
    const before = told.current;
    told.current = newest;
    void markRead(notices).then((isTold) => isTold || (told.current = before));
  }, [notices]);
  useEffect(() => leaveNotices, []);
}

function TargetWords({ overview: { targets } }: { overview: Notifications }) {
  const failing = targets.filter(({ error }) => error !== null);
  if (targets.length === 0)
    return (
      <p className="quiet prose">
        No message leaves this computer yet. <Link href="/connect?open=notify-new">Add a target</Link> to get them on a
        phone, by e-mail or in a chat, also while this page is closed.
      </p>
    );
  return (
    <p className="quiet prose">
      Messages go to{" "}
      {targets.map(({ name }, i) => (
        <span key={name}>
          {i > 0 && ", "}
          <Link href={`/connect?open=target-${name}`}>{name}</Link>
        </span>
      ))}
      .
      {failing.length > 0 && <span className="doubt"> {plural(failing.length, "target")} failed at the last try.</span>}
    </p>
  );
}

function Notices({ notices, fresh }: { notices: readonly Notice[]; fresh: ReadonlySet<number> }) {
  if (notices.length === 0)
    return (
      <p className="quiet">
        Nothing yet. svc reports here when a run ends, gets stuck or uses up its budget, and when a machine may cost
        money.
      </p>
    );
  return (
    <ul className="plain notice-list">
      {notices.map(({ id, job_id, kind, at, title, text }) => (
        <li key={id} className={`notice notice-${levelOf(kind)}${fresh.has(id) ? " notice-fresh" : ""}`}>
          <p className="notice-title">
            {fresh.has(id) && <span className="hidden">New: </span>}
            {job_id === null ? (
              <bdi>{inOrder(title)}</bdi>
            ) : (
              <Link href={runPath(job_id)}>
                <bdi>{inOrder(title)}</bdi>
              </Link>
            )}
          </p>
          <span className="quiet num">
            <At at={at} />
          </span>
          {text && (
            <p className="notice-text quiet">
              <bdi>{inOrder(text)}</bdi>
            </p>
          )}
        </li>
      ))}
    </ul>
  );
}

function Deliveries({ deliveries }: { deliveries: readonly Delivery[] }) {
  const isWaiting = deliveries.some(({ state }) => state === "waiting");
  const now = useNow(isWaiting);
  const failing = failingTargets(deliveries);
  if (deliveries.length === 0) return <p className="quiet">No message was sent yet.</p>;
  return (
    <ul className="plain notice-list">
      {deliveries.map((delivery) => {
        const { words, tone } = deliveryWords(delivery, now, failing);
        return (
          <li key={delivery.id} className="notice">
            <p className="notice-title">
              {delivery.job_id === null ? (
                <bdi>{inOrder(delivery.title)}</bdi>
              ) : (
                <Link href={runPath(delivery.job_id)}>
                  <bdi>{inOrder(delivery.title)}</bdi>
                </Link>
              )}
            </p>
            <span className="quiet num">
              <At at={delivery.created_at} />
            </span>
            <p className="notice-text">
              <span className="quiet">to</span> {delivery.target}: <strong className={`tone-${tone}`}>{words}</strong>
              {delivery.error !== null && delivery.state !== "sent" && (
                <span className="quiet">
                  . <bdi>{inOrder(delivery.error)}</bdi>
                </span>
              )}
            </p>
          </li>
        );
      })}
    </ul>
  );
}

function More({ shown, all, onMore }: { shown: number; all: number; onMore: (shown: number) => void }) {
  if (all < shown) return null;
  if (shown >= SHOWN_MAX) return <p className="more quiet">The newest {SHOWN_MAX} are shown.</p>;
  return (
    <p className="more">
      <button type="button" className="button" onClick={() => onMore(SHOWN_MAX)}>
        Show older
      </button>
    </p>
  );
}

function BrowserNoticeSwitch() {
  const [state, setState] = useState(browserNotices);
  if (state === "absent") return null;
  if (state === "denied")
    return <span className="quiet small-text">This browser refuses notices of svc; its site settings allow them.</span>;
  return (
    <label className="switch small-text" title="While the dashboard is open in a tab that you do not look at.">
      <input
        type="checkbox"
        checked={state === "on"}
        onChange={(event) => void allowBrowserNotices(event.target.checked).then(setState)}
      />
      Notifications of this browser
    </label>
  );
}
