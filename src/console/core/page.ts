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

/** A page of the console. Everything about it is declared, so that tests can visit every page. */
export type Page<D = unknown> = PageParts<D> & { access: PageAccess };

type PageParts<D> = {
  /** Unique name, in snake_case. */
  id: string;
  /**
   * Path below the base URL, with `{name}` parameters. A path below `/console` also exists for each
   * organization.
   */
  path: string;
  /**
   * Every operation that the page calls. Any other call throws. Whoever may call the first operation may see
   * the page.
   */
  operations: readonly OperationId[];
  /**
   * The subject of the page. Default: the account that the person acts for.
   * - `organization`: exists only for organizations.
   * - `person`: the signed-in person, whatever account they act for.
   * - `installation`: the whole service. Only service administrators may call its operations.
   */
  about?: "organization" | "person" | "installation";
  /**
   * The forms' tokens are bound to the session, or before sign-in to the browser. Default: the session.
   */
  boundTo?: "session" | "browser";
  /**
   * Position and label in the navigation, which shows the page to everybody who may call its first operation.
   */
  navigation?: {
    order: number;
    label: (texts: Texts) => string;
    /** Paths of other pages that belong to this page. Pages below its own path always do. */
    also?: readonly string[];
  };
  /** Loads the page's data. Throws `Redirect` to send the browser to another page. */
  load(visit: Visit): Promise<D>;
} & (ShownPage<D> | FilePage<D>);

type ShownPage<D> = {
  title(visit: Visit, data: D): string;
  /** Returns the page that it belongs to; shown above the title. */
  back?(visit: Visit, data: D): Back;
  /** Returns the content of `<main>` below the heading with the title. */
  render(visit: Visit, data: D): Html;
  /** The forms of the page, by name. */
  forms?: Record<string, Form>;
};

/** The link to the page that a page belongs to. */
export type Back = { to: string; text: string };

/** A page that is a file for download. */
type FilePage<D> = { file(visit: Visit, data: D): PageFile };

/** A file that a browser saves and never displays. */
export type PageFile = {
  /** Its name: letters, digits, `.`, `_` and `-`. */
  name: string;
  /** Its media type. */
  type: string;
  content: string;
  /** The rest of the content, piece by piece: for files of any length. */
  rest?: AsyncIterable<string>;
};

/** Declares a page and infers the type of its data. The default `access` is `onboarded`. */
export function page<D>(declaration: PageParts<D> & { access?: PageAccess }): Page {
  return { access: "onboarded", ...declaration } as unknown as Page;
}

/** The handling of a form. */
export type Form = {
  /** The field beside which an error is shown whose message does not name a field. */
  errorFields?: Partial<Record<ErrorCode, string>>;
  /** Messages for fields, where the API's own message is written for programs. */
  faults?: (texts: Texts) => Record<string, string>;
  /** Changes nothing: shows the page again with the submitted fields. Such a form needs no token. */
  carries?: true;
  /**
   * Performs the action. Returns where to go next, or an answer that must be shown only once, or `again` to
   * show the page with the submitted fields. Throws `ApiError` for a refusal.
   */
  submit(visit: Visit, fields: Fields): Promise<Outcome | "again">;
};

/** The result of a form: another page, perhaps with a notice there, or a page of its own. */
export type Outcome = { to: string; notice?: NoticeId } | { title: string; content: Html; status?: number };

/** The names of notices that pages show once. An address can name a notice but not contain free text. */
export type NoticeId = keyof Texts["notices"];

/** A form that was refused: the errors and the submitted fields. */
export type Failure = {
  form: string;
  message: string;
  /** Messages by field. */
  fields: ReadonlyMap<string, string>;
  typed: Fields;
  /** Fields whose message is already shown beside them. */
  said: Set<string>;
  /** Whether its idempotency key was already used for something else. */
  isSpent?: boolean;
  /**
   * Whether the form showed the message. After a refusal, a page may omit the form, because the action was
   * already done.
   */
  isSaid?: true;
};

/** One request for a page. */
export type Visit = {
  params: Record<string, string>;
  query: Record<string, string | undefined>;
  call: Call;
  /**
   * Whether the signed-in person may call an operation for the account that they act for, or for another of
   * their accounts. Pages do not offer what they may not do.
   */
  may(id: OperationId, acting?: Acting): boolean;
  /** The account that the person acts for, with their role there. Absent if they are not a member of it. */
  acting: Acting | undefined;
  /** The contact for more credit and help: a mail address or a URL, from a setting. */
  contact: string | undefined;
  /** The session of the signed-in person. */
  session: SessionAnswer | undefined;
  /** The account id of the organization that the person acts for. */
  account: string | undefined;
  texts: Texts;
  now: Date;
  /**
   * Returns the address of a console page for the current account: `at("/requests")`, or `at("/")` for home.
   */
  at(path: string, query?: Record<string, string | undefined>): string;
  /** Returns the address of a path of this origin, such as `/v1/auth/refresh/console`. */
  own(path: string, query?: Record<string, string | undefined>): string;
  /** How applications call the API: the URL of a path, and the name of a header. */
  outside: { url(path: string): string; header(name: string): string };
  /** The address of this page, with its query. */
  here: string;
  /** The page's path below the base URL. `own(path)` is its address without a query. */
  path: string;
  /** Returns the current value of a cookie, including changes by calls during this visit. */
  cookie(name: CookieName): string | undefined;
  /** The token that every form of this visit contains. */
  formToken: string;
  failure: Failure | undefined;
  /**
   * Returns the visit with the current session, after a call that signed the person in or renewed their
   * session.
   */
  renewed(): Promise<Visit>;
};

/** Returns the session of a visit. Throws if nobody is signed in. */
export function signedIn({ session }: Visit): SessionAnswer {
  if (session === undefined) throw new Error("A page for signed-in people needs a session");
  return session;
}

/** Redirects to another page instead. */
export class Redirect extends Error {
  override readonly name = "Redirect";
  readonly to: string;

  constructor(to: string) {
    super("redirect to another page");
    this.to = to;
  }
}

/** Leaves an open page unchanged: the data that it polled for has not changed. */
export class Unchanged extends Error {
  override readonly name = "Unchanged";
}

/** Returns the error of a form's field, and marks it as shown beside the field. */
export function faultBeside({ failure }: Visit, { form, name }: { form: string; name: string }) {
  const fault = failure?.form === form ? failure.fields.get(name) : undefined;
  if (fault !== undefined) failure?.said.add(name);
  return fault;
}

/**
 * Returns the message of a refused form, to be shown above it. Call it after the form's fields were created:
 * it contains the errors that they did not show.
 */
export function refusal(visit: Visit, form: string): Html | undefined {
  const { failure } = visit;
  if (failure === undefined || failure.form !== form || failure.message === "") return undefined;
  failure.isSaid = true;
  return alert(failure);
}

/** Returns a page's content. If the page no longer shows the refused form, its message comes first. */
export function withRefusal({ failure }: Visit, content: Html): Html {
  if (failure === undefined || failure.isSaid || failure.message === "") return content;
  return html`${alert(failure)}${content}`;
}

function alert({ message, fields, said }: Failure): Html {
  const above = [...fields].filter(([name]) => !said.has(name)).map(([, fault]) => fault);
  if (above.length < fields.size || fields.size === 0) above.push(message);
  return html`<p class="refusal" role="alert">${above.join(" ")}</p>`;
}
