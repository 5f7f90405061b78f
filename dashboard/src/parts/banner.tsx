import type { ReactNode } from "react";
import { withCode } from "./with-code.tsx";
import type { Problem } from "../../../src/schemas/job.ts";

/** A message that is more important than anything else on the page. */
export function Banner({
  tone,
  title,
  children,
}: {
  tone: "bad" | "warn" | "info";
  title: ReactNode;
  children?: ReactNode;
}) {
  return (
    <div className={`banner banner-${tone}`} role={tone === "bad" ? "alert" : "status"}>
      <p className="banner-title">{title}</p>
      {children}
    </div>
  );
}

/** The problem, and the remedy. */
export const ProblemBanner = ({ problem }: { problem: Pick<Problem, "detail" | "title" | "hint"> }) => (
  <Banner tone="bad" title={problem.detail || problem.title}>
    {problem.hint && <p>{withCode(problem.hint)}</p>}
  </Banner>
);
