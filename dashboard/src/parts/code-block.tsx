import { useEffect, useState } from "react";

interface CodeProps {
  code: string;
  /** Its name for screen readers. */
  name: string;
}

/** Code with a copy button. `bare` leaves the button to the surrounding component. */
export function CodeBlock({ code, name, tall = false, bare = false }: CodeProps & { tall?: boolean; bare?: boolean }) {
  return (
    <div className="code-block">
      <pre className={tall ? "code code-tall" : "code"} tabIndex={0} role="region" aria-label={name}>
        {code}
      </pre>
      {!bare && <CopyCode code={code} name={name} />}
    </div>
  );
}

export function CopyCode({ code, name }: CodeProps) {
  const [copied, setCopied] = useState<"" | "copied" | "select it and copy">("");
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(""), 2_000);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(code);
      setCopied("copied");
    } catch {
      // Refused, or there is no clipboard: browsers have it only in a secure context.
      setCopied("select it and copy");
    }
  };
  return (
    <button type="button" className="button small" onClick={() => void copy()} aria-label={copied || `Copy ${name}`}>
      <span aria-live="polite">{copied || "Copy"}</span>
    </button>
  );
}
