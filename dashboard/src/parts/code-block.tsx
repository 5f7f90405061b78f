import { useEffect, useState } from "react";

/** A piece of code with a button that copies it. */
export function CodeBlock({ code, name, tall = false }: { code: string; name: string; tall?: boolean }) {
  const [copied, setCopied] = useState<"" | "copied" | "select it and copy">("");
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(""), 2_000);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = () =>
    navigator.clipboard.writeText(code).then(
      () => setCopied("copied"),
      () => setCopied("select it and copy"),
    );
  return (
    <div className="code-block">
      <pre className={tall ? "code code-tall" : "code"} tabIndex={0} role="region" aria-label={name}>
        {code}
      </pre>
      <button type="button" className="button small" onClick={() => void copy()} aria-label={`Copy ${name}`}>
        <span aria-live="polite">{copied || "Copy"}</span>
      </button>
    </div>
  );
}
