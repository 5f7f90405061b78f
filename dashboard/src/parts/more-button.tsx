interface MoreButtonProps {
  /** How many there are, and how many of them are shown. */
  all: number;
  shown: number;
  atOnce: number;
  /** What comes, as in "Show 20 more". */
  word?: string;
  onMore: (shown: number) => void;
}

/** Below a list that shows its beginning: brings the next part of it. */
export const MoreButton = ({ all, shown, atOnce, word = "more", onMore }: MoreButtonProps) =>
  all > shown && (
    <p className="more">
      <button type="button" className="button" onClick={() => onMore(shown + atOnce)}>
        Show {Math.min(atOnce, all - shown).toLocaleString("en-US")} {word}
      </button>
    </p>
  );
