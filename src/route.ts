import type { ZodType } from "zod";
import type { ErrorCode } from "./errors.ts";
import type { ExplanationValues } from "./input/platform_fields.ts";

/** Callers that a route accepts: anyone, a person, an API key, a person or an API key, or the operator. */
export type Access = "public" | "session" | "api_key" | "account" | "operator";

/** A member's role in an organization. Each route declares the roles that may call it. */
export const memberRoles = ["owner", "approver", "developer", "auditor"] as const;
export type MemberRole = (typeof memberRoles)[number];

/** Roles of API keys that may do less than a full key: present for one agent, or verify. */
export const narrowRoles = ["agent", "verify"] as const;
export type NarrowRole = (typeof narrowRoles)[number];

/** The role of an API key. A `full` key may make every call that accepts API keys. */
export type KeyRole = "full" | NarrowRole;

/**
 * A signed-in person: their own account, and their role in the account that they act for. The role is `null`
 * if this person created the organization's account and has since left the organization.
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
  /** The platform's account, which pays, has the limits and keeps the record. */
  accountId: string;
  /** The account whose root counts at the connection, and which has its agents, requests and certificates. */
  principalAccountId: string;
  /** Whether it is a customer connection. The principal is then the customer. */
  isCustomer: boolean;
  connectionId: string;
  keyPrefix: string;
  role: KeyRole;
  /** The agent of an agent key. Its key sees no other agent. `null` for other roles. */
  agentId: string | null;
  /** The connection's registered name. Operations are bound to it. */
  verifierId: string;
  /** Whether the service answers AuthZEN requests without a proof from its registry. */
  registryAnswers: boolean;
  /** How explanations of the connection's denials keep personal values. */
  explanationValues: ExplanationValues;
};

/** Kinds of API key calls that are rate-limited separately: presenting proofs, and creating agents. */
export type RatedKind = "present" | "agents";

/**
 * A person or an application of an account. An application sees only the data of its own connection, and an
 * agent key only that of its agent.
 */
export type AccountCaller = {
  accountId: string;
  /** The customer, for an API key of a customer connection. */
  principalAccountId?: string;
  connectionId: string | null;
  agentId?: string | null;
  /** The prefix of the API key, if the call has no session. */
  keyPrefix?: string;
  /** The person, if the call has a session, and whether they act for an organization. */
  person?: ActingPerson;
  organization?: boolean;
};

/** Returns the account that has the agents, requests and certificates which a caller may see. */
export function principalOf({ accountId, principalAccountId = accountId }: AccountCaller): string {
  return principalAccountId;
}

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

/** One call. The caller is authenticated, and the route's schemas have validated every part. */
export type Call<A extends Access, P, Q, B> = {
  caller: CallerOf[A];
  params: P;
  query: Q;
  body: B;
  /** The client's address, according to trusted proxies. */
  ip: string;
  requestId: string;
  /** Returns a request header by its lower-case name, in which `service` stands for the service name. */
  header(name: string): string | undefined;
  /** Returns the value of one of the service's cookies. */
  cookie(name: CookieName): string | undefined;
  /** Returns a cookie's value under its former name, if it differs. Another host may have set it. */
  formerCookie(name: CookieName): string | undefined;
};

/** The service's cookies. In HTTP messages, their names contain the service name. */
export type CookieName = "session" | "refresh" | "csrf" | "sign_in" | "theme";

/** A cookie to set, or to clear if `value` is empty. */
export type CookieChange = { name: CookieName; value: string; maxAgeSeconds: number };

/** A route's response. `status` defaults to the status in the route's `answer`. */
export type Answer<R> = {
  body: R;
  status?: number;
  headers?: Record<string, string>;
  cookies?: CookieChange[];
  /** Additional details for the account's activity list. Not sent to the caller. Must never be secret. */
  activityDetails?: Record<string, string>;
};

/** Descriptions of headers by name. `X-Service-…` stands for the header with the service name. */
export type HeaderNotes = Record<string, string>;

type AnswerNotes = { description: string; headers?: HeaderNotes; optionalHeaders?: HeaderNotes };

