import type { SessionAnswer } from "../../accounts/sessions/session_routes.ts";
import type { ErrorCode } from "../../errors.ts";
import { type Html, html } from "../../html/html.ts";
import type { CookieName } from "../../route.ts";
import type { Texts } from "../texts/texts.ts";
import type { Call, OperationId } from "./calls.ts";
import type { Fields } from "./forms.ts";

/** An account that a person may act for, with their role in it. */
export type Acting = SessionAnswer["accounts"][number];

/** The people who may see a page: everybody, a signed-in person, or a person whose onboarding is complete. */
export type PageAccess = "public" | "signed_in" | "onboarded";

/** A page of the console, declared so that tests can visit every page. */
export type Page<D = unknown> = PageParts<D> & { access: PageAccess };

type PageParts<D> = {
  /** The page's unique name, in snake_case. */
  id: string;
  /** The page's path, with `{name}` parameters. Paths below `/console` also exist for each organization. */
  path: string;
  /** The only operations that the page may call. Everyone who may call the first one may see the page. */
  operations: readonly OperationId[];
  /**
   * The page's subject. Default: the account that the person acts for.
   *
   * - `organization`: the page exists only for organizations.
   *
   * - `person`: the signed-in person, whatever account they act for.
   *
   * - `installation`: the whole service. Only service administrators may call its operations.
   */
  about?: "organization" | "person" | "installation";
  /** The forms' CSRF tokens belong to the session (default) or, before sign-in, to the browser. */
  boundTo?: "session" | "browser";
  /** The navigation entry. Everyone who may call the page's first operation sees it. */
  navigation?: {
    order: number;
    label: (texts: Texts) => string;
    /** The number beside the entry. Nothing is shown for 0. */
    count?: (acting: Acting) => number;
    /** Paths of pages that belong to this page although they are not below its path. */
    also?: readonly string[];
  };
  /** Loads the page's data. Throws `Redirect` to send the browser to a different page. */
  load(visit: Visit): Promise<D>;
} & (ShownPage<D> | FilePage<D>);

type ShownPage<D> = {
  title(visit: Visit, data: D): string | Title;
  /** The link to the parent page, above the title. */
  back?(visit: Visit, data: D): Back;
  /** The content of `<main>` below the title heading. */
  render(visit: Visit, data: D): Html;
  forms?: Record<string, Form>;
  /**
   * The other origin to which a form of the page may lead. Browsers apply `form-action` to redirects, too.
   */
  leadsTo?(visit: Visit, data: D): string;
};

/** A title with names that others chose: as text for the tab, and as a heading that isolates the names. */
export type Title = { text: string; heading: Html };

/** The link from a page to its parent page. */
export type Back = { to: string; text: string };

type FilePage<D> = { file(visit: Visit, data: D): PageFile };

/** A file that browsers save and never display. */
export type PageFile = {
  /** The file's name: letters, digits, `.`, `_` and `-`. */
  name: string;
  /** The file's media type. */
  type: string;
  content: string;
  /** The rest of the file's content in chunks, so that the file can have any length. */
  rest?: AsyncIterable<string>;
};

/** Declares a page and infers the type of its data. `access` is `onboarded` by default. */
export function page<D>(declaration: PageParts<D> & { access?: PageAccess }): Page {
  return { access: "onboarded", ...declaration } as unknown as Page;
}

/** How a page handles one of its forms. */
export type Form = {
  /** By error code: the field that shows the error if the error's message names no field. */
  errorFields?: Partial<Record<ErrorCode, string>>;
  /** By field: a message that replaces the API's own message, which is written for programs. */
  faults?: (texts: Texts) => Record<string, string>;
  /**
   * If true, the form changes nothing: it only shows the page with the submitted fields and needs no token.
   */
  carries?: true;
  /**
   * Performs the form's action. `again` shows this page with the submitted fields. A returned page with
   * content is shown only once. Throws `ApiError` if the API refuses the action.
   */
  submit(visit: Visit, fields: Fields): Promise<Outcome | "again">;
};

/** The result of a form: a redirect, perhaps with a notice, or content to show directly. */
export type Outcome =
  | { to: string; notice?: NoticeId }
  | { title: string | Title; content: Html; status?: number };

/** The name of a notice. A URL contains only this name, and the page adds the text. */
export type NoticeId = keyof Texts["notices"];

