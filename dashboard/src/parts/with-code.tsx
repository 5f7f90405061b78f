/**
 * Shows words between backquotes, and names such as `price_cap`, as code.
 * @param job the id that replaces JOB in a command
 */
export const withCode = (text: string, job?: string) =>
  text.split("`").flatMap((part, i) => {
    if (i % 2 === 1) return <code key={i}>{job === undefined ? part : part.replace(/\bJOB\b/g, job)}</code>;
    return part
      .split(/\b([a-z]+(?:_[a-z]+)+)\b/)
      .map((piece, j) => (j % 2 === 1 ? <code key={`${i}.${j}`}>{piece}</code> : piece));
  });
