import type { SessionAnswer } from "../../accounts/sessions/session_routes.ts";
import type { ErrorCode } from "../../errors.ts";
import { type Html, html } from "../../html/html.ts";
import type { CookieName } from "../../route.ts";
import type { Texts } from "../texts/texts.ts";
import type { Call, OperationId } from "./calls.ts";
import type { Fields } from "./forms.ts";

/** An account that somebody may act for, and with which role. */
export type Acting = SessionAnswer["accounts"][number];

/** Who sees a page: anybody, a signed-in person, or one whose onboarding is complete. */
export type PageAccess = "public" | "signed_in" | "onboarded";

/** A page of the console. All there is of it is declared, so that tests can visit every one. */
export type Page<D = unknown> = PageParts<D> & { access: PageAccess };

type PageParts<D> = {
  /** Unique name, snake_case. */
  id: string;
  /** Path below the base URL, with `{name}` parameters. Below `/console` it is an organization's page too. */
  path: string;
  /** Every operation that it calls; others are refused. The first is what it is about: see `navigation`. */
  operations: readonly OperationId[];
  /**
   * `organization`: it is there for organizations only. `person`: it is about who is signed in, for whomever
   * they act. `installation`: it is about no account, and its operations are not there but for service
   * administrators. Default: it is about the account that is acted for.
   */
  about?: "organization" | "person" | "installation";
  /** What its forms are bound to: the session, or the browser that signs in. Default: the session. */
  boundTo?: "session" | "browser";
  /** Its place in the navigation, and what it is called there; shown to who may call the first operation. */
  navigation?: {
    order: number;
    label: (texts: Texts) => string;
    /** Paths of pages that are its parts too; those below its own path are anyway. */
    also?: readonly string[];
  };
  /** Reads what it shows. Throws `Redirect` to lead elsewhere. */
  load(visit: Visit): Promise<D>;
} & (ShownPage<D> | FilePage<D>);

type ShownPage<D> = {
  title(visit: Visit, data: D): string;
  /** The page that it is a part of; shown above the title. */
  back?(visit: Visit, data: D): Back;
  /** Its content: what is in `<main>`, below the heading that is its title. */
  render(visit: Visit, data: D): Html;
  /** Forms on it, by the name that they carry. */
  forms?: Record<string, Form>;
};

/** The way to the page that a page is a part of. */
export type Back = { to: string; text: string };

/** A page that is a file, to be kept by who opens it. */
type FilePage<D> = { file(visit: Visit, data: D): PageFile };

/** A file that a browser stores and never shows. */
export type PageFile = {
  /** What it is called: letters, digits, `.`, `_` and `-`. */
  name: string;
  /** Its media type. */
  type: string;
  content: string;
  /** What comes after the content, piece by piece: for files of any length. */
  rest?: AsyncIterable<string>;
};

/** Declares a page and infers what it loads. The default `access` is `onboarded`. */
export function page<D>(declaration: PageParts<D> & { access?: PageAccess }): Page {
  return { access: "onboarded", ...declaration } as unknown as Page;
}

/** What a form does. */
export type Form = {
  /** The field that an error code is shown beside, where its message does not name one. */
  errorFields?: Partial<Record<ErrorCode, string>>;
  /** What a page says of a field where the API's own message speaks to programs. */
  faults?: (texts: Texts) => Record<string, string>;
  /** Changes nothing: shows the page with what was sent. It needs no token. */
  carries?: true;
  /**
   * Does it, and says where to go, or shows an answer that must not be shown twice; `again` shows the page
   * with what was sent. Refusals: `ApiError`.
   */
  submit(visit: Visit, fields: Fields): Promise<Outcome | "again">;
};

/** Where a sent form leads: to a page, perhaps with a notice there, or to an answer of its own. */
export type Outcome = { to: string; notice?: NoticeId } | { title: string; content: Html; status?: number };

/** The notices that pages show once, by name: what an address can say is no free text. */
export type NoticeId = keyof Texts["notices"];

/** A form that was refused: what is wrong, and what was typed. */
export type Failure = {
  form: string;
  message: string;
  /** Messages by field. */
  fields: ReadonlyMap<string, string>;
  typed: Fields;
  /** Fields whose message stands beside them. */
  said: Set<string>;
  /** Whether its idempotency key was spent on something else. */
  isSpent?: boolean;
  /** Whether its form has said it. A page may show that form no more: what was to be done is done. */
  isSaid?: true;
};

/** One request for a page. */
export type Visit = {
  params: Record<string, string>;
  query: Record<string, string | undefined>;
  call: Call;
  /**
   * Whether who is signed in may call an operation for whom they act, or for another account of theirs: what
   * they may not is not offered.
   */
  may(id: OperationId, acting?: Acting): boolean;
  /** For whom they act, and their role there; absent where they are no member. */
  acting: Acting | undefined;
  /** Who gives more credit and helps, by the installation's setting: a mail address or a URL. */
  contact: string | undefined;
  /** Who is signed in. */
  session: SessionAnswer | undefined;
  /** The organization that is acted for, by its account id. */
  account: string | undefined;
  texts: Texts;
  now: Date;
  /** The address of a console page for whom is acted for: `at("/requests")`, `at("/")` for home. */
  at(path: string, query?: Record<string, string | undefined>): string;
  /** The address of a path of this origin, such as `/v1/auth/refresh/console`. */
  own(path: string, query?: Record<string, string | undefined>): string;
  /** How applications call the API: where a path of it is, and what a header of it is called. */
  outside: { url(path: string): string; header(name: string): string };
  /** The address of this page, with its query. */
  here: string;
  /** Its path below the base URL: `own(path)` is its address without a query. */
  path: string;
  /** A cookie as it is by now: after a call that set it, the new value. */
  cookie(name: CookieName): string | undefined;
  /** The token that every form of this visit carries. */
  formToken: string;
  failure: Failure | undefined;
  /** The visit of who is signed in by now: after a call that signed them in or renewed their session. */
  renewed(): Promise<Visit>;
};

/** A visit whose session is there. */
export function signedIn({ session }: Visit): SessionAnswer {
  if (session === undefined) throw new Error("A page for people who are signed in has a session");
  return session;
}

/** Leads to another page instead. */
export class Redirect extends Error {
  override readonly name = "Redirect";
  readonly to: string;

  constructor(to: string) {
    super("see another page");
    this.to = to;
  }
}

/** Leaves an open page as it is: what it asked for by itself has not changed. */
export class Unchanged extends Error {
  override readonly name = "Unchanged";
}

/** What is wrong with a field of a form, to be said beside it. */
export function faultBeside({ failure }: Visit, { form, name }: { form: string; name: string }) {
  const fault = failure?.form === form ? failure.fields.get(name) : undefined;
  if (fault !== undefined) failure?.said.add(name);
  return fault;
}

/** What a form was refused for, above it. Its fields are made first: what they do not say is said here. */
export function refusal(visit: Visit, form: string): Html | undefined {
  const { failure } = visit;
  if (failure === undefined || failure.form !== form || failure.message === "") return undefined;
  failure.isSaid = true;
  return alert(failure);
}

/** A page's content, below what a form was refused for that the page shows no more. */
export function withRefusal({ failure }: Visit, content: Html): Html {
  if (failure === undefined || failure.isSaid || failure.message === "") return content;
  return html`${alert(failure)}${content}`;
}

function alert({ message, fields, said }: Failure): Html {
  const above = [...fields].filter(([name]) => !said.has(name)).map(([, fault]) => fault);
  if (above.length < fields.size || fields.size === 0) above.push(message);
  return html`<p class="refusal" role="alert">${above.join(" ")}</p>`;
}
