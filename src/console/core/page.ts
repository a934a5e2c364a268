import type { SessionAnswer } from "../../accounts/sessions/session_route.ts";
import type { ErrorCode } from "../../errors.ts";
import type { Html } from "../../html/html.ts";
import type { CookieName } from "../../route.ts";
import type { Texts } from "../texts/en.ts";
import type { Call, OperationId } from "./calls.ts";
import type { Fields } from "./fields.ts";

/** Who sees a page: anybody, a signed-in person, or one whose onboarding is complete. */
export type PageAccess = "public" | "signed_in" | "onboarded";

/** A page of the console. All there is of it is declared, so that tests can visit every one. */
export type Page<D = unknown> = {
  /** Unique name, snake_case. */
  id: string;
  /** Path below the base URL, with `{name}` parameters. Below `/console` it is an organization's page too. */
  path: string;
  access: PageAccess;
  /** Every operation that it calls; others are refused. */
  operations: readonly OperationId[];
  /** What its forms are bound to: the session, or the browser that signs in. Default: the session. */
  boundTo?: "session" | "browser";
  /** Its place in the navigation, and what it is called there. */
  navigation?: { order: number; label: (texts: Texts) => string };
  /** Reads what it shows. Throws `Redirect` to lead elsewhere. */
  load(visit: Visit): Promise<D>;
  title(visit: Visit, data: D): string;
  /** Its content: what is in `<main>`, below the heading that is its title. */
  render(visit: Visit, data: D): Html;
  /** Forms on it, by the name that they carry. */
  forms?: Record<string, Form>;
};

/** Declares a page, inferring what it loads. */
export function page<D>(declaration: Page<D>): Page {
  return declaration as unknown as Page;
}

/** What a form does. */
export type Form = {
  /** The field that an error code is shown beside, where its message does not name one. */
  errorFields?: Partial<Record<ErrorCode, string>>;
  /** What a page says of a field where the API's own message speaks to programs. */
  faults?: (texts: Texts) => Record<string, string>;
  /** Changes nothing: shows the page with what was sent. It needs no token. */
  carries?: true;
  /** Does it, and says where to go, or shows an answer that must not be shown twice. Refusals: `ApiError`. */
  submit(visit: Visit, fields: Fields): Promise<Outcome>;
};

/** Where a sent form leads: to a page, perhaps with a notice there, or to an answer of its own. */
export type Outcome = { to: string; notice?: NoticeId } | { title: string; content: Html };

/** The notices that pages show once, by name: what an address can say is no free text. */
export type NoticeId = keyof Texts["notices"];

/** A form that was refused: what is wrong, and what was typed. */
export type Failure = {
  form: string;
  message: string;
  /** Messages by field. */
  fields: ReadonlyMap<string, string>;
  typed: Fields;
};

/** One request for a page. */
export type Visit = {
  params: Record<string, string>;
  query: Record<string, string | undefined>;
  call: Call;
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
  /** The address of this page. */
  here: string;
  /** A cookie as it is by now: after a call that set it, the new value. */
  cookie(name: CookieName): string | undefined;
  /** The token that every form of this visit carries. */
  formToken: string;
  failure: Failure | undefined;
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
