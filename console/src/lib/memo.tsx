import { Component, createElement, type ComponentChildren, type ComponentType, type VNode } from "preact";

/** A component that is drawn again only where `isSame` says that its properties show something else. */
export function memo<P extends object>(Inner: (props: P) => VNode | null, isSame: (before: P, after: P) => boolean): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      return !isSame(this.props as P, next);
    }
    override render(): ComponentChildren {
      return createElement(Inner, this.props as P);
    }
  };
}
