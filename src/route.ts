import type { ZodType } from "zod";
import type { ErrorCode } from "./errors.ts";

/**
 * The callers that a route accepts: anyone, a signed-in person, an API key, either of the last two, or the
 * operator.
 */
export type Access = "public" | "session" | "api_key" | "account" | "operator";

/** The role of a member in an organization. Each route declares the roles that may call it. */
export const memberRoles = ["owner", "approver", "developer", "auditor"] as const;
export type MemberRole = (typeof memberRoles)[number];

/**
 * A signed-in person: their own account, and their role in the account that they act for. The role is `null`
 * if the person opened the organization's account and has since left it.
 */
export type ActingPerson = { accountId: string; email: string; role: MemberRole | null };

/** A signed-in person who acts for their own account or for an organization. */
export type SessionCaller = {
  /** The account that the person acts for. */
  accountId: string;
  /** Whether that account belongs to an organization. */
  organization: boolean;
  person: ActingPerson;
  /** Whether the person is a service administrator and acts for their own account. */
  serviceAdministrator: boolean;
  sessionId: string;
  familyId: string;
  /** The onboarding step of the person's own account. */
  onboardingStep: "profile" | "account_type" | "complete";
};

/** The application that presented an API key: one connection of one account. */
export type ApiKeyCaller = {
  accountId: string;
  connectionId: string;
  keyPrefix: string;
  /** The connection's registered name. Operations are bound to it. */
  verifierId: string;
  /** Whether AuthZEN requests without a proof are answered from the registry. */
  registryAnswers: boolean;
};

/** Kinds of API key calls that are rate-limited separately: presenting proofs, and creating agents. */
export type RatedKind = "present" | "agents";

/** A person or an application of an account. An application sees only the data of its own connection. */
export type AccountCaller = {
  accountId: string;
  connectionId: string | null;
  /** The person, if the call has a session, and whether they act for an organization. */
  person?: ActingPerson;
  organization?: boolean;
};

/** The leading Kubernetes operator of the cluster `clusterId`. */
export type OperatorCaller = { clusterId: string };

/** The authenticated caller for each kind of access. */
export type CallerOf = {
  public: undefined;
  session: SessionCaller;
  api_key: ApiKeyCaller;
  account: AccountCaller;
  operator: OperatorCaller;
};

/** One call: authenticated, and with every part validated by the route's schemas. */
export type Call<A extends Access, P, Q, B> = {
  caller: CallerOf[A];
  params: P;
  query: Q;
  body: B;
  /** The client's address, as far as trusted proxies report it. */
  ip: string;
  requestId: string;
  /**
   * Returns a request header by its lower-case name. `x-service-…` names the header with the service's word.
   */
  header(name: string): string | undefined;
  /** Returns the value of one of the service's cookies. */
  cookie(name: CookieName): string | undefined;
};

/** The service's cookies. On the wire, their names contain the service's word. */
export type CookieName = "session" | "refresh" | "csrf" | "sign_in";

/** A cookie to set, or to clear if `value` is empty. */
export type CookieChange = { name: CookieName; value: string; maxAgeSeconds: number };

/** A route's answer. `status` defaults to the status in the route's `answer`. */
export type Answer<R> = {
  body: R;
  status?: number;
  headers?: Record<string, string>;
  cookies?: CookieChange[];
  /**
   * Details for the organization's activity, in addition to those of the request. Not sent to the caller, and
   * never a secret.
   */
  activityDetails?: Record<string, string>;
};

/**
 * Descriptions of request or response headers by name. `X-Service-…` is the header with the service's word.
 */
export type HeaderNotes = Record<string, string>;

/** The description of an answer, with its required and its optional headers. */
type AnswerNotes = { description: string; headers?: HeaderNotes; optionalHeaders?: HeaderNotes };

/** One operation of the HTTP contract: its path, its callers, its input, its answers and its errors. */
export type Route<A extends Access = Access, P = unknown, Q = unknown, B = unknown, R = unknown> = {
  /** Unique name in snake_case, used as the OpenAPI operation id. */
  id: string;
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /**
   * The path, with `{name}` parameters. The last parameter may be `{name*}`, which matches all remaining
   * segments. The segment `service` is replaced by the service's word and its aliases.
   */
  path: string;
  /** Further literal paths that serve the route. They have no parameters and are not documented. */
  alsoAt?: readonly string[];
  summary: string;
  access: A;
  /** Session routes require a completed onboarding unless this is `"any"`. */
  onboarding?: "any";
  /**
   * The roles that may call it with a session, in addition to owners. If absent, only owners may. `"person"`
   * is for calls about the signed-in person, who then acts for their own account, whichever account the call
   * names. `"service_administrator"` is for service administrators only, whatever their roles in accounts.
   * For all others, such a call does not exist.
   */
  roles?: readonly MemberRole[] | "person" | "service_administrator";
  /**
   * Returns details of the body for an organization's activity, in addition to the path parameters. Never a
   * secret.
   */
  activityDetails?(body: B): Record<string, string | boolean>;
  /** Session calls that change state require the CSRF header. `false` only where no session exists yet. */
  csrf?: false;
  /**
   * The operator's calls must contain the epoch of its leader. `"none"` for calls that are made before there
   * is one.
   */
  epoch?: "none";
  params?: ZodType<P>;
  query?: ZodType<Q>;
  /** JSON body. If absent, any body is ignored. */
  body?: ZodType<B>;
  /** With `"raw"`, the handler receives the unparsed bytes (a Buffer) and decodes them strictly. */
  bodyForm?: "raw";
  answer: { status: 200 | 201; schema: ZodType<R> } & AnswerNotes;
  /**
   * Answers with another status that are not errors of this service. Without a schema, the answer has no
   * body.
   */
  otherAnswers?: Record<number, { schema?: ZodType } & AnswerNotes>;
  /** Request headers that the route reads, in addition to those that authenticate the caller. */
  headers?: HeaderNotes;
  /** The credentials that the handler of a public route itself requires. All of them must be present. */
  demands?: readonly ("refresh" | "csrf" | "api_key")[];
  /** Error codes of the route, in addition to those of its access and of malformed calls. */
  errors: ErrorCode[];
  /**
   * How the route treats an `Idempotency-Key`. With `true`, a repeated call receives the first answer again
   * for 24 hours. `"foreign"` is for a call that forwards other people's headers, so the key is ignored. If
   * absent, a call with a key is refused.
   */
  idempotent?: true | "foreign";
  /** The rate that the route counts for. Applies only to calls with an API key. */
  rate?: RatedKind;
  /**
   * Whether the answer contains a secret. Then a repeated call with the same `Idempotency-Key` receives it
   * only in the same sign-in, for ten minutes.
   */
  showsSecret?: true;
  /**
   * Returns the part of the body that must be equal for two calls to count as the same call under one
   * `Idempotency-Key`. Defaults to all bytes.
   */
  sameCall?(body: B): unknown;
  handle(call: Call<A, P, Q, B>): Promise<Answer<R>>;
};

/** Declares a route. Its types are inferred from its schemas. */
export function route<A extends Access, P = unknown, Q = unknown, B = undefined, R = unknown>(
  declaration: Route<A, P, Q, B, R>,
): Route {
  return declaration as unknown as Route;
}
