/** Shows words between backquotes, and names such as `price_cap`, as code; parts of a path are no such names. */
export const withCode = (text: string) =>
  text.split("`").flatMap((part, i) => {
    if (i % 2 === 1) return <code key={i}>{part}</code>;
    return part
      .split(/(?<!\/)\b([a-z]+(?:_[a-z]+)+)\b(?!\/|\.\w)/)
      .map((piece, j) => (j % 2 === 1 ? <code key={`${i}.${j}`}>{piece}</code> : piece));
  });
