import type { ReactNode } from "react";
import { withCode } from "./with-code.tsx";
import type { Problem } from "../../../src/schemas/job.ts";

/** Something a person should know before anything else on the page. */
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

/** What went wrong, and what to do. */
export const ProblemBanner = ({ problem }: { problem: Pick<Problem, "detail" | "title" | "hint"> }) => (
  <Banner tone="bad" title={problem.detail || problem.title}>
    {problem.hint && <p>{withCode(problem.hint)}</p>}
  </Banner>
);
