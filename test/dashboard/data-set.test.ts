// A data set on the page Data, without a browser: its buttons are found in what the component returns.

import { createElement, isValidElement, type ReactNode } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { afterEach, expect, it, vi } from "vitest";
import { DataSet } from "../../dashboard/src/data/data-set.tsx";

interface Shown {
  children?: ReactNode;
  onClick?: () => void;
}

/** The button with these words. */
function button(node: ReactNode, words: string): Shown | null {
  if (Array.isArray(node)) return node.map((each: ReactNode) => button(each, words)).find(Boolean) ?? null;
  if (!isValidElement<Shown>(node)) return null;
  return node.type === "button" && node.props.children === words ? node.props : button(node.props.children, words);
}

afterEach(() => vi.unstubAllGlobals());

it.each(["Verify", "Verify every byte"])(
  "%s has the list of data sets read again, which says when each was checked",
  async (words) => {
    const sent: string[] = [];
    const report = {
      ok: true,
      files: 2,
      read_files: 0,
      read_bytes: 0,
      missing: [],
      changed: [],
      unreadable: [],
      extra: [],
    };
    vi.stubGlobal("fetch", (path: string) => (sent.push(path), Promise.resolve(Response.json(report))));
    const at = "2026-11-29T00:00:00.000Z";
    const rest = {
      files: 2,
      bytes: 9,
      sha256: "7".repeat(64),
      roots: ["/data"],
      follow_links: false,
      left_out: [],
      left_out_count: 0,
    };
    const data = { name: "digits-8x8", ...rest, created_at: at, checked_at: at };
    const onChanged = vi.fn();
    let shown: ReactNode = null;
    const Page = () => (shown = DataSet({ data, open: false, onToggle: () => undefined, onChanged }));
    renderToStaticMarkup(createElement(Page));
    button(shown, words)?.onClick?.();
    await expect.poll(() => onChanged.mock.calls.length).toBe(1);
    expect(sent).toEqual(["/v1/data/digits-8x8/verify"]);
  },
);
