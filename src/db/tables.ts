import type { DeclaredColumns } from "../input/declared_fields.ts";
import type { ScopeDescriptions } from "../input/platform_fields.ts";
import type { MemberRole } from "../route.ts";
import type {
  AdoptionRow,
  ClusterApproverRow,
  DeclaredCeilingRow,
  NamespaceBindingRow,
  OperatorClusterRow,
  OperatorTokenClusterRow,
  ReleasedObjectRow,
} from "./cluster_tables.ts";
import type { EventTables } from "./event_tables.ts";
import type { KeyTables, OAuthClientColumns } from "./key_tables.ts";
import type {
  OrganizationActivityRow,
  OrganizationDomainRow,
  OrganizationInvitationRow,
  OrganizationMemberRow,
} from "./organization_tables.ts";
import type { ProofTables, Refusal } from "./proof_tables.ts";

export type * from "./event_tables.ts";
export type * from "./organization_tables.ts";
export type * from "./proof_tables.ts";

/** Any JSON value, as the driver returns it from a json column. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** The members who may connect a product for an organization, by their roles. */
export type Connecting = "owners" | "owners_and_approvers";

/** Rows of the API's database, as the driver returns them, one type for each table. */
export type AccountRow = {
  account_id: string;
  email: string;
  first_name: string | null;
  last_name: string | null;
  onboarding_step: "profile" | "account_type" | "complete";
  account_type: "individual" | "organization" | null;
  organization_name: string | null;
  human_id: string | null;
  root_key_id: string | null;
  root_public_key: { ed25519: string; ml_dsa_65: string } | null;
  root_ceiling: string[] | null;
  /** The role of the account's own address in its organization. Null after the address has left it. */
  own_role: MemberRole | null;
  four_eyes: boolean;
  /** The members who may connect a product for the organization. */
  connecting: Connecting;
  created_at: Date;
};

export type SignInMailRow = {
  mail_id: string;
  email_hash: Buffer;
  kind: "digits" | "link" | "notice";
  client_hash: Buffer | null;
  anonymous: boolean;
  shared: boolean;
  code_hash: Buffer | null;
  own_tries: number;
  shared_tries: number;
  created_at: Date;
  mailed_at: Date | null;
  expires_at: Date;
  ended_at: Date | null;
  spent: boolean;
};

/** Codes that confirm a change of an account's address, or its deletion if `new_email` is null. */
export type AccountCodeRow = {
  account_id: string;
  /** The account's address to which the code was mailed. */
  email: string;
  code_hash: Buffer;
  new_email: string | null;
  new_code_hash: Buffer | null;
  tries: number;
  expires_at: Date;
};

/** An address that an account had until recently, and can get back. */
export type FormerAddressRow = { email: string; account_id: string; token_hash: Buffer; expires_at: Date };

export type SessionFamilyRow = {
  family_id: string;
  account_id: string;
  created_at: Date;
  ended_at: Date | null;
  end_reason: "logout" | "refresh_reused" | null;
  user_agent: string | null;
};

export type SessionRow = {
  session_id: string;
  family_id: string;
  account_id: string;
  token_hash: Buffer;
  refresh_hash: Buffer;
  csrf_hash: Buffer;
  created_at: Date;
  expires_at: Date;
  refresh_expires_at: Date;
  refreshed_at: Date | null;
  refreshed_by: Buffer | null;
};

export type IdempotencyKeyRow = {
  account_id: string;
  /** `person`, or a connection's id. */
  caller: string;
  route_id: string;
  key: string;
  body_hash: Buffer;
  run_id: string;
  locked_until: Date;
  /** Empty if the answer contained a secret and has been erased. */
  answer_sealed: Buffer | null;
  /** The session family that may see a secret again, and until when. Null without a secret. */
  session_family: string | null;
  secret_until: Date | null;
  created_at: Date;
};

export type RateLimitRow = { key: string; points: number; expire: number | null };

export type PlatformRow = OAuthClientColumns & {
  platform_id: string;
  account_id: string;
  name: string;
  description: string;
  surface_type: string;
  default_allowed_scopes: string[];
  /** The platform's words for its custom scopes. */
  scope_descriptions: ScopeDescriptions;
  publish_state: "draft" | "pending_review" | "published" | "suspended";
  /** The verified domain under which the platform was published. */
  published_domain: string | null;
  signing_secret_sealed: Buffer;
  external_id: string | null;
  /** The namespace of the object that declares the platform. Null if a person registered it. */
  object_namespace: string | null;
  object_name: string | null;
  created_at: Date;
  expires_at: Date;
  removed_at: Date | null;
};

