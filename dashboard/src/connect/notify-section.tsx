// The part of the Connect page about notifications: a card for each target, one to add a target, one for the rules.

import { useEffect, useRef } from "react";
import { notifyApi } from "../notify/notify-api.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { Link } from "../router.tsx";
import { RulesCard } from "./rules-card.tsx";
import { TargetCard } from "./target-card.tsx";

interface NotifySectionProps {
  /** The name of the open card. */
  open: string | null;
  onToggle: (name: string, open: boolean) => void;
}

export function NotifySection({ open, onToggle }: NotifySectionProps) {
  const { data, problem, reload } = useAnswer(notifyApi.overview);
  const first = useRef(open);
  const isRead = data !== null;
  useEffect(() => {
    // A link to a card of this part, the last of the page, leads to where it is.
    if (isRead && /^(notify|target)-/.test(first.current ?? ""))
      document.getElementById(first.current ?? "")?.scrollIntoView({ block: "nearest" });
    if (isRead) first.current = null;
  }, [isRead]);
  const card = (name: string) => ({
    open: open === name,
    onToggle: (shown: boolean) => onToggle(name, shown),
    onChange: reload,
  });
  return (
    <>
      <h2 className="section">Notifications</h2>
      <p className="quiet prose">
        svc sends messages about runs and machines to these targets. No run waits for a message.{" "}
        <Link href="/notifications">What was sent</Link>
      </p>
      {problem && <ProblemBanner problem={problem} />}
      {data?.targets.map((target) => (
        <TargetCard key={target.name} target={target} {...card(`target-${target.name}`)} />
      ))}
      <TargetCard target={null} {...card("notify-new")} />
      {data && <RulesCard rules={data.rules} fixed={data.registry_rules} {...card("notify-rules")} />}
    </>
  );
}
