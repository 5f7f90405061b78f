interface MoreButtonProps {
  /** The total, and the number of shown items. */
  all: number;
  shown: number;
  atOnce: number;
  /** The noun, as in "Show 20 more". */
  word?: string;
  onMore: (shown: number) => void;
}

/** Shows the next part of a list. */
export const MoreButton = ({ all, shown, atOnce, word = "more", onMore }: MoreButtonProps) =>
  all > shown && (
    <p className="more">
      <button type="button" className="button" onClick={() => onMore(shown + atOnce)}>
        Show {Math.min(atOnce, all - shown).toLocaleString("en-US")} {word}
      </button>
    </p>
  );