export type AcceptedPrincipalRow = {
  account_id: string;
  connection_id: string;
  human_id: string;
  scopes: string[];
  granted_scope: string[];
  accepted_until: Date | null;
  created_at: Date;
  /** The owner who accepted it last. Null if not known, or if the object of the platform declares it. */
  accepted_by: string | null;
};

export type AgentRow = {
  agent_id: string;
  account_id: string;
  connection_id: string;
  name: string;
  agent_type: string;
  custody_mode: "custodial" | "self_custody";
  vault_key_id: string | null;
  public_key: { ed25519: string; ml_dsa_65: string };
  attestation: Json | null;
  external_id: string | null;
  object_name: string | null;
  created_at: Date;
  disabled_at: Date | null;
  vault_due_at: Date | null;
};

export type DelegationRequestRow = DeclaredColumns & {
  request_id: string;
  account_id: string;
  connection_id: string;
  agent_id: string;
  requested_scope: string[];
  /** The platform's words for the requested custom scopes, when the request was made. */
  scope_descriptions: ScopeDescriptions;
  /** Why the agent needs it, in the words of whoever asks. */
  purpose: string | null;
  constraints: unknown[];
  requested_expires_at: Date | null;
  requested_expires_in: number | null;
  status: "pending" | "approved" | "denied" | "expired" | "withdrawn";
  reason: string | null;
  /** The signed-in person who created the request. */
  requested_by: string | null;
  /** The member who connected the product that asks. */
  connected_by: string | null;
  decided_by: string | null;
  decided_at: Date | null;
  /** For a decision in a cluster: the cluster, the user, and the hash of the cluster's policies. */
  decided_cluster: string | null;
  decided_user: string | null;
  decided_policies: string | null;
  /** The name of the object that declares the request. */
  object_name: string | null;
  external_id: string | null;
  /** The other one of two requests that one approval decided. */
  linked_request_id: string | null;
  /** The refusal that the agent asks about. Null for requests of people and objects. */
  refusal: Refusal | null;
  /** The hash of the refused action with its verifier. Null if the service does not know the action. */
  refused_action: Buffer | null;
  created_at: Date;
  expires_at: Date;
  /** When people were reminded that the request lapses soon. */
  reminded_at: Date | null;
  /** When mails noted that nobody had decided in time. */
  lapse_noted_at: Date | null;
};

export type CertificateRow = {
  account_id: string;
  cert_id: string;
  connection_id: string;
  agent_id: string;
  request_id: string;
  approved_scope: string[];
  /** Empty if the certificate is restricted by one of the next two columns: see `ceilingOf`. */
  ceiling_scope: string[] | null;
  /** The hash of the only action that it allows, with its verifier. Null: every action within its scopes. */
  only_action: Buffer | null;
  /** The only connection at which it counts, if that is a customer connection. */
  only_at: string | null;
  restricted_ceiling: string[] | null;
  cert_json: string;
  status: "approved" | "revoked";
  issued_at: Date;
  expires_at: Date | null;
  approved_by: string;
  approval_channel: string;
  revoked_at: Date | null;
  revoke_reason: string | null;
  /** The signed-in person who revoked the certificate. */
  revoked_by: string | null;
};

export type RevocationListRow = {
  account_id: string;
  list_json: string | null;
  run_id: string | null;
  locked_until: Date | null;
};

declare module "knex/types/tables.js" {
  interface Tables extends EventTables, KeyTables, ProofTables {
    accounts: AccountRow;
    organization_members: OrganizationMemberRow;
    organization_invitations: OrganizationInvitationRow;
    organization_activity: OrganizationActivityRow;
    organization_domains: OrganizationDomainRow;
    sign_in_mails: SignInMailRow;
    account_codes: AccountCodeRow;
    former_addresses: FormerAddressRow;
    credited_addresses: { address_hash: Buffer };
    session_families: SessionFamilyRow;
    sessions: SessionRow;
    idempotency_keys: IdempotencyKeyRow;
    rate_limits: RateLimitRow;
    operator_clusters: OperatorClusterRow;
    operator_token_cluster: OperatorTokenClusterRow;
    namespace_bindings: NamespaceBindingRow;
    cluster_approvers: ClusterApproverRow;
    declared_ceilings: DeclaredCeilingRow;
    adoptions: AdoptionRow;
    released_objects: ReleasedObjectRow;
    platforms: PlatformRow;
    accepted_principals: AcceptedPrincipalRow;
    agents: AgentRow;
    delegation_requests: DelegationRequestRow;
    certificates: CertificateRow;
    revocation_lists: RevocationListRow;
  }
}