/** One operation of the HTTP API: its path, callers, input, responses and errors. */
export type Route<A extends Access = Access, P = unknown, Q = unknown, B = unknown, R = unknown> = {
  /** Unique name in snake_case, used as the OpenAPI operation id. */
  id: string;
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /**
   * The path, with `{name}` parameters. The last parameter may be `{name*}`, which matches all remaining
   * segments. The route is served with the service name, and with each alias, in place of the segment
   * `service`.
   */
  path: string;
  /** Additional literal paths that serve the route. They have no parameters and are not documented. */
  alsoAt?: readonly string[];
  summary: string;
  access: A;
  /** Session routes require the caller to have completed onboarding, unless this is `"any"`. */
  onboarding?: "any";
  /**
   * The roles that may call the route with a session, in addition to owners. If absent, only owners may call
   * it. `"person"` is for calls about the signed-in person, who then acts for their own account, whichever
   * account the call names. `"service_administrator"` is for service administrators only, whatever their
   * roles in accounts. For all others, such a route does not exist.
   */
  roles?: readonly MemberRole[] | "person" | "service_administrator";
  /** The narrow API keys that may call the route, in addition to full keys. If absent, only full keys may. */
  keyRoles?: readonly NarrowRole[];
  /**
   * Returns details of the request body for the account's activity list, in addition to the path
   * parameters. They must never be secret.
   */
  activityDetails?(body: B): Record<string, string | boolean>;
  /** Whether the account's activity list has the call, although it is only about the signed-in person. */
  recorded?: true;
  /** Session calls that change state require the CSRF header. `false` only where no session exists yet. */
  csrf?: false;
  /**
   * Whether the call can end or narrow authority or access, as every `DELETE` does. Such calls have a rate
   * limit of their own, so no other calls can prevent them.
   */
  ends?: true;
  /** Whether the call only reads although it is no `GET`: its input is too long or too secret for a URL. */
  reads?: true;
  /** Whether the API key may be in `Authorization` instead, the only header that AuthZEN clients can send. */
  authorizationHeader?: true;
  /** Calls by the operator must contain the epoch of its leader, unless this is `"none"`. */
  epoch?: "none";
  params?: ZodType<P>;
  query?: ZodType<Q>;
  /** JSON body. If absent, any body is ignored. */
  body?: ZodType<B>;
  /**
   * With `"raw"`, the handler receives the unparsed bytes (a Buffer) of JSON and decodes them strictly. With
   * `"form"`, it receives the bytes of a form, and also checks their content type. Such a route declares no
   * `body`, because a standard describes its parameters.
   */
  bodyForm?: "raw" | "form";
  /** An answer with the status 303 has no body, and the schema of `undefined`. */
  answer: { status: 200 | 201 | 202 | 303; schema: ZodType<R> } & AnswerNotes;
  /** Responses that are not errors of this service. Without a schema, such a response has no body. */
  otherAnswers?: Record<number, { schema?: ZodType } & AnswerNotes>;
  /** Request headers that the route reads, in addition to those that authenticate the caller. */
  headers?: HeaderNotes;
  /** Credentials that a public route's own handler requires. The caller must send all of them. */
  demands?: readonly ("refresh" | "csrf" | "api_key")[];
  /** Error codes in addition to those of the route's kind of access and of malformed calls. */
  errors: ErrorCode[];
  /**
   * How the route treats an `Idempotency-Key`. With `true`, a repeated call receives the first response again
   * for 24 hours. With `"foreign"`, the key is ignored, because the call forwards the headers of other
   * callers. If absent, the key is ignored, and a response header says so.
   */
  idempotent?: true | "foreign";
  /** The rate limit that counts this route. It applies only to calls with an API key. */
  rate?: RatedKind;
  /**
   * Whether the response contains a secret. If so, a repeated call with the same `Idempotency-Key` receives
   * the response for ten minutes only, and only within the same sign-in or with a full key of the connection.
   */
  showsSecret?: true;
  handle(call: Call<A, P, Q, B>): Promise<Answer<R>>;
};

/**
 * Returns whether an API key's role allows calls of a route with these `keyRoles`. A route that declares no
 * narrow roles refuses all narrow keys.
 */
export function allowsKey(keyRoles: Route["keyRoles"] = [], { role }: Pick<ApiKeyCaller, "role">): boolean {
  return role === "full" || keyRoles.includes(role);
}

/** Declares a route. Its types are inferred from its schemas. */
export function route<A extends Access, P = unknown, Q = unknown, B = undefined, R = unknown>(
  declaration: Route<A, P, Q, B, R>,
): Route {
  return declaration as unknown as Route;
}
