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

/** A page of the console. All its parts are declared, so that tests can visit every page. */
export type Page<D = unknown> = PageParts<D> & { access: PageAccess };

type PageParts<D> = {
  /** Unique name, in snake_case. */
  id: string;
  /**
   * Path below the base URL, with `{name}` parameters. Each path below `/console` also exists once for each
   * organization.
   */
  path: string;
  /**
   * Every operation that the page calls. A call to any other operation throws. Everyone who may call the
   * first operation may see the page.
   */
  operations: readonly OperationId[];
  /**
   * The page's subject. Default: the account that the person acts for.
   * - `organization`: the page exists only for organizations.
   * - `person`: the signed-in person, whatever account they act for.
   * - `installation`: the whole service. Only service administrators may call its operations.
   */
  about?: "organization" | "person" | "installation";
  /**
   * Whether the forms' CSRF tokens are bound to the session, or to the browser (before sign-in). Default: the
   * session.
   */
  boundTo?: "session" | "browser";
  /**
   * Position and label in the navigation. Everyone who may call the page's first operation sees the entry.
   */
  navigation?: {
    order: number;
    label: (texts: Texts) => string;
    /** Paths of other pages that belong to this page. Pages below this page's path always belong to it. */
    also?: readonly string[];
  };
  /** Loads the page's data. Throws `Redirect` to send the browser to another page. */
  load(visit: Visit): Promise<D>;
} & (ShownPage<D> | FilePage<D>);

type ShownPage<D> = {
  title(visit: Visit, data: D): string;
  /** Returns the link to the parent page. It appears above the title. */
  back?(visit: Visit, data: D): Back;
  /** Returns the content of `<main>` below the title heading. */
  render(visit: Visit, data: D): Html;
  /** The forms of the page, by name. */
  forms?: Record<string, Form>;
};

/** The link from a page to its parent page. */
export type Back = { to: string; text: string };

/** A page that is a downloadable file. */
type FilePage<D> = { file(visit: Visit, data: D): PageFile };

/** A file that a browser saves and never displays. */
export type PageFile = {
  /** The file's name: letters, digits, `.`, `_` and `-`. */
  name: string;
  /** The file's media type. */
  type: string;
  content: string;
  /** The rest of the content in chunks, for files of any length. */
  rest?: AsyncIterable<string>;
};

/** Declares a page and infers the type of its data. The default `access` is `onboarded`. */
export function page<D>(declaration: PageParts<D> & { access?: PageAccess }): Page {
  return { access: "onboarded", ...declaration } as unknown as Page;
}

/** How a page handles one of its forms. */
export type Form = {
  /** By error code: the field that shows the error if the message names no field. */
  errorFields?: Partial<Record<ErrorCode, string>>;
  /** Messages for fields that replace the API's own message where that is written for programs. */
  faults?: (texts: Texts) => Record<string, string>;
  /**
   * The form changes nothing: it shows the page again with the submitted fields. Such a form needs no token.
   */
  carries?: true;
  /**
   * Performs the action. Returns the next page, or a page that must be shown only once, or `again` to show
   * this page with the submitted fields. Throws `ApiError` for a refusal.
   */
  submit(visit: Visit, fields: Fields): Promise<Outcome | "again">;
};

/** The result of a form: another page, perhaps with a notice, or content to show directly. */
export type Outcome = { to: string; notice?: NoticeId } | { title: string; content: Html; status?: number };

/** The names of notices that pages show once. A URL can name a notice but not contain its text. */
export type NoticeId = keyof Texts["notices"];

/** The errors and the submitted fields of a refused form. */
export type Failure = {
  form: string;
  message: string;
  /** Error messages by field name. */
  fields: ReadonlyMap<string, string>;
  typed: Fields;
  /** Names of fields whose message already appears next to them. */
  said: Set<string>;
  /** Whether the form's idempotency key was already used for another request. */
  isSpent?: boolean;
  /** Whether the form showed the message. A page may omit the form if its action was already done. */
  isSaid?: true;
};

/** One request for a page, as the page sees it. */
export type Visit = {
  params: Record<string, string>;
  query: Record<string, string | undefined>;
  call: Call;
  /**
   * Returns whether the signed-in person may call an operation for the account that they act for, or for
   * another of their accounts. Pages do not offer forbidden actions.
   */
  may(id: OperationId, acting?: Acting): boolean;
  /** The account that the person acts for, with their role in it. Absent if they are not a member of it. */
  acting: Acting | undefined;
  /** The contact for more credit and help: an email address or a URL, from the settings. */
  contact: string | undefined;
  /** The session of the signed-in person. */
  session: SessionAnswer | undefined;
  /** The account id of the organization that the person acts for. */
  account: string | undefined;
  texts: Texts;
  now: Date;
  /**
   * Returns the URL of a console page for the current account: `at("/requests")`, or `at("/")` for the home
   * page.
   */
  at(path: string, query?: Record<string, string | undefined>): string;
  /** Returns the URL of a path of this origin, such as `/v1/auth/refresh/console`. */
  own(path: string, query?: Record<string, string | undefined>): string;
  /** How applications call the API: the URL for a path, and the full name of a header. */
  outside: { url(path: string): string; header(name: string): string };
  /** The URL of this page, with its query. */
  here: string;
  /** The page's path below the base URL. `own(path)` returns its URL without a query. */
  path: string;
  /** Returns the current value of a cookie, including changes by calls during this visit. */
  cookie(name: CookieName): string | undefined;
  /** The CSRF token in every form of this page. */
  formToken: string;
  failure: Failure | undefined;
  /**
   * Returns the visit with the current session. Use it after a call that signed the person in or renewed
   * their session.
   */
  renewed(): Promise<Visit>;
};

/** Returns the session of a visit. Throws if nobody is signed in. */
export function signedIn({ session }: Visit): SessionAnswer {
  if (session === undefined) throw new Error("A page for signed-in people needs a session");
  return session;
}

/** Thrown by a page to redirect to another page. */
export class Redirect extends Error {
  override readonly name = "Redirect";
  readonly to: string;

  constructor(to: string) {
    super("redirect to another page");
    this.to = to;
  }
}

/** Thrown by a page to leave an open page unchanged, because its data has not changed. */
export class Unchanged extends Error {
  override readonly name = "Unchanged";
}

/** Returns the error of a form field, and marks it as shown next to the field. */
export function faultBeside({ failure }: Visit, { form, name }: { form: string; name: string }) {
  const fault = failure?.form === form ? failure.fields.get(name) : undefined;
  if (fault !== undefined) failure?.said.add(name);
  return fault;
}

/**
 * Returns the message of a refused form, to be shown above it. Call it after the form's fields were created:
 * it contains only the errors that no field showed.
 */
export function refusal(visit: Visit, form: string): Html | undefined {
  const { failure } = visit;
  if (failure === undefined || failure.form !== form || failure.message === "") return undefined;
  failure.isSaid = true;
  return alert(failure);
}

/**
 * Returns a page's content. If the content no longer includes the refused form, the refusal's message comes
 * first.
 */
export function withRefusal({ failure }: Visit, content: Html): Html {
  if (failure === undefined || failure.isSaid || failure.message === "") return content;
  return html`${alert(failure)}${content}`;
}

function alert({ message, fields, said }: Failure): Html {
  const above = [...fields].filter(([name]) => !said.has(name)).map(([, fault]) => fault);
  if (above.length < fields.size || fields.size === 0) above.push(message);
  return html`<p class="refusal" role="alert">${above.join(" ")}</p>`;
}
