import type { MouseEvent } from "react";
import { Link, navigate } from "../router.tsx";
import { EVERYTHING, filteredPath, filterOf, listPath } from "../run-filter.ts";

/** Narrows the list that is shown; a modified click opens the list of all runs with the tag. */
function narrow(event: MouseEvent, tag: string): void {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (location.pathname !== "/") return;
  event.preventDefault();
  const filter = filterOf(new URLSearchParams(location.search));
  navigate(filteredPath({ ...filter, tags: [...new Set([...filter.tags, tag])] }));
}

/** The tags of a run. Each leads to the runs that have it. */
export const TagLinks = ({ tags }: { tags: readonly string[] }) =>
  tags.map((tag) => (
    <Link
      key={tag}
      className="tag"
      href={listPath({ ...EVERYTHING, tags: [tag] })}
      title={`Runs with the tag ${tag}`}
      onClick={(event) => narrow(event, tag)}
    >
      <bdi>{tag}</bdi>
    </Link>
  ));