/** The errors and the submitted fields of a refused form. */
export type Failure = {
  form: string;
  message: string;
  /** Error messages by field name. */
  fields: ReadonlyMap<string, string>;
  typed: Fields;
  /** Fields whose message the page already shows next to the field. */
  said: Set<string>;
  /** True if the form's idempotency key was already used for a different request. */
  isSpent?: boolean;
  /** True if the page showed the message. A page may omit the form if the form's action was already done. */
  isSaid?: true;
};

/** The themes that a person can choose instead of the theme of their device. */
export const themes = ["light", "dark"] as const;
export type Theme = (typeof themes)[number];

/** One request for a page, as the page sees it. */
export type Visit = {
  params: Record<string, string>;
  query: Record<string, string | undefined>;
  call: Call;
  /**
   * Returns whether the person may call an operation for their current account, or for the account `acting`.
   */
  may(id: OperationId, acting?: Acting): boolean;
  /** The account that the person acts for. Undefined if they are not a member of it. */
  acting: Acting | undefined;
  /** The contact for more credit and help: an email address or a URL. */
  contact: string | undefined;
  /** The session. Undefined if nobody is signed in. */
  session: SessionAnswer | undefined;
  /** The organization's account id. Undefined if the person acts for their own account. */
  account: string | undefined;
  texts: Texts;
  now: Date;
  /** Returns a console page's URL for the current account. `at("/")` is the home page. */
  at(path: string, query?: Record<string, string | undefined>): string;
  /** Returns the URL of a path such as `/v1/auth/refresh/console`, without the current account. */
  own(path: string, query?: Record<string, string | undefined>): string;
  /** How applications call the API: returns a path's URL, and a header's full name. */
  outside: { url(path: string): string; header(name: string): string };
  /** This page's URL, with its query. */
  here: string;
  /** The page's path below the base URL. `own(path)` returns the page's URL without a query. */
  path: string;
  /** Returns a cookie's current value, which a call of this visit may have changed. */
  cookie(name: CookieName): string | undefined;
  /** The theme that the person chose in this browser. Undefined: the theme of their device. */
  theme: Theme | undefined;
  /** Keeps a theme in a cookie of this browser. `undefined` removes the cookie. */
  keepTheme(theme: Theme | undefined): void;
  /** Whether the browser came from a page of another origin, or from none, so it may lack the style sheet. */
  isNew: boolean;
  /** The CSRF token of this page's forms. */
  formToken: string;
  failure: Failure | undefined;
  /**
   * Returns the visit with the current session. Use this after a call that signs in or renews the session.
   */
  renewed(): Promise<Visit>;
};

/** Returns the session of a visit. Throws if nobody is signed in. */
export function signedIn({ session }: Visit): SessionAnswer {
  if (session === undefined) throw new Error("A page for signed-in people needs a session");
  return session;
}

/** A page throws this to redirect the browser to a different page. */
export class Redirect extends Error {
  override readonly name = "Redirect";
  readonly to: string;

  constructor(to: string) {
    super("redirect to another page");
    this.to = to;
  }
}

/** A page throws this if its data has not changed. The browser then keeps what it shows. */
export class Unchanged extends Error {
  override readonly name = "Unchanged";
}

/** Returns the error of a form field, and marks it as shown next to the field. */
export function faultBeside({ failure }: Visit, { form, name }: { form: string; name: string }) {
  const fault = failure?.form === form ? failure.fields.get(name) : undefined;
  if (fault !== undefined) failure?.said.add(name);
  return fault;
}

/** Returns the errors that no field showed. Call this function after all fields were created. */
export function refusal(visit: Visit, form: string): Html | undefined {
  const { failure } = visit;
  if (failure === undefined || failure.form !== form || failure.message === "") return undefined;
  failure.isSaid = true;
  return alert(failure);
}

/** Returns a page's content. If the content lacks the refused form, puts the form's error before it. */
export function withRefusal({ failure }: Visit, content: Html): Html {
  if (failure === undefined || failure.isSaid || failure.message === "") return content;
  return html`${alert(failure)}${content}`;
}

function alert({ message, fields, said }: Failure): Html {
  const above = [...fields].filter(([name]) => !said.has(name)).map(([, fault]) => fault);
  if (above.length < fields.size || fields.size === 0) above.push(message);
  return html`<p class="refusal" role="alert">${above.join(" ")}</p>`;
}
