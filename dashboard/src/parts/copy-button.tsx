import { useEffect, useState } from "react";

/** Text that a click copies. */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1_500);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Browsers offer the clipboard only in a secure context. Otherwise select the text so that the person can copy
      // it.
      const range = document.createRange();
      const shown = document.getElementById(`copy-${text}`);
      if (shown) range.selectNodeContents(shown);
      getSelection()?.removeAllRanges();
      getSelection()?.addRange(range);
      return;
    }
    setCopied(true);
  };
  return (
    <button type="button" className="copy" onClick={() => void copy()} title={`Copy ${what}`}>
      <code id={`copy-${text}`}>{text}</code>
      <span className="copy-word" aria-live="polite">
        {copied ? <span aria-label="copied">✓</span> : "copy"}
      </span>
    </button>
  );
}
