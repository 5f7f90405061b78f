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

type Shown = Pick<Problem, "detail" | "title" | "hint"> & Partial<Pick<Problem, "code" | "type">>;

/** The problem, the remedy, and the page about this error. */
export const ProblemBanner = ({ problem }: { problem: Shown }) => (
  <Banner tone="bad" title={problem.detail || problem.title}>
    {problem.hint && <p>{withCode(problem.hint)}</p>}
    {problem.code && problem.type?.startsWith("urn:svc:error:") && (
      <p>
        <a href={`/docs/reference/errors#${problem.code}`}>About this error</a>
      </p>
    )}
  </Banner>
);
