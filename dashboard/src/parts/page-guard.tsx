import { Component, type ReactNode } from "react";
import { asProblem } from "../api.ts";
import { ProblemBanner } from "./banner.tsx";

/** Contains a crash of one page: the bar stays, and the user can continue. */
export class PageGuard extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error: error ?? new Error("No message.") };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <div className="page">
        <h1>This page could not be shown</h1>
        <ProblemBanner problem={asProblem(this.state.error)} />
        <p className="gap-above">
          <button type="button" className="button primary" onClick={() => location.reload()}>
            Load it again
          </button>
        </p>
      </div>
    );
  }
}
