/** A path or an id has probably been typed to its end after this pause. */
export const TYPED_MS = 300;
